// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package quiesce_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/executor/quiesce"
)

func TestQuiescer_RoundTrip(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shop()...)
	before := w.all()
	result := w.done(w.Quiesce, request())
	expect(t, result, quiesced())
	says(t, result.Message, "8 quiesced", "3 quiesced before")
	if diff := cmp.Diff(map[string]string{
		quiesce.OutputQuiesced: "8", quiesce.OutputAlreadyQuiesced: "3",
		quiesce.OutputWorkloads: "CronJob/shop/nightly Job/shop/load Job/shop/nightly-1 Deployment/shop/web ReplicaSet/shop/old " +
			"DaemonSet/shop/agent DaemonSet/shop/proxy StatefulSet/shop/db",
	}, result.Outputs); diff != "" {
		t.Errorf("outputs (-want +got):\n%s", diff)
	}
	want := []string{
		"shop/agent", "shop/db", "shop/idle", "shop/idle-too", "shop/load", "shop/nightly", "shop/nightly-1",
		"shop/old", "shop/proxy", "shop/web", "shop/weekly",
	}
	if diff := cmp.Diff(want, w.stopped()); diff != "" {
		t.Errorf("stopped (-want +got):\n%s", diff)
	}
	req := request()
	req.Outputs = result.Outputs
	says(t, w.done(w.Unquiesce, req).Message, "8 unquiesced", "3 quiesced before")
	w.same(before)
	if again := w.done(w.Unquiesce, request()); len(again.Items) > 0 || again.Message != "Nothing to do" {
		t.Errorf("unquiescing again does something: %+v", again)
	}
}

func TestQuiescer_Pagination(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shop()...)
	before := w.all()
	w.page = 2
	expect(t, w.done(w.Quiesce, request()), quiesced())
	w.done(w.Unquiesce, request())
	w.page = 0
	w.same(before)
}

// TestQuiesce_RetryAfterWrite: a call that wrote is never the last one.
func TestQuiesce_RetryAfterWrite(t *testing.T) {
	t.Parallel()
	w := newWorld(t, deployment("web", 3))
	first, err := w.Quiesce(t.Context(), request())
	if err != nil || first.RetryAfter < executor.MinRetryAfter {
		t.Errorf("the first call is followed by another in %s (%v)", first.RetryAfter, err)
	}
	patches := w.patches
	if second, err := w.Quiesce(t.Context(), request()); err != nil || second.RetryAfter != 0 || w.patches != patches {
		t.Errorf("the second call: %+v (%v), %d patches more", second, err, w.patches-patches)
	}
}

func TestUnquiesce_OverlappingBackups(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shop()...)
	before := w.all()
	w.done(w.Quiesce, of("a"))
	expect(t, w.done(w.Quiesce, of("b")), quiesced())
	stopped := w.stopped()
	says(t, w.done(w.Unquiesce, of("a")).Message, "still held by others")
	if diff := cmp.Diff(stopped, w.stopped()); diff != "" {
		t.Errorf("the first run that ended unquiesced something:\n%s", diff)
	}
	w.done(w.Unquiesce, of("b"))
	w.same(before)
}

// TestQuiescer_FailedWrites lets each write fail once, before and after it is applied.
func TestQuiescer_FailedWrites(t *testing.T) {
	t.Parallel()
	lost := errors.New("connection lost")
	// Each of the six workloads is written twice.
	for k := 1; k <= 12; k++ {
		for _, made := range []bool{false, true} {
			t.Run(fmt.Sprintf("write %d, made %v", k, made), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, cronJob("nightly"), job("load"), deployment("web", 3), deployment("idle", 0),
					daemonSet("agent", nil), statefulSet("db", 2))
				before := w.all()
				fail := func(client.Object) error {
					if w.patches == k {
						return lost
					}
					return nil
				}
				if w.onPatch = fail; made {
					w.onPatch, w.afterPatch = nil, fail
				}
				failures := 0
				var kind executor.ErrorKind
				for _, call := range []func() (quiesce.Result, error){
					func() (quiesce.Result, error) { return w.until(w.Quiesce, request()) },
					func() (quiesce.Result, error) { return w.until(w.Unquiesce, request()) },
				} {
					_, err := call()
					if failed := new(quiesce.Error); errors.As(err, &failed) {
						failures++
						kind = failed.Kind
						_, err = call()
					}
					if err != nil {
						t.Fatalf("failed again when repeated: %v", err)
					}
				}
				if failures != 1 || kind != executor.Unreachable {
					t.Errorf("failed %d times, the last time as %q", failures, kind)
				}
				w.same(before)
			})
		}
	}
}

