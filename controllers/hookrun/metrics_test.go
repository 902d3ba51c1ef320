// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package hookrun

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// TestMetrics_Duration measures fractions of seconds, which the timestamps do not have.
func TestMetrics_Duration(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	at := metav1.NewTime(time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC))
	before := &v1alpha1.HookRun{Spec: v1alpha1.HookRunSpec{ActionName: "example.io/freeze", Hook: v1alpha1.HookPreBackup}}
	ended := before.DeepCopy()
	ended.Status.StartTimestamp, ended.Status.CompletionTimestamp, ended.Status.Duration = &at, &at, "54ms"
	m.recordStatusUpdate(before, ended)
	skipped := before.DeepCopy()
	skipped.Status.CompletionTimestamp = &at
	m.recordStatusUpdate(before, skipped)
	recorder := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(recorder, httptest.NewRequest("GET", "/metrics", nil))
	const labels = `{action="example.io/freeze",point="PreBackup"} `
	for _, want := range []string{"grapnel_hook_duration_seconds_sum" + labels + "0.054\n", "grapnel_hook_duration_seconds_count" + labels + "1\n"} {
		if !strings.Contains(recorder.Body.String(), want) {
			t.Errorf("want %s in\n%s", want, recorder.Body)
		}
	}
}
