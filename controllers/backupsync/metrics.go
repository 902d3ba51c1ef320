// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backupsync

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics measures the syncs of locations. It is safe for concurrent use.
type Metrics struct {
	duration   *prometheus.HistogramVec
	failures   *prometheus.CounterVec
	imported   *prometheus.CounterVec
	found      *prometheus.GaugeVec
	unreadable *prometheus.GaugeVec
	excluded   *prometheus.GaugeVec
}

// NewMetrics registers the metrics. The label location is the name of the
// BackupStorageLocation.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	label := []string{"location"}
	m := &Metrics{
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "grapnel_location_sync_duration_seconds", Help: "Duration of a sync of a location with the Backups of the cluster, including imports.",
			Buckets: []float64{0.01, 0.05, 0.25, 1, 2, 5, 15, 60, 300, 900},
		}, label),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "grapnel_location_sync_failures_total", Help: "Number of failed syncs of a location with the Backups of the cluster.",
		}, label),
		imported: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "grapnel_location_imported_backups_total", Help: "Backups that were imported from a location.",
		}, label),
		found: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "grapnel_location_backups", Help: "Backups in a location.",
		}, label),
		unreadable: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "grapnel_location_unreadable_backups", Help: "Backups of a location that cannot be imported.",
		}, label),
		excluded: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "grapnel_location_left_out_backups", Help: "Foreign backups that are not imported because of spec.sync.",
		}, label),
	}
	for _, c := range []prometheus.Collector{m.duration, m.failures, m.imported, m.found, m.unreadable, m.excluded} {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// recordSync records the duration and the result of one sync.
func (m *Metrics) recordSync(location string, took time.Duration, report Report, err error) {
	m.duration.WithLabelValues(location).Observe(took.Seconds())
	m.imported.WithLabelValues(location).Add(float64(report.Imported))
	if err != nil {
		m.failures.WithLabelValues(location).Inc()
		return
	}
	m.found.WithLabelValues(location).Set(float64(report.Found))
	m.unreadable.WithLabelValues(location).Set(float64(report.Unreadable))
	m.excluded.WithLabelValues(location).Set(float64(report.Excluded))
}

// deleteSeries deletes the series of a deleted location.
func (m *Metrics) deleteSeries(location string) {
	m.duration.DeleteLabelValues(location)
	m.failures.DeleteLabelValues(location)
	m.imported.DeleteLabelValues(location)
	m.found.DeleteLabelValues(location)
	m.unreadable.DeleteLabelValues(location)
	m.excluded.DeleteLabelValues(location)
}
