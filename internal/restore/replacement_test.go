// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/grapnel-dev/grapnel/internal/restore"
)

// TestRestoreObjects_Immutable has immutable objects. They can be replaced, and not updated. Unchanged ones are only labeled.
func TestRestoreObjects_Immutable(t *testing.T) {
	c := newTarget(t, restore.Options{})
	const ns = "immutable"
	c.namespace(ns)
	fixed := obj(t, "v1", "ConfigMap", ns, "fixed", `{"immutable":true,"data":{"key":"now"}}`)
	same := obj(t, "v1", "Secret", ns, "same", `{"immutable":true,"data":{"key":"Yg=="},"type":"Opaque"}`)
	before := c.create(fixed, same)
	request := restore.Request{Policy: restore.ExistingUpdate, Archive: spool(t, []*unstructured.Unstructured{
		obj(t, "v1", "ConfigMap", ns, "fixed", `{"immutable":true,"data":{"key":"then"}}`), same,
	})}
	result := c.run(request)
	wantCounts(t, result, map[restore.Outcome]int{restore.Failed: 1, restore.Unchanged: 1})
	wantMessages(t, result, `error immutable: |configmaps "immutable/fixed"|field is immutable|existingResourcePolicy recreate replaces it`)

	request.Policy = restore.ExistingRecreate
	result = c.run(request)
	wantCounts(t, result, map[restore.Outcome]int{restore.Recreated: 1, restore.Unchanged: 1})
	wantMessages(t, result)
	if got := c.get(fixed); data(got)["key"] != "then" || got.GetUID() == before[0].GetUID() {
		t.Errorf("it has %v", data(got))
	}
	if got := c.get(same); got.GetUID() != before[1].GetUID() || !cmp.Equal(data(got), data(before[1])) {
		t.Error("what was as it should be was changed")
	}
	if deletes := c.wire.requests("DELETE", "/"); len(deletes) != 1 {
		t.Errorf("deleted %v", deletes)
	}
}

// TestRecreateObject_SuccessorIsRefused never deletes an object that it could not replace.
func TestRecreateObject_SuccessorIsRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		// The number of further objects of the kind, so that it is listed.
		more int
		want string
	}{
		"found by creating it": {want: "Required value"},
		"found by a list":      {more: 25, want: "Required value"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newTarget(t, restore.Options{})
			ns := fmt.Sprintf("refused-%d", tc.more)
			c.namespace(ns)
			was := obj(t, "v1", "Secret", ns, "certificate", `{"type":"Opaque","data":{"key":"Yg=="}}`)
			before := c.create(was)[0]
			// No API server accepts it without a certificate.
			objects := []*unstructured.Unstructured{obj(t, "v1", "Secret", ns, "certificate", `{"type":"kubernetes.io/tls","data":{"key":"Yg=="}}`)}
			for i := range tc.more {
				more := obj(t, "v1", "Secret", ns, fmt.Sprintf("more-%d", i), `{"type":"Opaque"}`)
				c.create(more)
				objects = append(objects, more)
			}
			result := c.run(restore.Request{Policy: restore.ExistingRecreate, RestoreUID: "u", Archive: spool(t, objects)})
			want := map[restore.Outcome]int{restore.Failed: 1}
			if tc.more > 0 {
				want[restore.Unchanged] = tc.more
			}
			wantCounts(t, result, want)
			wantMessages(t, result, "error "+ns+`: it was not deleted or changed|secrets "`+ns+`/certificate"|`+tc.want)
			if after := c.get(was); after.GetUID() != before.GetUID() || after.GetResourceVersion() != before.GetResourceVersion() {
				t.Errorf("the object was changed: %v", after)
			}
		})
	}
}

