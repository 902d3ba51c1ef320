// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/grapnel-dev/grapnel/internal/names"
)

// Metrics counts what Schedules do. It is safe for concurrent use.
type Metrics struct {
	backupsCreated *prometheus.CounterVec
	timesSkipped   *prometheus.CounterVec
}

// NewMetrics registers the metrics. The label schedule has the same value as the label of
// Backups: names of more than 63 characters are shortened.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		backupsCreated: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "grapnel_schedule_backups_created_total", Help: "Backups that Schedules created.",
		}, []string{"schedule"}),
		timesSkipped: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "grapnel_schedule_skipped_total",
			Help: "Times at which a Schedule created no Backup although one was due, by reason. With ConcurrencyForbid it may follow later.",
		}, []string{"schedule", "reason"}),
	}
	for _, c := range []prometheus.Collector{m.backupsCreated, m.timesSkipped} {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *Metrics) recordCreated(name string) {
	m.backupsCreated.WithLabelValues(names.LabelValue(name)).Inc()
}

func (m *Metrics) recordSkipped(name, reason string) {
	m.timesSkipped.WithLabelValues(names.LabelValue(name), reason).Inc()
}

// deleteSeries deletes the series of a deleted Schedule.
func (m *Metrics) deleteSeries(name string) {
	labels := prometheus.Labels{"schedule": names.LabelValue(name)}
	m.backupsCreated.DeletePartialMatch(labels)
	m.timesSkipped.DeletePartialMatch(labels)
}
