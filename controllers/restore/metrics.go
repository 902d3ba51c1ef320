// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/kube/run"
)

// schedule is the label every metric of a restore has; it is empty for Restores
// that name a backup.
const schedule = "schedule"

// Metrics counts what happens to Restores, under Velero's names with the prefix
// grapnel_. It is safe for concurrent use.
type Metrics struct {
	attempts, successes, partial, failures, invalid, cancelled *prometheus.CounterVec
	items                                                      *prometheus.CounterVec
	duration                                                   *prometheus.HistogramVec
}

// NewMetrics registers the metrics.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "grapnel_restore_" + name, Help: help}, append(labels, schedule))
	}
	m := &Metrics{
		attempts:  counter("attempt_total", "Restores whose plan was recorded."),
		successes: counter("success_total", "Restores that ended Completed."),
		partial:   counter("partial_failure_total", "Restores that ended PartiallyFailed."),
		failures:  counter("failed_total", "Restores that ended Failed or FailedPreRestoreActions."),
		invalid:   counter("validation_failed_total", "Restores that ended FailedValidation."),
		cancelled: counter("cancelled_total", "Restores that ended Cancelled."),
		items:     counter("items_total", "Objects by what became of them.", "result"),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "grapnel_restore_duration_seconds", Help: "Time from the recorded plan to the outcome.",
			Buckets: prometheus.ExponentialBuckets(0.125, 4, 10), // 125 ms to 9 h
		}, []string{schedule}),
	}
	for _, c := range []prometheus.Collector{
		m.attempts, m.successes, m.partial, m.failures, m.invalid, m.cancelled, m.items, m.duration,
	} {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// record counts what one status write changed.
func (m *Metrics) record(before, o *v1alpha1.Restore) {
	label := o.Spec.ScheduleName
	if !run.Planned(before) && run.Planned(o) {
		m.attempts.WithLabelValues(label).Inc()
	}
	if run.Decided(before) || !run.Decided(o) {
		return
	}
	switch o.Status.Phase {
	case v1alpha1.RestorePhaseFailedValidation:
		m.invalid.WithLabelValues(label).Inc()
	case v1alpha1.RestorePhaseCompleted:
		m.successes.WithLabelValues(label).Inc()
	case v1alpha1.RestorePhasePartiallyFailed:
		m.partial.WithLabelValues(label).Inc()
	case v1alpha1.RestorePhaseCancelled:
		m.cancelled.WithLabelValues(label).Inc()
	default:
		m.failures.WithLabelValues(label).Inc()
	}
	if start := o.Status.StartTimestamp; start != nil {
		m.duration.WithLabelValues(label).Observe(o.Status.CompletionTimestamp.Sub(start.Time).Seconds())
	}
	if c := o.Status.Counts; c != nil {
		for result, n := range map[string]int64{
			"created": c.Created, "updated": c.Updated, "recreated": c.Recreated,
			"unchanged": c.Unchanged, "skipped": c.Skipped, "failed": c.Failed,
		} {
			m.items.WithLabelValues(result, label).Add(float64(n))
		}
	}
}
