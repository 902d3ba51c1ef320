// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package quiesce_test

import (
	"errors"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/executor/quiesce"
)

var deployments = schema.GroupResource{Group: "apps", Resource: "deployments"}

// TestQuiesce_PatchErrors: a failure of one workload does not keep Quiesce from trying the others.
func TestQuiesce_PatchErrors(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err  error
		kind executor.ErrorKind
		text string
	}{
		"forbidden":   {apierrors.NewForbidden(deployments, "web", errors.New("no rights")), executor.Failed, "no rights"},
		"a webhook":   {apierrors.NewInternalError(errors.New(`admission webhook denied: password=hunter2`)), executor.Failed, "[REDACTED]"},
		"overloaded":  {apierrors.NewTooManyRequests("later", 1), executor.Unreachable, "later"},
		"unreachable": {&url.Error{Op: "Patch", URL: "https://x", Err: errors.New("connection refused")}, executor.Unreachable, "refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, shop()...)
			before := w.all()
			w.onPatch = func(o client.Object) error {
				if o.GetName() == "web" {
					return tc.err
				}
				return nil
			}
			want := quiesced()
			want["Deployment shop/web"] = quiesce.Failed
			result, err := w.until(w.Quiesce, request())
			failed := new(quiesce.Error)
			if !errors.As(err, &failed) || failed.Kind != tc.kind || !errors.Is(err, tc.err) {
				t.Fatalf("error is %v of kind %s", err, executor.ErrorKindOf(err))
			}
			says(t, failed.Text, "could not quiesce everything: Deployment shop/web", tc.text)
			expect(t, result, want)
			w.onPatch = nil
			w.done(w.Quiesce, request())
			w.onPatch = func(o client.Object) error {
				if o.GetName() == "db" {
					return tc.err
				}
				return nil
			}
			if _, err := w.until(w.Unquiesce, request()); err == nil {
				t.Error("no error although one workload was not unquiesced")
			}
			if diff := cmp.Diff([]string{"shop/db", "shop/idle", "shop/idle-too", "shop/weekly"}, w.stopped()); diff != "" {
				t.Errorf("still stopped (-want +got):\n%s", diff)
			}
			w.onPatch = nil
			w.done(w.Unquiesce, request())
			w.same(before)
		})
	}
}

// TestQuiesce_ListErrors: a list that fails is named, and the other namespaces are tried. Without its
// autoscalers nothing in a namespace is quiesced.
func TestQuiesce_ListErrors(t *testing.T) {
	t.Parallel()
	other := deployment("web", 1)
	other.Namespace = "office"
	w := newWorld(t, deployment("web", 3), other)
	w.onList = func(l client.ObjectList, o *client.ListOptions) error {
		if _, scalers := l.(*autoscalingv2.HorizontalPodAutoscalerList); scalers && o.Namespace == "shop" {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "horizontalpodautoscalers"}, "", errors.New("no rights"))
		}
		return nil
	}
	req := request()
	req.Namespaces = []string{"office", "shop"}
	result, err := w.Quiesce(t.Context(), req)
	if err == nil {
		t.Fatal("no error")
	}
	says(t, err.Error(), "namespace shop", "HorizontalPodAutoscalers", "no rights")
	expect(t, result, map[string]quiesce.Outcome{"namespace shop": quiesce.Failed, "Deployment office/web": quiesce.Quiesced})
	if w.replicas("web") != 3 {
		t.Error("quiesced without knowing its autoscaler")
	}
}

// TestQuiesce_Conflict: others write between read and write. Their change stays, and the state saves the
// value after it.
func TestQuiesce_Conflict(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(deployment("web", 3))
	raced := false
	w.onPatch = func(client.Object) error {
		if !raced {
			raced = true
			w.scale("web", 5, "kubectl")
		}
		return nil
	}
	result, err := w.Quiesce(t.Context(), request())
	if err != nil || w.replicas("web") != 0 {
		t.Fatalf("not quiesced by one call: %+v, error %v", result, err)
	}
	expect(t, result, map[string]quiesce.Outcome{"Deployment shop/web": quiesce.Quiesced})
	w.done(w.Unquiesce, request())
	if got := w.replicas("web"); got != 5 {
		t.Errorf("unquiesced with %d replicas, want 5", got)
	}
}

