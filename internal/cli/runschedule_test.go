// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

func TestNewRunRequest(t *testing.T) {
	for name, tc := range map[string]struct{ now, created, annotation, handled, want string }{
		"now":                       {now: "2026-01-02T03:04:05Z", want: "2026-01-02T03:04:05Z"},
		"a fraction of a second":    {now: "2026-01-02T03:04:05.001Z", want: "2026-01-02T03:04:06Z"},
		"in another zone":           {now: "2026-01-02T04:04:05+01:00", want: "2026-01-02T03:04:05Z"},
		"before the creation":       {now: "2026-01-02T03:04:05.5Z", created: "2026-01-02T03:09:00Z", want: "2026-01-02T03:09:00Z"},
		"after an earlier request":  {now: "2026-01-02T03:04:05Z", annotation: "2026-01-02T03:04:04.9Z", want: "2026-01-02T03:04:05Z"},
		"the same as the last":      {now: "2026-01-02T03:04:05Z", annotation: "2026-01-02T03:04:05Z", want: "2026-01-02T03:04:06Z"},
		"the second of the last":    {now: "2026-01-02T03:04:05Z", annotation: "2026-01-02T04:04:05.9+01:00", want: "2026-01-02T03:04:06Z"},
		"the last and the handled":  {now: "2026-01-02T03:04:05Z", annotation: "2026-01-02T03:04:05Z", handled: "2026-01-02T03:04:06Z", want: "2026-01-02T03:04:07Z"},
		"the last and a fraction":   {now: "2026-01-02T03:04:05Z", annotation: "2026-01-02T03:04:05.9Z", handled: "2026-01-02T03:04:06Z", want: "2026-01-02T03:04:07Z"},
		"after one of yesterday":    {now: "2026-01-02T03:04:05Z", annotation: "2026-01-01T03:04:05Z", want: "2026-01-02T03:04:05Z"},
		"the last was removed":      {now: "2026-01-02T03:04:05Z", handled: "2026-01-02T03:04:05Z", want: "2026-01-02T03:04:06Z"},
		"the last is in the future": {now: "2026-01-02T03:04:05Z", annotation: "2030-01-02T03:04:05Z", want: "2026-01-02T03:04:05Z"},
		"the last is no time":       {now: "2026-01-02T03:04:05Z", annotation: "now", handled: "now", want: "2026-01-02T03:04:05Z"},
	} {
		t.Run(name, func(t *testing.T) {
			parse := func(text string) time.Time {
				if text == "" {
					return time.Time{}
				}
				at, err := time.Parse(time.RFC3339, text)
				if err != nil {
					t.Fatal(err)
				}
				return at
			}
			s := &v1alpha1.Schedule{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(parse(tc.created))}}
			s.Annotations = map[string]string{v1alpha1.AnnotationRunRequestedAt: tc.annotation}
			s.Status.LastHandledRunRequest = tc.handled
			if got := newRunRequest(s, parse(tc.now)); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}

// TestRunSchedule answers a request with the changes that a watch delivers, the first of which is an older state.
func TestRunSchedule(t *testing.T) {
	handle := func(backup, message string) func(*v1alpha1.Schedule) {
		return func(s *v1alpha1.Schedule) {
			s.Status.LastHandledRunRequest = s.Annotations[v1alpha1.AnnotationRunRequestedAt]
			s.Status.LastRequestedBackup, s.Status.LastRunRequestMessage = backup, message
		}
	}
	for name, tc := range map[string]struct {
		// Each watch delivers the Schedule after these changes, and ends, except for the last.
		watches  [][]func(*v1alpha1.Schedule)
		timeout  time.Duration
		out, err string
	}{
		"created": {
			watches: [][]func(*v1alpha1.Schedule){{handle("nightly-1", "")}},
			out:     "Backup nightly-1 created\n",
		},
		"created after a watch has ended": {
			watches: [][]func(*v1alpha1.Schedule){{func(*v1alpha1.Schedule) {}}, {handle("nightly-1", "")}},
			out:     "Backup nightly-1 created\n",
		},
		"there is one": {
			watches: [][]func(*v1alpha1.Schedule){{handle("nightly-1", "nightly-1 was created for the same second")}},
			out:     "nightly-1 was created for the same second\n",
		},
		"refused": {
			watches: [][]func(*v1alpha1.Schedule){{handle("", "nightly-0 has not ended")}},
			err:     "the operator created no Backup of Schedule nightly: nightly-0 has not ended",
		},
		"replaced": {
			watches: [][]func(*v1alpha1.Schedule){{func(*v1alpha1.Schedule) {}, func(s *v1alpha1.Schedule) {
				s.Annotations[v1alpha1.AnnotationRunRequestedAt] = "2030-01-02T03:04:05Z"
			}}},
			err: "another request replaced this one",
		},
		"no operator": {
			watches: [][]func(*v1alpha1.Schedule){{}},
			err: "the operator has not handled the request after 30s\nCheck that the operator runs, and that its version knows the annotation " +
				"grapnel.dev/run-requested-at. It may still create the Backup. " +
				"To withdraw the request: kubectl annotate schedules.grapnel.dev nightly grapnel.dev/run-requested-at-",
		},
		"the Backup is rejected": {
			watches: [][]func(*v1alpha1.Schedule){{func(s *v1alpha1.Schedule) { s.Status.Message = "policy says no" }}}, timeout: time.Minute,
			err: "the operator has not handled the request after 1m0s; the Schedule reports: policy says no\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out bytes.Buffer
				a := &app{out: newTerminal(&out)}
				backup, err := a.runSchedule(t.Context(), newScheduleConnection(t, tc.watches, tc.timeout), "nightly")
				if out.String() != tc.out || (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
					t.Errorf("%q and %v, want %q and %q", out.String(), err, tc.out, tc.err)
				}
				if wantBackup := map[bool]string{true: "nightly-1"}[tc.err == ""]; backup != wantBackup {
					t.Errorf("the Backup is %q, want %q", backup, wantBackup)
				}
			})
		})
	}
}

