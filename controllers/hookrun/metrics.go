// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package hookrun

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// Metrics counts HookRuns and their attempts. It is safe for concurrent use.
type Metrics struct {
	runs     *prometheus.CounterVec
	attempts *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

// NewMetrics registers the metrics. The label action is the registered name of the action.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		runs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "grapnel_hook_runs_total",
			Help: "Finished hook actions, by action, point and result (Completed, Failed, Cancelled, Skipped).",
		}, []string{"action", "point", "result"}),
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "grapnel_hook_attempts_total",
			Help: "Attempts at hook actions. More attempts than HookRuns means that actions were retried.",
		}, []string{"action", "point"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "grapnel_hook_duration_seconds", Help: "Time from the start of the first attempt of a hook action to its end.",
			Buckets: prometheus.ExponentialBuckets(0.01, 4, 10), // 10 ms to 44 min
		}, []string{"action", "point"}),
	}
	for _, c := range []prometheus.Collector{m.runs, m.attempts, m.duration} {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// recordStatusUpdate counts what one status write changed.
func (m *Metrics) recordStatusUpdate(before, run *v1alpha1.HookRun) {
	action, point := run.Spec.ActionName, string(run.Spec.Hook)
	if run.Status.Attempt > before.Status.Attempt {
		m.attempts.WithLabelValues(action, point).Inc()
	}
	if before.Status.CompletionTimestamp != nil || run.Status.CompletionTimestamp == nil {
		return
	}
	m.runs.WithLabelValues(action, point, string(run.Status.Phase)).Inc()
	// The timestamps have whole seconds.
	if lasted, err := time.ParseDuration(run.Status.Duration); err == nil {
		m.duration.WithLabelValues(action, point).Observe(lasted.Seconds())
	}
}
