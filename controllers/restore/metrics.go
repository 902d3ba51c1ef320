// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
)

// metrics are the metrics of Restores only; package lifecycle has those of all kinds. They are safe
// for concurrent use.
type metrics struct{ items *prometheus.CounterVec }

func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{items: lifecycle.NewRunCounter("grapnel_restore_items_total", "Objects by outcome.", "result")}
	if err := lifecycle.RegisterMetrics(registry, m.items); err != nil {
		return nil, fmt.Errorf("registering the metrics: %w", err)
	}
	return m, nil
}

// scheduleName returns the name of the Schedule whose backup is restored.
func scheduleName(o *v1alpha1.Restore) string { return o.Spec.ScheduleName }

// recordStatusUpdate counts what one status write changed. Dry runs do not count.
func (m *metrics) recordStatusUpdate(before, o *v1alpha1.Restore) {
	c := o.Status.Counts
	if lifecycle.IsFinished(before) || !lifecycle.IsFinished(o) || c == nil || o.Spec.DryRun {
		return
	}
	for result, n := range map[string]int64{
		"created": c.Created, "updated": c.Updated, "recreated": c.Recreated,
		"unchanged": c.Unchanged, "skipped": c.Skipped, "failed": c.Failed,
	} {
		m.items.WithLabelValues(result, scheduleName(o)).Add(float64(n))
	}
}