// TestRunSchedule_Interrupted interrupts the command while it waits for the operator.
func TestRunSchedule_Interrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := newScheduleConnection(t, [][]func(*v1alpha1.Schedule){{func(*v1alpha1.Schedule) { cancel() }}}, 0)
	_, err := (&app{out: newTerminal(&bytes.Buffer{})}).runSchedule(ctx, c, "nightly")
	if exit, is := errors.AsType[*exitError](err); !is || exit.code != exitFailure || exit.message != "interrupted; the operator still handles the request" {
		t.Errorf("the error is %v", err)
	}
}

// newScheduleConnection returns a connection to a cluster with the Schedule nightly. Each watch delivers the Schedule as it was
// before the command, and after each change.
func newScheduleConnection(t *testing.T, watches [][]func(*v1alpha1.Schedule), timeout time.Duration) *connection {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	old := &v1alpha1.Schedule{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "nightly"}}
	watched := 0
	serve := func(ctx context.Context, c client.WithWatch, _ client.ObjectList, _ ...client.ListOption) (watch.Interface, error) {
		changes := watches[watched]
		watched++
		s := &v1alpha1.Schedule{}
		if err := c.Get(ctx, client.ObjectKeyFromObject(old), s); err != nil {
			return nil, err
		}
		events := watch.NewFakeWithChanSize(len(changes)+1, false)
		events.Add(old)
		for _, change := range changes {
			change(s)
			events.Modify(s.DeepCopy())
		}
		if watched < len(watches) {
			events.Stop()
		}
		go func() { // as a client does
			<-ctx.Done()
			events.Stop()
		}()
		return events, nil
	}
	cluster := fake.NewClientBuilder().WithScheme(scheme).WithObjects(old.DeepCopy()).
		WithInterceptorFuncs(interceptor.Funcs{Watch: serve}).Build()
	return &connection{WithWatch: cluster, config: &rest.Config{Timeout: timeout}, namespace: "ns"}
}
