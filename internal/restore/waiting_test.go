// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/grapnel-dev/grapnel/internal/kube/list"
	"github.com/grapnel-dev/grapnel/internal/restore"
)

// TestObjectsThatChangeWhileManyKindsAreListed has a LIST in each place there
// is, all of them waiting for the one worker, who must look at an object once
// more: it waits for none of them.
func TestObjectsThatChangeWhileManyKindsAreListed(t *testing.T) {
	c := newTarget(t, restore.Options{Workers: 1})
	const ns, each = "listed-together", 20
	c.namespace(ns)
	kinds := map[string]string{
		"v1 ConfigMap": `{"data":{"a":"%s"}}`, "v1 Secret": `{"stringData":{"a":"%s"}}`,
		"v1 Service":                         `{"spec":{"clusterIP":"None","selector":{"a":"%s"}}}`,
		"v1 LimitRange":                      `{"metadata":{"labels":{"a":"%s"}}}`,
		"v1 ResourceQuota":                   `{"metadata":{"labels":{"a":"%s"}}}`,
		"v1 PodTemplate":                     `{"metadata":{"labels":{"a":"%s"}},` + template + `}`,
		"batch/v1 CronJob":                   `{"spec":{"suspend":true,"schedule":"0 1 * * *","jobTemplate":{"metadata":{"labels":{"a":"%s"}},"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"x"}]}}}}}}`,
		"policy/v1 PodDisruptionBudget":      `{"metadata":{"labels":{"a":"%s"}},"spec":{"minAvailable":1}}`,
		"rbac.authorization.k8s.io/v1 Role":  `{"metadata":{"labels":{"a":"%s"}}}`,
		"discovery.k8s.io/v1 EndpointSlice":  `{"metadata":{"labels":{"a":"%s"}},"addressType":"IPv4","endpoints":[]}`,
		"networking.k8s.io/v1 NetworkPolicy": `{"metadata":{"labels":{"a":"%s"}},"spec":{"podSelector":{}}}`,
	}
	if len(kinds) <= list.DefaultReaders {
		t.Fatalf("%d kinds do not take all places of LISTs", len(kinds))
	}
	var objects []*unstructured.Unstructured
	for what, fields := range kinds {
		apiVersion, kind, _ := strings.Cut(what, " ")
		for i := range each {
			name := fmt.Sprintf("o-%d", i)
			c.create(obj(t, apiVersion, kind, ns, name, fmt.Sprintf(fields, "now")))
			objects = append(objects, obj(t, apiVersion, kind, ns, name, fmt.Sprintf(fields, "then")))
		}
	}
	var reading, patches atomic.Int64
	full := make(chan struct{})
	c.wire.set(func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		if r.Method == http.MethodPatch && patches.Add(1) == 1 {
			select {
			case <-full:
			case <-r.Context().Done():
			}
			return refuse(r, http.StatusConflict, metav1.StatusReasonConflict), nil
		}
		resp, err := next.RoundTrip(r)
		if err == nil && r.Method == http.MethodGet && strings.Contains(r.URL.Path, ns) {
			resp.Body = &firstRead{ReadCloser: resp.Body, do: func() {
				if reading.Add(1) == list.DefaultReaders {
					close(full)
				}
			}}
		}
		return resp, err
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	result, err := c.engine.Run(ctx, restore.Request{Archive: spool(t, objects), Policy: restore.ExistingUpdate, RestoreUID: "u"})
	if err != nil {
		t.Fatalf("with %d objects left, the run ended with %v", len(objects)-result.Total(), err)
	}
	wantCounts(t, result, map[restore.Outcome]int{restore.Updated: len(objects)})
}

// firstRead is a body that tells when it is begun to be read.
type firstRead struct {
	io.ReadCloser
	once sync.Once
	do   func()
}

func (b *firstRead) Read(p []byte) (int, error) {
	b.once.Do(b.do)
	return b.ReadCloser.Read(p)
}
