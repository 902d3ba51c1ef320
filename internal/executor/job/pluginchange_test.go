// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/redact"
)

// TestExecutor_PluginChanged changes the pod in the Plugin of an action while its Job runs, and restarts
// the operator: what runs belongs to the attempt.
func TestExecutor_PluginChanged(t *testing.T) {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "database"},
		Data:       map[string][]byte{"password": []byte("correcthorse")},
	}
	for name, follow := range map[string]func(w *world, options Options) (executor.Answer, error){
		"it runs": func(w *world, options Options) (executor.Answer, error) {
			x := w.execute(w.t.Context(), options, call())
			w.become(w.job(), exited(0, "froze correcthorse, battery9staple"))
			<-x.done
			w.nothingLeftBut(secret)
			return x.answer, x.err
		},
		"it ended": func(w *world, options Options) (executor.Answer, error) {
			w.become(w.job(), endsAt(exited(0, "froze correcthorse, battery9staple"), time.Now()))
			e, err := New(options)
			w.must(err)
			answer, ended, err := e.CollectResult(w.t.Context(), call(), time.Now())
			if !ended {
				w.t.Error("its end was not found")
			}
			return answer, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.must(w.client.Create(t.Context(), secret.DeepCopy()))
				was := w.options()
				was.Command, was.ServiceAccountName = []string{"freeze"}, "freezer"
				was.Env = []corev1.EnvVar{
					{Name: "PASSWORD", Value: "battery9staple"},
					{Name: "DATABASE", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
						LocalObjectReference: corev1.LocalObjectReference{Name: "database"}, Key: "password",
					}}},
				}
				ctx, stop := context.WithCancel(t.Context())
				x := w.execute(ctx, was, call())
				w.pod(w.job(), running())
				stop()
				<-x.done
				changed := w.options()
				changed.Image, changed.Command, changed.Labels = "registry.example/other:2", []string{"other"}, map[string]string{"example.io/team": "a"}
				changed.Redactor = redact.New()
				answer, err := follow(w, changed)
				if err != nil || answer.Message != "froze [REDACTED], [REDACTED]" || len(w.created) != 1 {
					t.Errorf("it returned %+v, %v after %d starts; want the answer of one without its secrets", answer, err, len(w.created))
				}
			})
		})
	}
}

// nothingLeftBut removes a Secret of the test and fails the test if anything else remains.
func (w *world) nothingLeftBut(secret *corev1.Secret) {
	w.t.Helper()
	w.must(w.client.Delete(context.Background(), secret.DeepCopy()))
	w.recorded(call())
}
