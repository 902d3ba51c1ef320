// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/grapnel-dev/grapnel/internal/restore"
)

// errLeader is why an interrupted run ends.
var errLeader = errors.New("the leader changed")

// interrupted runs a restore that ends after the n-th request for which when returns true.
func (c *target) interrupted(req restore.Request, n int64, when func(*http.Request) bool) restore.Result {
	c.t.Helper()
	result := c.interrupt(req, n, when)
	if result.Results.ErrorCount > 0 || result.Counts[restore.Failed] > 0 {
		c.t.Errorf("what was not done counts as failed:\n%s", messages(result))
	}
	return result
}

// interrupt does the same, and allows for errors.
func (c *target) interrupt(req restore.Request, n int64, when func(*http.Request) bool) restore.Result {
	c.t.Helper()
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	var count atomic.Int64
	c.wire.set(func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		resp, err := next.RoundTrip(r)
		if when(r) && count.Add(1) == n {
			cancel(errLeader)
		}
		return resp, err
	})
	defer c.wire.set(nil)
	req.BackupName, req.RestoreName, req.StampKey = "nightly", "again", stampKey
	result, err := c.engine.RestoreObjects(ctx, req)
	if !errors.Is(err, errLeader) {
		c.t.Fatalf("the interrupted run ended with %v", err)
	}
	return result
}

// TestRecreateObject_Interrupted ends after each write of a restore that deletes and
// recreates objects: objects deleted by then must be recreated.
func TestRecreateObject_Interrupted(t *testing.T) {
	const size = 4
	isWrite := func(r *http.Request) bool { return r.Method != http.MethodGet }
	for n := range int64(2 * size) {
		c := newTarget(t, restore.Options{Workers: 2})
		ns := fmt.Sprintf("recreated-%d", n)
		c.namespace(ns)
		var objects []*unstructured.Unstructured
		for i := range size {
			name := fmt.Sprintf("c-%d", i)
			c.create(configMap(t, ns, name, "now"))
			objects = append(objects, configMap(t, ns, name, "then"))
		}
		// Objects are created to see whether they exist, so each takes three writes.
		request := restore.Request{Archive: spool(t, objects), Policy: restore.ExistingRecreate, RestoreUID: "u"}
		c.interrupted(request, n+1, isWrite)
		result := c.run(request)
		if got := result.Counts[restore.Recreated] + result.Counts[restore.Created]; got != size || result.Total() != size {
			t.Errorf("after %d writes and again: %v", n+1, result.Counts)
		}
		wantMessages(t, result)
		for _, o := range objects {
			if got := data(c.get(o))["key"]; got != "then" {
				t.Errorf("after %d writes and again, %s is %q", n+1, o.GetName(), got)
			}
		}
	}
}

// TestRecreateObject_InterruptedDeletion continues while the object that it deleted still
// exists.
func TestRecreateObject_InterruptedDeletion(t *testing.T) {
	c := newTarget(t, restore.Options{GracePeriod: time.Millisecond})
	const ns = "recreated-held"
	c.namespace(ns)
	held := configMap(t, ns, "held", "now")
	held.SetFinalizers([]string{"example.org/hold"})
	c.create(held)
	request := restore.Request{
		Archive: spool(t, []*unstructured.Unstructured{configMap(t, ns, "held", "then")}), Policy: restore.ExistingRecreate, RestoreUID: "u",
	}
	watches := func(r *http.Request) bool { return r.Method == http.MethodGet && r.URL.Query().Get("watch") != "" }
	result := c.interrupt(request, 1, watches)
	wantMessages(t, result, "error "+ns+": |it was deleted to be recreated from the backup, and is not recreated yet|restore again after it is deleted")
	done := make(chan restore.Result)
	go func() { done <- c.run(request) }()
	eventually(t, "the second run waits", func() bool { return len(c.wire.requests("GET", "watch=")) > 0 })
	unhold(c, held)
	wantCounts(t, <-done, map[restore.Outcome]int{restore.Created: 1})
	if got := data(c.get(held))["key"]; got != "then" {
		t.Errorf("it is %q", got)
	}
}

// TestRestoreObjects_InterruptedWarnings ends after an object was created about which users must be
// warned.
func TestRestoreObjects_InterruptedWarnings(t *testing.T) {
	c := newTarget(t, restore.Options{})
	const ns = "interrupted-warned"
	c.namespace(ns)
	claim := obj(t, "v1", "PersistentVolumeClaim", ns, "data", `{
		"metadata":{"annotations":{"pv.kubernetes.io/bind-completed":"yes"}},
		"spec":{"accessModes":["ReadWriteOnce"],"volumeName":"gone","resources":{"requests":{"storage":"1Gi"}}}}`)
	request := restore.Request{Archive: spool(t, []*unstructured.Unstructured{claim}), RestoreUID: "u"}
	c.interrupted(request, 1, func(r *http.Request) bool { return r.Method == http.MethodPost })
	result := c.run(request)
	wantCounts(t, result, map[restore.Outcome]int{restore.Created: 1})
	wantMessages(t, result, "warning "+ns+": |does not hold the data of this claim")
}

// TestRestoreCRDs_Interrupted ends while a definition is not established yet, and
// while its objects are being restored.
func TestRestoreCRDs_Interrupted(t *testing.T) {
	for name, when := range map[string]func(*http.Request) bool{
		"created": func(r *http.Request) bool {
			return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/customresourcedefinitions")
		},
		"awaited": func(r *http.Request) bool {
			return r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/customresourcedefinitions")
		},
		"used": func(r *http.Request) bool {
			return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/widgets")
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newTarget(t, restore.Options{Workers: 2})
			group, ns := "interrupted-"+name+".example.org", "interrupted-"+name
			objects := []*unstructured.Unstructured{widgets(t, group, "v1")}
			for i := range 5 {
				objects = append(objects, widget(t, group, "v1", ns, fmt.Sprintf("w-%d", i)))
			}
			request := restore.Request{Archive: spool(t, objects), RestoreUID: "u"}
			c.interrupted(request, 1, when)
			result := c.run(request)
			wantCounts(t, result, map[restore.Outcome]int{restore.Created: len(objects) + 1})
			wantMessages(t, result)
			for _, o := range objects {
				c.get(o)
			}
		})
	}
}
