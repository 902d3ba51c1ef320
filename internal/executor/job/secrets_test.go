// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/executor"
)

// database returns a Secret of the administrator.
func database(value string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "database"}, Data: map[string][]byte{"password": []byte(value)},
	}
}

// withDatabase returns options that pass it to the container.
func (w *world) withDatabase() Options {
	options := w.options()
	options.Env = []corev1.EnvVar{{Name: "DATABASE", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: "database"}, Key: "password",
	}}}}
	return options
}

// refuseDatabase makes reads of the Secret fail with err while that is not nil.
func (w *world) refuseDatabase(err func() error) {
	w.refuse(func(verb string, o any) error {
		if _, secret := o.(*corev1.Secret); secret && verb == "get" {
			return err()
		}
		return nil
	})
}

// noLeak ends the container, which prints the value, and fails the test if the value appears
// anywhere.
func (w *world) noLeak(x *execution) {
	w.t.Helper()
	w.become(w.job(), exited(2, "it was correcthorse"))
	x.fails(w.t, executor.Failed, "ended with exit code 2: it was [REDACTED]")
	if w.lines.with("> has [REDACTED]") != 1 || w.lines.with("correcthorse") > 0 {
		w.t.Errorf("the log is %q", w.lines.all)
	}
}

// TestExecute_LateSecret: the Secret is created while the node waits for it.
func TestExecute_LateSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.logs.plays = []recording{{text: at("01", "> has correcthorse")}}
		x := w.execute(t.Context(), w.withDatabase(), call())
		w.pod(w.job(), waiting("CreateContainerConfigError", `secret "database" not found`))
		time.Sleep(20 * time.Second)
		w.must(w.client.Create(t.Context(), database("correcthorse")))
		w.become(w.job(), running())
		w.noLeak(x)
	})
}

// TestExecute_SecretReadErrors: the API server does not return the Secret for some time.
func TestExecute_SecretReadErrors(t *testing.T) {
	for name, err := range map[string]error{
		"an error":       apierrors.NewInternalError(errors.New("etcd has no leader")),
		"the connection": errConnection,
		"no right":       apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "database", errors.New("no access")),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.must(w.client.Create(t.Context(), database("correcthorse")))
				w.logs.plays = []recording{{text: at("01", "> has correcthorse")}}
				back := time.Now().Add(20 * time.Second)
				w.refuseDatabase(func() error {
					if time.Now().Before(back) {
						return err
					}
					return nil
				})
				x := w.execute(t.Context(), w.withDatabase(), call())
				if !isAccessDenied(err) { // nothing is started before the Secret was read
					time.Sleep(25 * time.Second)
					synctest.Wait()
				}
				w.pod(w.job(), running())
				time.Sleep(30 * time.Second)
				w.noLeak(x)
			})
		})
	}
}

// TestExecute_SecretReadRetry: the Secret is read again.
func TestExecute_SecretReadRetry(t *testing.T) {
	for name, takeover := range map[string]bool{"before the start": false, "after a takeover": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.must(w.client.Create(t.Context(), database("correcthorse")))
				if takeover {
					ctx, stop := context.WithCancel(t.Context())
					before := w.execute(ctx, w.withDatabase(), call())
					w.pod(w.job(), running())
					stop()
					<-before.done
				}
				w.logs.plays = []recording{{text: at("01", "> has correcthorse")}}
				failures := 0
				w.refuseDatabase(func() error {
					if failures++; failures > 2 || (failures > 1 && !takeover) {
						return nil
					}
					return apierrors.NewInternalError(errors.New("etcd has no leader"))
				})
				x := w.execute(t.Context(), w.withDatabase(), call())
				time.Sleep(5 * time.Second)
				synctest.Wait()
				if !takeover {
					w.pod(w.job(), running())
				}
				w.noLeak(x)
			})
		})
	}
}

// TestExecute_SecretForbidden: the role does not include the Secret. The Job runs, and the log says
// so.
func TestExecute_SecretForbidden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.must(w.client.Create(t.Context(), database("correcthorse")))
		w.refuseDatabase(func() error {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "database", errors.New("no access"))
		})
		began := time.Now()
		x := w.execute(t.Context(), w.withDatabase(), call())
		w.pod(w.job(), exited(0, "done"))
		<-x.done
		if took := time.Since(began); took > stuckTimeout+StopGrace {
			t.Errorf("it took %s", took)
		}
		if x.err != nil || x.answer.Message != "done" || w.lines.with("its values will not be redacted") != 1 {
			t.Errorf("it returned %+v, %v; the log is %q", x.answer, x.err, w.lines.all)
		}
	})
}

// TestExecute_SecretAfterOutage: the container gets the Secret, and ends, while the API server is
// unreachable until after the deadline.
func TestExecute_SecretAfterOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		x := w.execute(ctx, w.withDatabase(), call())
		w.pod(w.job(), waiting("CreateContainerConfigError", `secret "database" not found`))
		w.must(w.client.Create(t.Context(), database("correcthorse")))
		w.refuse(func(verb string, o any) error {
			if _, pods := o.(*corev1.PodList); pods && verb == "list" && ctx.Err() == nil {
				return errConnection
			}
			return nil
		})
		w.become(w.job(), endsAt(exited(0, "it was correcthorse"), time.Now().Add(time.Second)))
		<-x.done
		if x.err != nil || x.answer.Message != "it was [REDACTED]" {
			t.Errorf("it returned %+v, %v", x.answer, x.err)
		}
	})
}

// TestExecute_MultilineSecret prints the Secret as a file.
func TestExecute_MultilineSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.must(w.client.Create(t.Context(), database("line-one\nline-two")))
		w.logs.plays = []recording{{text: at("01", "> line-one") + at("02", "> line-two")}}
		x := w.execute(t.Context(), w.withDatabase(), call())
		w.pod(w.job(), exited(2, "found line-two"))
		x.fails(t, executor.Failed, "ended with exit code 2: found [REDACTED]")
		if w.lines.with("> [REDACTED]") != 2 {
			t.Errorf("the log is %q", w.lines.all)
		}
	})
}