// TestQuiesce_Reverted reverts the number after every call, as a controller does.
func TestQuiesce_Reverted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(deployment("web", 3)) // so that the managers of its fields are known
	w.create(deployment("api", 2))
	var err error
	var result quiesce.Result
	calls := 0
	for ; err == nil && calls < 10; calls++ {
		result, err = w.Quiesce(t.Context(), request())
		if err == nil && result.RetryAfter == 0 {
			t.Fatal("it is done, although it runs")
		}
		w.scale("web", 3, "shop-operator")
	}
	failed := new(quiesce.Error)
	if !errors.As(err, &failed) || failed.Kind != executor.Failed {
		t.Fatalf("after %d calls: %v", calls, err)
	}
	says(t, failed.Text, "Deployment shop/web", "set to 3 replicas", `"shop-operator"`)
	expect(t, result, map[string]quiesce.Outcome{"Deployment shop/web": quiesce.Reverted, "Deployment shop/api": quiesce.Quiesced})
	result = w.done(w.Unquiesce, request())
	expect(t, result, map[string]quiesce.Outcome{"Deployment shop/web": quiesce.ChangedSince, "Deployment shop/api": quiesce.Restored})
	if w.replicas("web") != 3 || w.replicas("api") != 2 {
		t.Errorf("web has %d replicas, api %d", w.replicas("web"), w.replicas("api"))
	}
}

func TestQuiesce_Selection(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*quiesce.Request)
		want   []string
	}{
		"a CronJob by its label, with its Job": {
			func(r *quiesce.Request) {
				r.Selector = labels.SelectorFromSet(labels.Set{"app": "nightly"})
			}, []string{"shop/nightly", "shop/nightly-1"},
		},
		"Jobs only": {
			func(r *quiesce.Request) { r.Kinds = []quiesce.WorkloadKind{quiesce.Job} }, []string{"shop/load", "shop/nightly-1"},
		},
		"Jobs only, by the label of their CronJob": {
			func(r *quiesce.Request) {
				r.Kinds = []quiesce.WorkloadKind{quiesce.Job}
				r.Selector = labels.SelectorFromSet(labels.Set{"app": "nightly"})
			}, []string{"shop/nightly-1"},
		},
		"another namespace":    {func(r *quiesce.Request) { r.Namespaces = []string{"office", "office"} }, []string{"office/web"}},
		"namespaces of no use": {func(r *quiesce.Request) { r.Namespaces = []string{"kube-system", "grapnel-system", "none"} }, nil},
		"many namespaces": {
			func(r *quiesce.Request) {
				r.Namespaces = []string{"a", "b", "c", "d", "e", "f", "g", "h", "office", "kube-system"}
			}, []string{"office/web"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects := shop()
			for _, namespace := range []string{"kube-system", "grapnel-system"} {
				dns := deployment("dns", 2)
				dns.Namespace = namespace
				objects = append(objects, dns)
			}
			w := newWorld(t, objects...)
			sleeping := map[string]bool{"shop/idle": true, "shop/idle-too": true, "shop/weekly": true}
			req := request()
			tc.change(&req)
			w.done(w.Quiesce, req)
			var stopped []string
			for _, name := range w.stopped() {
				if !sleeping[name] {
					stopped = append(stopped, name)
				}
			}
			if diff := cmp.Diff(tc.want, stopped); diff != "" {
				t.Errorf("stopped (-want +got):\n%s", diff)
			}
			if w.lists > 50 {
				t.Errorf("%d lists", w.lists)
			}
		})
	}
}

// TestQuiesce_ActionJobs: another Backup waits for such a Job to finish.
func TestQuiesce_ActionJobs(t *testing.T) {
	t.Parallel()
	action := job("grapnel-dump")
	action.Labels = map[string]string{"app.kubernetes.io/managed-by": "grapnel", "grapnel.dev/idempotency-key": "hook-run"}
	w := newWorld(t, action, job("load"))
	expect(t, w.done(w.Quiesce, request()), map[string]quiesce.Outcome{"Job shop/load": quiesce.Quiesced})
}

// TestQuiesce_MaxDurationExceeded: a late call does not hold longer than the first one could, and does not
// quiesce again what was unquiesced. This holds for runs whose start is known, and for others.
func TestQuiesce_MaxDurationExceeded(t *testing.T) {
	t.Parallel()
	for name, since := range map[string]time.Time{"known": start, "not known": {}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, deployment("web", 3))
			req := request()
			req.Since = since
			w.done(w.Quiesce, req)
			w.now = start.Add(time.Hour + time.Minute)
			for _, given := range []bool{false, true} {
				if given {
					if _, err := w.overdue(w.now); err != nil {
						t.Fatal(err)
					}
				}
				_, err := w.Quiesce(t.Context(), req)
				failed := new(quiesce.Error)
				if !errors.As(err, &failed) || failed.Kind != executor.Failed || (w.replicas("web") == 3) != given {
					t.Fatalf("unquiesced %v: error is %v, %d replicas", given, err, w.replicas("web"))
				}
				says(t, failed.Text, "raise", "find out")
			}
			other := of("b")
			other.Since = time.Time{}
			if result := w.done(w.Quiesce, other); w.replicas("web") != 0 {
				t.Errorf("another run could not quiesce it: %+v", result)
			}
		})
	}
}
