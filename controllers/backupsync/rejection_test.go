// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backupsync_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/tombstone"
)

// seen returns the tombstones of the location.
func (w *world) seen() tombstone.Records {
	w.t.Helper()
	noted, err := tombstone.LoadRecords(w.t.Context(), w.client, namespace, "main")
	w.must(err)
	return noted
}

// notes returns the ConfigMap with the tombstones.
func (w *world) notes() *corev1.ConfigMap {
	w.t.Helper()
	config := &corev1.ConfigMap{}
	w.must(w.client.Get(w.t.Context(), client.ObjectKey{Namespace: namespace, Name: tombstone.ConfigMapName("main")}, config))
	return config
}

// TestSync_RejectedWrite has an API server that rejects the writes for one backup: everything else is
// done.
func TestSync_RejectedWrite(t *testing.T) {
	t.Parallel()
	kind := schema.GroupResource{Group: "grapnel.dev", Resource: "backups"}
	for name, answer := range map[string]error{
		"by a policy": apierrors.NewForbidden(kind, "b", errors.New("exceeded quota")),
		"by etcd":     apierrors.NewInternalError(errors.New("etcdserver: request is too large")),
	} {
		for _, verb := range []string{"create", "status of"} {
			t.Run(verb+" "+name, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				for _, name := range []string{"a", "b", "c"} {
					w.velero(name, "v-"+name)
				}
				w.local("lost", "u-1", "main", v1alpha1.RunPhaseCompleted, w.now.Add(-time.Hour))
				w.refuse = func(asked string, o client.Object) error {
					if asked == verb && o.GetName() == "b" {
						return answer
					}
					return nil
				}
				report, _ := w.look()
				if report.Unreadable != 1 || !strings.HasPrefix(report.Problems[0], "b: ") || !strings.Contains(report.Problems[0], "rejected") {
					t.Errorf("the report is %+v", report)
				}
				if status, _, _ := w.said("lost", v1alpha1.ConditionDataAvailable); status != "False" {
					t.Errorf("later work is not done: DataAvailable is %q", status)
				}
				if noted := w.seen(); noted["a"] == "" || noted["c"] == "" {
					t.Errorf("the tombstones are %v", noted)
				}
				w.now = w.now.Add(2 * time.Minute)
				w.look() // finds an object without a status; writing its status fails
				w.quiet()
				if report, _ := w.look(); report.Unreadable != 1 {
					t.Errorf("the second report is %+v", report)
				}
				w.refuse = nil
				w.now = w.now.Add(2 * time.Hour)
				w.look()
				if b := w.get("b"); b.Status.Phase != v1alpha1.RunPhaseCompleted {
					t.Errorf("the status is %+v", b.Status)
				}
			})
		}
	}
}

// TestMarkDataMissing_RejectedStatus has Backups that cannot be marked: one that was deleted, and one that was
// replaced by another object of the same name.
func TestMarkDataMissing_RejectedStatus(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.velero("replaced", "v-1")
	w.look()
	w.velero("replaced", "v-2")
	w.velero("z", "v-z")
	for _, name := range []string{"a", "b"} {
		w.local(name, "u-"+name, "main", v1alpha1.RunPhaseCompleted, w.now.Add(-time.Hour))
	}
	w.refuse = func(verb string, o client.Object) error {
		if verb == "status of" && (o.GetName() == "a" || o.GetName() == "replaced") {
			return apierrors.NewForbidden(schema.GroupResource{}, o.GetName(), errors.New("not this one"))
		}
		return nil
	}
	report, _ := w.look()
	if len(report.Problems) != 2 || !strings.HasPrefix(report.Problems[0], "replaced: the status of Backup replaced was rejected by the API server") ||
		!strings.HasPrefix(report.Problems[1], "a: the status of Backup a was rejected") {
		t.Errorf("the report is %+v", report)
	}
	w.wantNames("a", "b", "replaced", "z")
	if status, _, _ := w.said("b", v1alpha1.ConditionDataAvailable); status != "False" {
		t.Errorf("b: DataAvailable is %q", status)
	}
	w.refuse = nil
	w.now = w.now.Add(2 * time.Minute)
	w.look()
	for _, name := range []string{"a", "replaced"} {
		if status, _, _ := w.said(name, v1alpha1.ConditionDataAvailable); status != "False" {
			t.Errorf("%s: DataAvailable is %q", name, status)
		}
	}
}

// TestSync_Interrupted interrupts a sync: what it imported is recorded.
func TestSync_Interrupted(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]error{
		"too many requests": apierrors.NewTooManyRequests("slow down", 1),
		"timeout":           apierrors.NewTimeoutError("slow", 1),
		"server timeout":    apierrors.NewServerTimeout(schema.GroupResource{}, "create", 1),
		"unavailable":       apierrors.NewServiceUnavailable("busy"),
		"no connection":     errors.New("connection refused"),
		"the end":           context.Canceled,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			for _, name := range []string{"a", "b", "c"} {
				w.velero(name, "v-"+name)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			w.refuse = func(verb string, o client.Object) error {
				if verb != "create" || o.GetName() != "b" {
					return nil
				}
				if errors.Is(answer, context.Canceled) {
					cancel()
				}
				return answer
			}
			report, err := w.looker.Sync(ctx, w.store, w.bsl, w.memory)
			if !errors.Is(err, answer) || report.Unreadable != 0 {
				t.Errorf("error %v, the report is %+v", err, report)
			}
			w.wantNames("a")
			if noted := w.seen(); !maps.Equal(noted, tombstone.Records{"a": "v-a found"}) {
				t.Errorf("the tombstones are %v, want the imported backups", noted)
			}
			w.forget("a")
			w.refuse = nil
			w.look()
			w.wantNames("b", "c")
		})
	}
}
