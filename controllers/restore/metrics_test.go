// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

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

// TestRecordStatusUpdate_ItemCounts checks that objects are counted once, when the outcome is recorded.
func TestRecordStatusUpdate_ItemCounts(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := newMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	before := &v1alpha1.Restore{Spec: v1alpha1.RestoreSpec{ScheduleName: "nightly"}}
	before.Status.Counts = &v1alpha1.RestoreCounts{Created: 1}
	after := before.DeepCopy()
	at := metav1.NewTime(time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC))
	after.Status.CompletionTimestamp = &at
	after.Status.Counts = &v1alpha1.RestoreCounts{Created: 6, Updated: 5, Recreated: 4, Unchanged: 3, Skipped: 2, Failed: 1}
	m.recordStatusUpdate(before, before)
	m.recordStatusUpdate(before, after)
	m.recordStatusUpdate(after, after)
	dryBefore, dry := before.DeepCopy(), after.DeepCopy()
	dryBefore.Spec.DryRun, dry.Spec.DryRun = true, true
	m.recordStatusUpdate(dryBefore, dry)

	recorder := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(recorder, httptest.NewRequest("GET", "/metrics", nil))
	for _, want := range []string{
		`{result="created",schedule="nightly"} 6`, `{result="updated",schedule="nightly"} 5`,
		`{result="recreated",schedule="nightly"} 4`, `{result="unchanged",schedule="nightly"} 3`,
		`{result="skipped",schedule="nightly"} 2`, `{result="failed",schedule="nightly"} 1`,
	} {
		if !strings.Contains(recorder.Body.String(), "grapnel_restore_items_total"+want+"\n") {
			t.Errorf("want grapnel_restore_items_total%s in\n%s", want, recorder.Body)
		}
	}
}
