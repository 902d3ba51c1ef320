// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
)

// scheduleLabel is a label of every metric that counts runs. It is empty for runs that no
// Schedule created.
const scheduleLabel = "schedule"

// NewRunCounter returns a counter of runs. The Schedule of the run is added as its last label.
func NewRunCounter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, append(labels, scheduleLabel))
}

// NewRunGauge returns a gauge of runs, with the same labels as NewRunCounter.
func NewRunGauge(name, help string, labels ...string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, append(labels, scheduleLabel))
}

// IsDryRun reports whether a run is a Restore that changes nothing. It is no attempt to restore, and a
// success says nothing about the backup.
func IsDryRun(o Object) bool {
	restore, ok := o.(*v1alpha1.Restore)
	return ok && restore.Spec.DryRun
}

// RegisterMetrics registers metrics, and stops at the first error.
func RegisterMetrics(registry prometheus.Registerer, collectors ...prometheus.Collector) error {
	for _, c := range collectors {
		if err := registry.Register(c); err != nil {
			return err
		}
	}
	return nil
}

// metrics are the metrics of every kind of run. What the objects show is read from them during a
// scrape, so that it survives a restart. They are safe for concurrent use.
type metrics[T Object] struct {
	reader   client.Reader
	newList  func() client.ObjectList
	schedule func(T) string

	attempts, successes, partial, failures, invalid, cancelled *prometheus.CounterVec
	duration                                                   *prometheus.HistogramVec

	total, queued, last, owed *prometheus.Desc
}

// newMetrics registers the metrics of a kind. The reader should be a cache.
func newMetrics[T Object](
	registry prometheus.Registerer, k KindTraits, reader client.Reader, newList func() client.ObjectList, schedule func(T) string,
) (*metrics[T], error) {
	m := &metrics[T]{
		reader: reader, newList: newList, schedule: schedule,
		attempts:  NewRunCounter(k.Metrics.Attempts, k.Name+"s whose plan was recorded."),
		successes: NewRunCounter(k.Metrics.Successes, k.Name+"s that ended Completed."),
		partial:   NewRunCounter(k.Metrics.PartialFailures, k.Name+"s that ended PartiallyFailed."),
		failures:  NewRunCounter(k.Metrics.Failures, k.Name+"s that ended Failed or "+string(k.FailedPrePhase)+"."),
		invalid:   NewRunCounter(k.Metrics.ValidationFailures, k.Name+"s that ended FailedValidation."),
		cancelled: NewRunCounter(k.Metrics.Cancelled, k.Name+"s that ended Cancelled."),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: k.Metrics.Duration, Help: "Time from the recorded plan to the outcome.",
			Buckets: prometheus.ExponentialBuckets(0.125, 4, 10), // 125 ms to 9 h
		}, []string{scheduleLabel}),
		total:  prometheus.NewDesc(k.Metrics.Objects, k.Name+" objects by phase.", []string{"phase"}, nil),
		queued: prometheus.NewDesc(k.Metrics.Queued, k.Name+"s that wait for a slot.", nil, nil),
		last: prometheus.NewDesc(k.Metrics.LastSuccessful,
			"When the last Completed "+k.Name+" began, in seconds since 1970.", []string{scheduleLabel}, nil),
		owed: prometheus.NewDesc(k.Metrics.CleanupOwed,
			"1 for each "+k.Name+" that owes clean-up; overdue is true if the clean-up should have ended by now.",
			[]string{"namespace", strings.ToLower(k.Name), "overdue"}, nil),
	}
	return m, RegisterMetrics(registry, m, m.attempts, m.successes, m.partial, m.failures, m.invalid, m.cancelled, m.duration)
}

// recordStatusUpdate counts what one status write changed. Dry runs do not count.
func (m *metrics[T]) recordStatusUpdate(before, o T) {
	if IsDryRun(o) {
		return
	}
	schedule := m.schedule(o)
	if !IsPlanned(before) && IsPlanned(o) {
		m.attempts.WithLabelValues(schedule).Inc()
	}
	if IsFinished(before) || !IsFinished(o) {
		return
	}
	var ended *prometheus.CounterVec
	switch o.GetPhase() {
	case v1alpha1.RunPhaseFailedValidation:
		ended = m.invalid
	case v1alpha1.RunPhaseCompleted:
		ended = m.successes
	case v1alpha1.RunPhasePartiallyFailed:
		ended = m.partial
	case v1alpha1.RunPhaseCancelled:
		ended = m.cancelled
	default:
		ended = m.failures
	}
	ended.WithLabelValues(schedule).Inc()
	if start := o.Run().StartTimestamp; start != nil {
		m.duration.WithLabelValues(schedule).Observe(o.Run().CompletionTimestamp.Sub(start.Time).Seconds())
	}
}

// Describe implements prometheus.Collector.
func (m *metrics[T]) Describe(out chan<- *prometheus.Desc) {
	out <- m.total
	out <- m.queued
	out <- m.last
	out <- m.owed
}

// collectTimeout bounds how long a scrape waits for the cache.
const collectTimeout = 5 * time.Second

// Collect implements prometheus.Collector.
func (m *metrics[T]) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), collectTimeout) //nolint:forbidigo // Collect receives no context
	defer cancel()
	list := m.newList()
	if err := m.reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return // before the cache has started there is nothing to report
	}
	phases, last, queued := map[string]float64{}, map[string]float64{}, 0.0
	_ = meta.EachListItem(list, func(item runtime.Object) error { // the function returns no error
		o, ok := item.(T)
		if !ok {
			return nil
		}
		phases[string(o.GetPhase())]++
		if !IsFinished(o) && succeededReason(o) == v1alpha1.ReasonQueued {
			queued++
		}
		if start := o.Run().StartTimestamp; o.GetPhase() == v1alpha1.RunPhaseCompleted && start != nil && !IsDryRun(o) {
			schedule := m.schedule(o)
			last[schedule] = max(last[schedule], float64(start.Unix()))
		}
		if conditions.IsTrue(o, v1alpha1.ConditionCleanupOwed) {
			reason := conditions.Get(o, v1alpha1.ConditionCleanupOwed).Reason
			overdue := reason == v1alpha1.ReasonCleanupOverdue || reason == v1alpha1.ReasonCleanupLost
			out <- prometheus.MustNewConstMetric(m.owed, prometheus.GaugeValue, 1, o.GetNamespace(), o.GetName(), strconv.FormatBool(overdue))
		}
		return nil
	})
	out <- prometheus.MustNewConstMetric(m.queued, prometheus.GaugeValue, queued)
	for phase, n := range phases {
		out <- prometheus.MustNewConstMetric(m.total, prometheus.GaugeValue, n, phase)
	}
	for schedule, at := range last {
		out <- prometheus.MustNewConstMetric(m.last, prometheus.GaugeValue, at, schedule)
	}
}

// newStuckStepsGauge returns the gauge of steps that were left behind and are still running.
func newStuckStepsGauge(k KindTraits, count func() int) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: k.Metrics.StepsLeftBehind,
		Help: "Steps of " + k.Name + "s that did not end when they were canceled and are still running, without effect.",
	}, func() float64 { return float64(count()) })
}