// TestRecreateObject_NoQuota: the quota does not allow an object in addition to the one
// that it replaces.
func TestRecreateObject_NoQuota(t *testing.T) {
	const service = `{"spec":{"type":"ClusterIP","ports":[{"port":80}]}}`
	for name, tc := range map[string]struct {
		kind, was, then string
		// hard is the quota, and used the share of the object.
		hard, used string
		want       restore.Outcome
		message    string
	}{
		"one that an update fits into": {
			kind: "Service", was: service, then: `{"spec":{"type":"ClusterIP","ports":[{"port":81}]}}`,
			hard: `{"services":"1"}`, used: "services", want: restore.Updated,
			message: "warning |it was updated in place|exceeded quota",
		},
		"one that was lowered since": {
			kind: "Service", was: service, then: `{"spec":{"type":"ClusterIP","ports":[{"port":81}]}}`,
			hard: `{"services":"0"}`, used: "services", want: restore.Updated,
			message: "warning |it was updated in place|exceeded quota",
		},
		"one that the successor exceeds": {
			kind: "Service", was: service, then: `{"spec":{"type":"NodePort","ports":[{"port":81}]}}`,
			hard: `{"services":"1","services.nodeports":"0"}`, used: "services", want: restore.Failed,
			message: "error |it was not deleted|exceeded quota|raise the quota",
		},
		"an object that cannot be updated": {
			kind: "Secret", was: `{"immutable":true,"data":{"key":"Yg=="},"type":"Opaque"}`, then: `{"immutable":true,"data":{"key":"Yw=="},"type":"Opaque"}`,
			hard: `{"secrets":"1"}`, used: "secrets", want: restore.Failed,
			message: "error |it was not deleted|exceeded quota|field is immutable",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newTarget(t, restore.Options{})
			ns := "quota-" + strings.ReplaceAll(name, " ", "-")
			c.namespace(ns)
			was := obj(t, "v1", tc.kind, ns, "web", tc.was)
			before := c.create(was)[0]
			quota := c.create(obj(t, "v1", "ResourceQuota", ns, "few", `{"spec":{"hard":`+tc.hard+`}}`))[0]
			eventually(t, "the quota counts", func() bool {
				used, _, _ := unstructured.NestedString(c.get(quota).Object, "status", "used", tc.used)
				return used == "1"
			})
			result := c.run(restore.Request{Policy: restore.ExistingRecreate, RestoreUID: "u", Archive: spool(t, []*unstructured.Unstructured{
				obj(t, "v1", tc.kind, ns, "web", tc.then),
			})})
			wantCounts(t, result, map[restore.Outcome]int{tc.want: 1})
			wantMessages(t, result, strings.Replace(tc.message, " ", " "+ns+": ", 1))
			after := c.get(was)
			if after.GetUID() != before.GetUID() {
				t.Error("the object was replaced")
			}
			if changed := after.GetResourceVersion() != before.GetResourceVersion(); changed != (tc.want == restore.Updated) {
				t.Errorf("the object was changed: %t", changed)
			}
		})
	}
}

// TestRecreateObject_OccupiedByItself replaces objects with values that only one object may
// have.
func TestRecreateObject_OccupiedByItself(t *testing.T) {
	c := newTarget(t, restore.Options{})
	const ns = "occupied"
	c.namespace(ns)
	const applied = `"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{\"spec\":{\"ports\":[{\"nodePort\":30123,\"port\":80}]}}"}}`
	service := func(app string) *unstructured.Unstructured {
		return obj(t, "v1", "Service", ns, "web", `{`+applied+`,"spec":{"type":"NodePort","selector":{"app":"`+app+`"},"ports":[{"port":80,"nodePort":30123}]}}`)
	}
	priority := func(value string) *unstructured.Unstructured {
		return obj(t, "scheduling.k8s.io/v1", "PriorityClass", "", "occupied-default", `{"globalDefault":true,"value":`+value+`}`)
	}
	c.create(service("now"), priority("7"))
	t.Cleanup(func() { c.delete(priority("7")) })
	for range 2 { // the second time they are listed, as they would be among many
		result := c.run(restore.Request{
			Policy: restore.ExistingRecreate, PreserveNodePorts: true,
			Archive: spool(t, []*unstructured.Unstructured{service("then"), priority("8")}),
		})
		if result.Counts[restore.Failed] > 0 {
			t.Fatalf("counts %v:\n%s", result.Counts, messages(result))
		}
	}
	if got, _, _ := unstructured.NestedInt64(c.get(priority("8")).Object, "value"); got != 8 {
		t.Errorf("the PriorityClass has the value %d", got)
	}
	if got, _, _ := unstructured.NestedString(c.get(service("")).Object, "spec", "selector", "app"); got != "then" {
		t.Errorf("the Service selects %q", got)
	}
}

