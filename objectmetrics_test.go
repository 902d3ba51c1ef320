// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
)

// TestObjectMetrics compares the metrics with names that dashboards and alerts rely on.
func TestObjectMetrics(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	at := func(minutes int) metav1.Time { return metav1.NewTime(time.Unix(int64(minutes*60), 0)) }
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "site", Name: name, CreationTimestamp: at(1)}
	}
	newSchedule := func(name string, change func(*v1alpha1.Schedule)) client.Object {
		s := &v1alpha1.Schedule{ObjectMeta: meta(name), Spec: v1alpha1.ScheduleSpec{Schedule: "0 */6 * * *"}}
		change(s)
		return s
	}
	newBackup := func(name, schedule string, phase v1alpha1.RunPhase, ended int) client.Object {
		b := &v1alpha1.Backup{ObjectMeta: meta(name)}
		b.Labels = map[string]string{v1alpha1.LabelScheduleName: schedule}
		end := at(ended)
		b.Status.Phase, b.Status.CompletionTimestamp = phase, &end
		return b
	}
	ready := &v1alpha1.Plugin{ObjectMeta: metav1.ObjectMeta{Name: "mover"}}
	conditions.Set(ready, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonLoaded, "loaded")
	held := &v1alpha1.BackupStorageLocation{ObjectMeta: meta("main"), Status: v1alpha1.BackupStorageLocationStatus{Phase: v1alpha1.LocationPhaseAvailable}}
	conditions.Set(held, v1alpha1.ConditionExpiryHeld, metav1.ConditionTrue, v1alpha1.ReasonMassExpiry, "held")
	next, succeeded := at(360), at(7)
	cache := fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		newSchedule("nightly", func(s *v1alpha1.Schedule) {
			s.Status.NextScheduleTime, s.Status.LastSuccessfulTime = &next, &succeeded
		}),
		newSchedule("off", func(s *v1alpha1.Schedule) { s.Spec.Suspend = true }),
		newBackup("older", "nightly", v1alpha1.RunPhaseCompleted, 7), newBackup("newer", "nightly", v1alpha1.RunPhasePartiallyFailed, 8),
		held,
		&v1alpha1.BackupStorageLocation{ObjectMeta: meta("away"), Status: v1alpha1.BackupStorageLocationStatus{Phase: v1alpha1.LocationPhaseUnavailable}},
		ready, &v1alpha1.Plugin{ObjectMeta: metav1.ObjectMeta{Name: "new"}},
		&v1alpha1.Plugin{ObjectMeta: metav1.ObjectMeta{Name: "off"}, Spec: v1alpha1.PluginSpec{Suspend: true}},
	).Build()
	want := `
grapnel_location_available{location="away"} 0
grapnel_location_available{location="main"} 1
grapnel_location_expiry_held{location="away"} 0
grapnel_location_expiry_held{location="main"} 1
grapnel_plugin_ready{plugin="mover"} 1
grapnel_plugin_ready{plugin="new"} 0
grapnel_schedule_created_timestamp{schedule="nightly"} 60
grapnel_schedule_created_timestamp{schedule="off"} 60
grapnel_schedule_expected_interval_seconds{schedule="nightly"} 21600
grapnel_schedule_last_status{schedule="nightly"} 0
grapnel_schedule_last_successful_timestamp{schedule="nightly"} 420
grapnel_schedule_last_successful_timestamp{schedule="off"} 0
grapnel_schedule_next_timestamp{schedule="nightly"} 21600
grapnel_schedule_suspended{schedule="nightly"} 0
grapnel_schedule_suspended{schedule="off"} 1
`
	registry := prometheus.NewRegistry()
	if err := registerObjectMetrics(registry, cache); err != nil {
		t.Fatal(err)
	}
	recorder := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(recorder, httptest.NewRequest("GET", "/metrics", nil))
	got, builds := "\n", 0
	for line := range strings.Lines(recorder.Body.String()) {
		switch {
		case strings.HasPrefix(line, "grapnel_build_info{"):
			builds++
		case !strings.HasPrefix(line, "#"):
			got += line
		}
	}
	if got != want {
		t.Errorf("got%swant%s", got, want)
	}
	if builds != 1 {
		t.Errorf("%d series of grapnel_build_info", builds)
	}
}
