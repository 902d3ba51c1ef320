// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package location

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/memory"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/storetest"
)

// TestMetrics measures each operation, and counts what failed. A missing object is no failure.
func TestMetrics(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	measured, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	o := &Opener{Redactor: redact.New(), Metrics: measured}
	broken := storetest.NewFaultyStore(memory.New(), storetest.Fault{Method: storetest.MethodDelete, Key: "*", Before: errors.New("it broke")})
	store := o.guardObjectStore(broken, &v1alpha1.BackupStorageLocation{ObjectMeta: metav1.ObjectMeta{Namespace: "site", Name: "main"}})
	ctx := t.Context()
	_, put := store.Put(ctx, "a", strings.NewReader("x"), objectstore.PutOptions{})
	_, missing := store.Get(ctx, "none")
	_, stat := store.Stat(ctx, "a")
	for _, err := range store.List(ctx, objectstore.ListOptions{}) {
		put = errors.Join(put, err)
	}
	if err := errors.Join(put, stat); err != nil || !errors.Is(missing, objectstore.ErrNotExist) {
		t.Fatal(err, missing)
	}
	if err := store.Delete(ctx, "a"); err == nil {
		t.Fatal("Delete succeeded")
	}
	scrape := func() string {
		recorder := httptest.NewRecorder()
		promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(recorder, httptest.NewRequest("GET", "/metrics", nil))
		return recorder.Body.String()
	}
	text := scrape()
	for _, operation := range []string{"put", "get", "stat", "list", "delete"} {
		if want := `grapnel_store_request_duration_seconds_count{location="main",operation="` + operation + `"} 1`; !strings.Contains(text, want) {
			t.Errorf("%s is missing in\n%s", want, text)
		}
	}
	if want := `grapnel_store_request_errors_total{location="main",operation="delete"} 1`; !strings.Contains(text, want) || strings.Count(text, "errors_total{") != 1 {
		t.Errorf("want only %s in\n%s", want, text)
	}
	o.ReleaseDeletedLocation(ctx, types.NamespacedName{Namespace: "site", Name: "main"})
	if text := scrape(); strings.Contains(text, "main") {
		t.Errorf("the location was deleted, and there is\n%s", text)
	}
}
