// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"fmt"
	"maps"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
)

// objects is a reader that always returns these objects.
type objects []runtime.Object

func (o objects) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return fmt.Errorf("metrics must only read lists")
}

func (o objects) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	asked := (&client.ListOptions{}).ApplyOptions(opts)
	if asked.UnsafeDisableDeepCopy == nil || !*asked.UnsafeDisableDeepCopy {
		return fmt.Errorf("a scrape must not copy the whole cache")
	}
	return meta.SetList(list, o)
}

// scrape returns the values of the metrics, by name with labels.
func scrape(t *testing.T, registry *prometheus.Registry) map[string]string {
	t.Helper()
	recorder := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(recorder, httptest.NewRequest("GET", "/metrics", nil))
	values := map[string]string{}
	for line := range strings.Lines(recorder.Body.String()) {
		line = strings.TrimSpace(line)
		if at := strings.LastIndex(line, " "); !strings.HasPrefix(line, "#") && !strings.Contains(line, "_bucket{") {
			values[line[:at]] = line[at+1:]
		}
	}
	return values
}

// planned returns an object as a run whose plan is recorded.
func planned[T Object](o T) T {
	at := metav1.NewTime(noon)
	o.Run().StartTimestamp = &at
	conditions.Set(o, v1alpha1.ConditionPlanned, metav1.ConditionTrue, v1alpha1.ReasonPlanRecorded, "planned")
	return o
}

// ended returns an object as a run that finished three seconds later.
func ended[T Object](o T, phase v1alpha1.RunPhase) T {
	at := metav1.NewTime(noon.Add(3 * time.Second))
	o.SetPhase(phase)
	o.Run().CompletionTimestamp = &at
	return o
}

// measured records some runs in the metrics, gives them the objects that exist, and returns
// their values.
func measured[T Object](t *testing.T, kind KindTraits, empty func() T, list client.ObjectList, schedule func(T) string) map[string]string {
	t.Helper()
	registry := prometheus.NewRegistry()
	completed := func(name string, owed metav1.ConditionStatus, reason string) T {
		o := ended(planned(empty()), v1alpha1.RunPhaseCompleted)
		o.SetNamespace("site")
		o.SetName(name)
		conditions.Set(o, v1alpha1.ConditionCleanupOwed, owed, reason, "clean-up")
		return o
	}
	m, err := newMetrics(registry, kind, objects{
		ended(planned(empty()), kind.FailedPrePhase),
		completed("frozen", metav1.ConditionTrue, v1alpha1.ReasonCleanupPending),
		completed("stuck", metav1.ConditionTrue, v1alpha1.ReasonCleanupOverdue),
		completed("thawed", metav1.ConditionFalse, v1alpha1.ReasonCleanupDone),
	}, func() client.ObjectList { return list }, schedule)
	if err != nil {
		t.Fatal(err)
	}
	m.recordStatusUpdate(empty(), planned(empty()))
	m.recordStatusUpdate(planned(empty()), planned(empty()))
	for _, phase := range []v1alpha1.RunPhase{v1alpha1.RunPhaseCompleted, v1alpha1.RunPhasePartiallyFailed, v1alpha1.RunPhaseFailed, kind.FailedPrePhase, v1alpha1.RunPhaseCancelled} {
		m.recordStatusUpdate(planned(empty()), ended(planned(empty()), phase))
		m.recordStatusUpdate(ended(planned(empty()), phase), ended(planned(empty()), phase))
	}
	m.recordStatusUpdate(empty(), ended(empty(), v1alpha1.RunPhaseFailedValidation))
	return scrape(t, registry)
}