// TestRecreateObject_PutBack: the API server rejects the replacement after the old object
// is deleted.
func TestRecreateObject_PutBack(t *testing.T) {
	for name, tc := range map[string]struct {
		was, then *unstructured.Unstructured
		// refused is how many of the create requests are rejected.
		refused int64
		want    string
		missing bool
	}{
		"a ConfigMap": {
			was: configMap(t, "put-back", "c", "now"), then: configMap(t, "put-back", "c", "then"), refused: 1,
			want: "the original object was recreated",
		},
		"an object with what its controller wrote": {
			was: obj(t, "batch/v1", "Job", "put-back", "j", `{"spec":{"suspend":true,"template":{"spec":{"restartPolicy":"Never",
				"containers":[{"name":"c","image":"i"}]}}}}`),
			then: obj(t, "batch/v1", "Job", "put-back", "j", `{"spec":{"suspend":true,"parallelism":2,"template":{"spec":{"restartPolicy":"Never",
				"containers":[{"name":"c","image":"j"}]}}}}`),
			refused: 1, want: "the original object was recreated",
		},
		"nothing more is accepted": {
			was: configMap(t, "put-back", "gone", "now"), then: configMap(t, "put-back", "gone", "then"), refused: 3,
			want: "could not be recreated, and is missing|create it by hand", missing: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newTarget(t, restore.Options{})
			if !c.has(obj(t, "v1", "Namespace", "", "put-back", "")) {
				c.namespace("put-back")
			}
			tc.was.SetLabels(map[string]string{"mine": "kept"})
			before := c.create(tc.was)[0]
			var deleted atomic.Bool
			var refused atomic.Int64
			c.wire.set(func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
				switch {
				case r.Method == http.MethodDelete:
					deleted.Store(true)
				case r.Method == http.MethodPost && deleted.Load() && refused.Add(1) <= tc.refused:
					return cancelRefusedOperation(r, http.StatusForbidden, metav1.StatusReasonForbidden), nil
				}
				return next.RoundTrip(r)
			})
			result := c.run(restore.Request{Policy: restore.ExistingRecreate, RestoreUID: "u", Archive: spool(t, []*unstructured.Unstructured{tc.then})})
			c.wire.set(nil)
			wantCounts(t, result, map[restore.Outcome]int{restore.Failed: 1})
			wantMessages(t, result, "error put-back: |it was deleted, and then the API server rejected its replacement|refused by the test|"+tc.want)
			if tc.missing {
				if c.has(tc.was) {
					t.Error("it is there")
				}
				return
			}
			after := c.get(tc.was)
			if after.GetUID() == before.GetUID() || after.GetLabels()["mine"] != "kept" || after.GetAnnotations()[stampAnnotation] != "" {
				t.Errorf("it is back with metadata %v", after.Object["metadata"])
			}
			if got, want := data(after)["key"], data(before)["key"]; got != want {
				t.Errorf("it is back with the value %q, want %q", got, want)
			}
		})
	}
}

// TestRecreateObject_RunEndsInBetween is canceled when an object is deleted: the same run
// creates it again.
func TestRecreateObject_RunEndsInBetween(t *testing.T) {
	c := newTarget(t, restore.Options{})
	const ns = "recreate-ends"
	c.namespace(ns)
	c.create(configMap(t, ns, "c", "now"))
	request := restore.Request{
		Archive: spool(t, []*unstructured.Unstructured{configMap(t, ns, "c", "then")}), Policy: restore.ExistingRecreate, RestoreUID: "u",
	}
	result := c.interrupted(request, 1, func(r *http.Request) bool { return r.Method == http.MethodDelete })
	wantCounts(t, result, map[restore.Outcome]int{restore.Recreated: 1})
	if got := data(c.get(configMap(t, ns, "c", "")))["key"]; got != "then" {
		t.Errorf("it is %q", got)
	}
}

// TestRecreateObject_RefusedAfterCrash: an object is missing that an earlier attempt may
// have deleted, and it cannot be created.
func TestRecreateObject_RefusedAfterCrash(t *testing.T) {
	c := newTarget(t, restore.Options{})
	const ns = "recreate-crash"
	c.namespace(ns)
	c.wire.set(func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		if r.Method == http.MethodPost {
			return cancelRefusedOperation(r, http.StatusForbidden, metav1.StatusReasonForbidden), nil
		}
		return next.RoundTrip(r)
	})
	request := restore.Request{Archive: spool(t, []*unstructured.Unstructured{configMap(t, ns, "c", "then")}), Policy: restore.ExistingRecreate}
	const maybe = "an earlier attempt of this restore may have deleted it"
	if got := messages(c.run(request)); strings.Contains(got, maybe) {
		t.Errorf("the first attempt has the messages:\n%s", got)
	}
	request.Resumed = true
	wantMessages(t, c.run(request), "error "+ns+": |refused by the test|"+maybe)
}
