// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package asyncoperation

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// Metrics counts operations and polls. It is safe for concurrent use.
type Metrics struct {
	operations *prometheus.CounterVec
	duration   *prometheus.HistogramVec
	open       *prometheus.GaugeVec
	polls      *prometheus.CounterVec
	pollErrors *prometheus.CounterVec
}

// NewMetrics registers the metrics. The label plugin is the name of the Plugin.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	plugin := []string{"plugin"}
	m := &Metrics{
		operations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "grapnel_item_operations_total",
			Help: "Finished operations on objects, by Plugin, kind of the action and result, which is the reason of their condition Succeeded.",
		}, []string{"plugin", "kind", "result"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "grapnel_item_operation_duration_seconds", Help: "Time from the start of an operation on an object to its end.",
			Buckets: []float64{1, 5, 15, 60, 300, 900, 1800, 3600, 7200, 14400, 28800, 43200}, // to 12 h
		}, plugin),
		open: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "grapnel_item_operations_open", Help: "Unfinished operations on objects.",
		}, plugin),
		polls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "grapnel_item_operation_polls_total", Help: "Polls of plugins for the progress of an operation.",
		}, plugin),
		pollErrors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "grapnel_item_operation_poll_errors_total", Help: "Failed polls of plugins for the progress of an operation. The operation continues.",
		}, plugin),
	}
	for _, c := range []prometheus.Collector{m.operations, m.duration, m.open, m.polls, m.pollErrors} {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// recordFinished counts an operation whose outcome was written.
func (m *Metrics) recordFinished(op *v1alpha1.AsyncOperation, reason string) {
	plugin := op.Spec.PluginRef.Name
	m.operations.WithLabelValues(plugin, string(op.Spec.Kind), reason).Inc()
	m.duration.WithLabelValues(plugin).Observe(op.Status.CompletionTimestamp.Sub(op.CreationTimestamp.Time).Seconds())
}
