// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/grapnel-dev/grapnel/internal/rawclient"
	"github.com/grapnel-dev/grapnel/internal/restore"
)

// TestListAndCompare_SingleWorker has as many open LISTs as allowed, all of them waiting for
// the only worker, which must read an object again that changed.
func TestListAndCompare_SingleWorker(t *testing.T) {
	c := newTarget(t, restore.Options{Workers: 1})
	const namespaces, each = 16, 2
	fields := map[string]string{
		"ConfigMap": `{"data":{"a":"%s"}}`, "Secret": `{"stringData":{"a":"%s"}}`,
		"LimitRange": `{"metadata":{"labels":{"a":"%s"}}}`, "ResourceQuota": `{"metadata":{"labels":{"a":"%s"}}}`,
		"PodTemplate": `{"metadata":{"labels":{"a":"%s"}},` + template + `}`,
	}
	if namespaces*len(fields) <= rawclient.DefaultInFlight {
		t.Fatalf("%d kinds in %d namespaces are too few", len(fields), namespaces)
	}
	var objects []*unstructured.Unstructured
	for i := range namespaces {
		ns := fmt.Sprintf("looking-%d", i)
		c.namespace(ns)
		for kind, text := range fields {
			for j := range each {
				name := fmt.Sprintf("o-%d", j)
				c.create(obj(t, "v1", kind, ns, name, fmt.Sprintf(text, "now")))
				objects = append(objects, obj(t, "v1", kind, ns, name, fmt.Sprintf(text, "then")))
			}
		}
	}
	var lists, patches atomic.Int64
	full := make(chan struct{})
	c.wire.set(func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		_, _, single := strings.Cut(r.URL.Path, "/namespaces/looking-")
		switch {
		case r.Method == http.MethodPatch && patches.Add(1) == 1:
			return cancelRefusedOperation(r, http.StatusConflict, metav1.StatusReasonConflict), nil
		case r.Method == http.MethodGet && !single && r.URL.Path != "/api/v1/namespaces" && strings.HasPrefix(r.URL.Path, "/api/v1/"):
			// The cluster has so many other objects that each namespace is listed.
			return answer(r, http.StatusOK, `{"metadata":{"resourceVersion":"1","continue":"x","remainingItemCount":1000000},"items":[]}`), nil
		case r.Method == http.MethodGet && single:
			if lists.Add(1) == rawclient.DefaultInFlight {
				close(full)
			}
			// No LIST has an answer before all slots are taken: its handler would keep a reader
			// until there is a worker, and the first LIST of a kind needs a reader, too.
			select {
			case <-full:
			case <-r.Context().Done():
				return nil, r.Context().Err()
			}
		}
		return next.RoundTrip(r)
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	result, err := c.engine.RestoreObjects(ctx, restore.Request{Archive: spool(t, objects), Policy: restore.ExistingUpdate, RestoreUID: "u", StampKey: stampKey})
	if err != nil {
		t.Fatalf("with %d of %d objects done, the run ended with %v", result.Total(), len(objects), err)
	}
	wantCounts(t, result, map[restore.Outcome]int{restore.Updated: len(objects)})
}
