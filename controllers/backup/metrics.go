// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/kube/conditions"
	"github.com/grapnel-dev/grapnel/internal/kube/run"
)

// schedule is the label every metric of a backup has; it is empty for Backups
// that no Schedule made.
const schedule = "schedule"

// Metrics counts what happens to Backups, under Velero's names with the prefix
// grapnel_. What can be seen in the objects is read from them when somebody
// asks, so that it survives a restart. It is safe for concurrent use.
type Metrics struct {
	reader client.Reader

	attempts, successes, partial, failures, invalid, cancelled *prometheus.CounterVec
	items, itemErrors, warnings                                *prometheus.CounterVec
	duration                                                   *prometheus.HistogramVec
	tarball                                                    *prometheus.GaugeVec

	total, last, owed *prometheus.Desc
}

// NewMetrics registers the metrics. The reader should be a cache.
func NewMetrics(registry prometheus.Registerer, reader client.Reader) (*Metrics, error) {
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "grapnel_backup_" + name, Help: help}, []string{schedule})
	}
	m := &Metrics{
		reader:     reader,
		attempts:   counter("attempt_total", "Backups whose plan was recorded."),
		successes:  counter("success_total", "Backups that ended Completed."),
		partial:    counter("partial_failure_total", "Backups that ended PartiallyFailed."),
		failures:   counter("failure_total", "Backups that ended Failed or FailedPreBackupActions."),
		invalid:    counter("validation_failure_total", "Backups that ended FailedValidation."),
		cancelled:  counter("cancelled_total", "Backups that ended Cancelled."),
		items:      counter("items_total", "Objects archived."),
		itemErrors: counter("items_errors", "Errors of single objects, kinds or groups."),
		warnings:   counter("warning_total", "Warnings of Backups."),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "grapnel_backup_duration_seconds", Help: "Time from the recorded plan to the outcome.",
			Buckets: prometheus.ExponentialBuckets(0.125, 4, 10), // 125 ms to 9 h
		}, []string{schedule}),
		tarball: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "grapnel_backup_tarball_size_bytes", Help: "Size of the last archive.",
		}, []string{schedule}),
		total: prometheus.NewDesc("grapnel_backup_total", "Backup objects by phase.", []string{"phase"}, nil),
		last: prometheus.NewDesc("grapnel_backup_last_successful_timestamp",
			"When the last Completed Backup began, in seconds since 1970.", []string{schedule}, nil),
		owed: prometheus.NewDesc("grapnel_backup_cleanup_owed",
			"1 for each Backup that owes clean-up; overdue says whether it should have ended.", []string{"namespace", "backup", "overdue"}, nil),
	}
	for _, c := range []prometheus.Collector{
		m, m.attempts, m.successes, m.partial, m.failures, m.invalid, m.cancelled,
		m.items, m.itemErrors, m.warnings, m.duration, m.tarball,
	} {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// record counts what one status write changed.
func (m *Metrics) record(before, b *v1alpha1.Backup) {
	label := b.Labels[v1alpha1.LabelScheduleName]
	if !run.Planned(before) && run.Planned(b) {
		m.attempts.WithLabelValues(label).Inc()
	}
	if run.Decided(before) || !run.Decided(b) {
		return
	}
	switch b.Status.Phase {
	case v1alpha1.BackupPhaseFailedValidation:
		m.invalid.WithLabelValues(label).Inc()
	case v1alpha1.BackupPhaseCompleted:
		m.successes.WithLabelValues(label).Inc()
	case v1alpha1.BackupPhasePartiallyFailed:
		m.partial.WithLabelValues(label).Inc()
	case v1alpha1.BackupPhaseCancelled:
		m.cancelled.WithLabelValues(label).Inc()
	default:
		m.failures.WithLabelValues(label).Inc()
	}
	if start := b.Status.StartTimestamp; start != nil {
		m.duration.WithLabelValues(label).Observe(b.Status.CompletionTimestamp.Sub(start.Time).Seconds())
	}
	if b.Status.Progress != nil {
		m.items.WithLabelValues(label).Add(float64(b.Status.Progress.ItemsBackedUp))
	}
	m.itemErrors.WithLabelValues(label).Add(float64(b.Status.Errors))
	m.warnings.WithLabelValues(label).Add(float64(b.Status.Warnings))
}

// archived records the size of an archive.
func (m *Metrics) archived(b *v1alpha1.Backup, bytes int64) {
	m.tarball.WithLabelValues(b.Labels[v1alpha1.LabelScheduleName]).Set(float64(bytes))
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(out chan<- *prometheus.Desc) {
	out <- m.total
	out <- m.last
	out <- m.owed
}

// collectTimeout bounds how long a scrape waits for the cache.
const collectTimeout = 5 * time.Second

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), collectTimeout) //nolint:forbidigo // Collect is given no context
	defer cancel()
	var list v1alpha1.BackupList
	if err := m.reader.List(ctx, &list); err != nil {
		return // before the cache has started there is nothing to tell
	}
	phases, last := map[string]float64{}, map[string]float64{}
	for i := range list.Items {
		b := &list.Items[i]
		phases[string(b.Status.Phase)]++
		if name := b.Labels[v1alpha1.LabelScheduleName]; b.Status.Phase == v1alpha1.BackupPhaseCompleted && b.Status.StartTimestamp != nil {
			last[name] = max(last[name], float64(b.Status.StartTimestamp.Unix()))
		}
		if conditions.IsTrue(b, v1alpha1.ConditionCleanupOwed) {
			overdue := "false"
			if conditions.Get(b, v1alpha1.ConditionCleanupOwed).Reason == v1alpha1.ReasonCleanupOverdue {
				overdue = "true"
			}
			out <- prometheus.MustNewConstMetric(m.owed, prometheus.GaugeValue, 1, b.Namespace, b.Name, overdue)
		}
	}
	for phase, n := range phases {
		out <- prometheus.MustNewConstMetric(m.total, prometheus.GaugeValue, n, phase)
	}
	for name, at := range last {
		out <- prometheus.MustNewConstMetric(m.last, prometheus.GaugeValue, at, name)
	}
}
