// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
)

// metrics are the metrics of Backups only; package lifecycle has those of all kinds. They are safe for
// concurrent use.
type metrics struct {
	items, itemErrors, warnings *prometheus.CounterVec
	tarball                     *prometheus.GaugeVec
}

func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		items:      lifecycle.NewRunCounter("grapnel_backup_items_total", "Objects archived."),
		itemErrors: lifecycle.NewRunCounter("grapnel_backup_items_errors", "Errors of single objects, kinds or groups."),
		warnings:   lifecycle.NewRunCounter("grapnel_backup_warning_total", "Warnings of Backups."),
		tarball:    lifecycle.NewRunGauge("grapnel_backup_tarball_size_bytes", "Size of the last archive."),
	}
	if err := lifecycle.RegisterMetrics(registry, m.items, m.itemErrors, m.warnings, m.tarball); err != nil {
		return nil, fmt.Errorf("registering the metrics: %w", err)
	}
	return m, nil
}

// scheduleName returns the name of the Schedule that created a Backup.
func scheduleName(b *v1alpha1.Backup) string { return b.Labels[v1alpha1.LabelScheduleName] }

// recordStatusUpdate counts what one status write changed.
func (m *metrics) recordStatusUpdate(before, b *v1alpha1.Backup) {
	if lifecycle.IsFinished(before) || !lifecycle.IsFinished(b) {
		return
	}
	schedule := scheduleName(b)
	if b.Status.Progress != nil {
		m.items.WithLabelValues(schedule).Add(float64(b.Status.Progress.ItemsBackedUp))
	}
	m.itemErrors.WithLabelValues(schedule).Add(float64(b.Status.Errors))
	m.warnings.WithLabelValues(schedule).Add(float64(b.Status.Warnings))
}

// setArchiveSize records the size of an archive.
func (m *metrics) setArchiveSize(b *v1alpha1.Backup, bytes int64) {
	m.tarball.WithLabelValues(scheduleName(b)).Set(float64(bytes))
}