// TestMetrics_DryRun counts no dry run of a Restore, and does not take one for a success.
func TestMetrics_DryRun(t *testing.T) {
	dry := func() *v1alpha1.Restore { return &v1alpha1.Restore{Spec: v1alpha1.RestoreSpec{DryRun: true}} }
	got := measured(t, RestoreKind, dry, &v1alpha1.RestoreList{}, func(*v1alpha1.Restore) string { return "" })
	for name, value := range got {
		if value != "0" && !strings.HasPrefix(name, "grapnel_restore_total") && !strings.HasPrefix(name, "grapnel_restore_cleanup_owed") {
			t.Errorf("a dry run counts in %s", name)
		}
	}
}

// TestMetrics compares all metrics with names that dashboards and alerts rely on.
func TestMetrics(t *testing.T) {
	nightly := map[string]string{v1alpha1.LabelScheduleName: "nightly"}
	got := measured(t, BackupKind, func() *v1alpha1.Backup {
		return &v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Labels: nightly}}
	}, &v1alpha1.BackupList{}, func(b *v1alpha1.Backup) string { return b.Labels[v1alpha1.LabelScheduleName] })
	maps.Copy(got, measured(t, RestoreKind, func() *v1alpha1.Restore {
		return &v1alpha1.Restore{Spec: v1alpha1.RestoreSpec{ScheduleName: "nightly"}}
	}, &v1alpha1.RestoreList{}, func(o *v1alpha1.Restore) string { return o.Spec.ScheduleName }))

	began := fmt.Sprintf("%g", float64(noon.Unix()))
	want := map[string]string{
		`grapnel_backup_attempt_total{schedule="nightly"}`:                                "1",
		`grapnel_backup_success_total{schedule="nightly"}`:                                "1",
		`grapnel_backup_partial_failure_total{schedule="nightly"}`:                        "1",
		`grapnel_backup_failure_total{schedule="nightly"}`:                                "2",
		`grapnel_backup_validation_failure_total{schedule="nightly"}`:                     "1",
		`grapnel_backup_cancelled_total{schedule="nightly"}`:                              "1",
		`grapnel_backup_duration_seconds_count{schedule="nightly"}`:                       "5",
		`grapnel_backup_duration_seconds_sum{schedule="nightly"}`:                         "15",
		`grapnel_backup_last_successful_timestamp{schedule="nightly"}`:                    began,
		`grapnel_backup_queued`:                                                           "0",
		`grapnel_backup_total{phase="Completed"}`:                                         "3",
		`grapnel_backup_total{phase="FailedPreBackupActions"}`:                            "1",
		`grapnel_backup_cleanup_owed{backup="frozen",namespace="site",overdue="false"}`:   "1",
		`grapnel_backup_cleanup_owed{backup="stuck",namespace="site",overdue="true"}`:     "1",
		`grapnel_restore_attempt_total{schedule="nightly"}`:                               "1",
		`grapnel_restore_success_total{schedule="nightly"}`:                               "1",
		`grapnel_restore_partial_failure_total{schedule="nightly"}`:                       "1",
		`grapnel_restore_failed_total{schedule="nightly"}`:                                "2",
		`grapnel_restore_validation_failed_total{schedule="nightly"}`:                     "1",
		`grapnel_restore_cancelled_total{schedule="nightly"}`:                             "1",
		`grapnel_restore_duration_seconds_count{schedule="nightly"}`:                      "5",
		`grapnel_restore_duration_seconds_sum{schedule="nightly"}`:                        "15",
		`grapnel_restore_last_successful_timestamp{schedule="nightly"}`:                   began,
		`grapnel_restore_queued`:                                                          "0",
		`grapnel_restore_total{phase="Completed"}`:                                        "3",
		`grapnel_restore_total{phase="FailedPreRestoreActions"}`:                          "1",
		`grapnel_restore_cleanup_owed{namespace="site",overdue="false",restore="frozen"}`: "1",
		`grapnel_restore_cleanup_owed{namespace="site",overdue="true",restore="stuck"}`:   "1",
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if got[name] != want[name] {
			t.Errorf("%s is %q, want %q", name, got[name], want[name])
		}
		delete(got, name)
	}
	for name, value := range got {
		t.Errorf("there is also %s %s", name, value)
	}
}