// TestContended: others write all the time. That is not an error; the call is retried.
func TestContended(t *testing.T) {
	t.Parallel()
	w := newWorld(t, deployment("web", 3), deployment("api", 3))
	busy := true
	w.onPatch = func(o client.Object) error {
		if busy && o.GetName() == "web" {
			return apierrors.NewConflict(deployments, "web", errors.New("the object has been modified"))
		}
		return nil
	}
	for _, call := range []string{"quiesce", "unquiesce"} {
		busy = true
		run := w.Quiesce
		if call == "unquiesce" {
			run = w.Unquiesce
		}
		result, err := run(t.Context(), request())
		if err != nil || result.RetryAfter < executor.MinRetryAfter || outcomes(result)["Deployment shop/web"] != quiesce.Contended {
			t.Errorf("%s: %+v, error %v", call, result, err)
		}
		says(t, result.Message, "Deployment shop/web is constantly written by others")
		busy = false
		w.done(run, request())
	}
	if w.replicas("web") != 3 || w.replicas("api") != 3 {
		t.Errorf("web has %d replicas, api %d", w.replicas("web"), w.replicas("api"))
	}
}

// TestQuiesce_WorkloadDeleted: a deleted workload needs no quiescing.
func TestQuiesce_WorkloadDeleted(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"before the write":  apierrors.NewNotFound(deployments, "web"),
		"before the reread": apierrors.NewConflict(deployments, "web", errors.New("modified")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, deployment("web", 3))
			w.onPatch = func(client.Object) error { return err }
			w.onGet = func(client.Object) error { return apierrors.NewNotFound(deployments, "web") }
			expect(t, w.done(w.Quiesce, request()), map[string]quiesce.Outcome{"Deployment shop/web": quiesce.Gone})
		})
	}
}

// TestQuiesce_WorkloadRecreated: a new object of the same name is another object.
func TestQuiesce_WorkloadRecreated(t *testing.T) {
	t.Parallel()
	w := newWorld(t, deployment("web", 3))
	w.onPatch = func(client.Object) error {
		w.onPatch = nil
		if err := w.Delete(t.Context(), deployment("web", 3)); err != nil {
			t.Fatal(err)
		}
		anew := deployment("web", 4)
		anew.UID = "another"
		w.create(anew)
		return apierrors.NewConflict(deployments, "web", errors.New("modified"))
	}
	w.done(w.Quiesce, request())
	w.done(w.Unquiesce, request())
	if got := w.replicas("web"); got != 4 {
		t.Errorf("unquiesced with %d replicas, want 4", got)
	}
}

// TestQuiescer_SinglePatch: the state and the change are in one patch, with the resourceVersion that was read.
func TestQuiescer_SinglePatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, deployment("web", 3))
	w.afterPatch = func(o client.Object) error {
		var d appsv1.Deployment
		if err := w.Get(t.Context(), types.NamespacedName{Namespace: "shop", Name: o.GetName()}, &d); err != nil {
			return err
		}
		if marked := d.Annotations[quiesce.Annotation] != ""; marked != (*d.Spec.Replicas == 0) || marked != (d.Labels[quiesce.Label] == "true") {
			t.Errorf("after a write: %d replicas, %v, %v", *d.Spec.Replicas, d.Annotations, d.Labels)
		}
		return nil
	}
	w.done(w.Quiesce, request())
	w.done(w.Unquiesce, request())
	if w.patches != 2 {
		t.Errorf("%d writes, want 2", w.patches)
	}
}
