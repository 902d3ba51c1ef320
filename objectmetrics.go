// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/names"
	"github.com/grapnel-dev/grapnel/internal/schedule"
)

// collectTimeout limits how long a scrape waits for the cache.
const collectTimeout = 5 * time.Second

var (
	locationAvailable = newObjectMetric("grapnel_location_available", "1 if the phase of the BackupStorageLocation is Available, else 0.", "location")
	expiryHeld        = newObjectMetric("grapnel_location_expiry_held",
		"1 if expired Backups in the BackupStorageLocation are kept until a user decides, else 0.", "location")
	pluginReady       = newObjectMetric("grapnel_plugin_ready", "1 if the Plugin is ready, else 0; absent while the Plugin is suspended.", "plugin")
	scheduleSuspended = newObjectMetric("grapnel_schedule_suspended", "1 if the Schedule is suspended, else 0.", "schedule")
	scheduleInterval  = newObjectMetric("grapnel_schedule_expected_interval_seconds",
		"Time from the next Backup of the Schedule to the one after it; absent while the Schedule is suspended or invalid.", "schedule")
	scheduleNext = newObjectMetric("grapnel_schedule_next_timestamp",
		"When the next Backup of the Schedule is due, in seconds since 1970; absent while the Schedule is suspended or invalid.", "schedule")
	scheduleLastSuccess = newObjectMetric("grapnel_schedule_last_successful_timestamp",
		"When a Backup of the Schedule last became Completed, in seconds since 1970; 0 if none has.", "schedule")
	scheduleCreated    = newObjectMetric("grapnel_schedule_created_timestamp", "When the Schedule was created, in seconds since 1970.", "schedule")
	scheduleLastStatus = newObjectMetric("grapnel_schedule_last_status",
		"1 if the last finished Backup of the Schedule is Completed, else 0; absent if none has finished.", "schedule")
)

func newObjectMetric(name, help, label string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, []string{label}, nil)
}

// objectMetrics exports what Schedules, BackupStorageLocations and Plugins show. It reads them during a
// scrape, so that the metrics survive a restart and end with their objects. It is safe for concurrent
// use.
type objectMetrics struct {
	// cache has the objects.
	cache client.Reader
}

// registerObjectMetrics registers objectMetrics and the metric with the version.
func registerObjectMetrics(registry prometheus.Registerer, cache client.Reader) error {
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "grapnel_build_info", Help: "1, with the version of the operator and of Go.",
		ConstLabels: prometheus.Labels{"version": version, "go_version": runtime.Version()},
	})
	build.Set(1)
	return lifecycle.RegisterMetrics(registry, build, &objectMetrics{cache: cache})
}

// Describe implements prometheus.Collector.
func (m *objectMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		locationAvailable, expiryHeld, pluginReady, scheduleSuspended, scheduleInterval, scheduleNext, scheduleLastSuccess, scheduleLastStatus, scheduleCreated,
	} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (m *objectMetrics) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), collectTimeout) //nolint:forbidigo // Collect receives no context
	defer cancel()
	var (
		locations v1alpha1.BackupStorageLocationList
		plugins   v1alpha1.PluginList
		schedules v1alpha1.ScheduleList
		backups   v1alpha1.BackupList
	)
	for _, list := range []client.ObjectList{&locations, &plugins, &schedules, &backups} {
		if err := m.cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return // before the cache has started there is nothing to report
		}
	}
	for i := range locations.Items {
		l := &locations.Items[i]
		out <- newGauge(locationAvailable, toFloat(l.Status.Phase == v1alpha1.LocationPhaseAvailable), l.Name)
		out <- newGauge(expiryHeld, toFloat(conditions.IsTrue(l, v1alpha1.ConditionExpiryHeld)), l.Name)
	}
	for i := range plugins.Items {
		if p := &plugins.Items[i]; !p.Spec.Suspend {
			out <- newGauge(pluginReady, toFloat(conditions.IsTrue(p, v1alpha1.ConditionReady)), p.Name)
		}
	}
	last := lastFinishedBackups(backups.Items)
	for i := range schedules.Items {
		collectSchedule(out, &schedules.Items[i], last)
	}
}

// collectSchedule sends the metrics of a Schedule. The label has the same value as that of Backups.
func collectSchedule(out chan<- prometheus.Metric, s *v1alpha1.Schedule, last map[string]*v1alpha1.Backup) {
	label := names.LabelValue(s.Name)
	out <- newGauge(scheduleSuspended, toFloat(s.Spec.Suspend), label)
	out <- newGauge(scheduleCreated, float64(s.CreationTimestamp.Unix()), label)
	succeeded := 0.0
	if t := s.Status.LastSuccessfulTime; t != nil {
		succeeded = float64(t.Unix())
	}
	out <- newGauge(scheduleLastSuccess, succeeded, label)
	if b := last[label]; b != nil {
		out <- newGauge(scheduleLastStatus, toFloat(b.Status.Phase == v1alpha1.RunPhaseCompleted), label)
	}
	next := s.Status.NextScheduleTime
	if next == nil {
		return
	}
	out <- newGauge(scheduleNext, float64(next.Unix()), label)
	if cron, err := schedule.Parse(s.Spec.Schedule, s.Spec.TimeZone); err == nil {
		if after := cron.Next(next.Time); !after.IsZero() {
			out <- newGauge(scheduleInterval, after.Sub(next.Time).Seconds(), label)
		}
	}
}

// lastFinishedBackups returns the Backup of each Schedule that finished last, by the label of the
// Schedule.
func lastFinishedBackups(backups []v1alpha1.Backup) map[string]*v1alpha1.Backup {
	last := map[string]*v1alpha1.Backup{}
	for i := range backups {
		b := &backups[i]
		name, ended := b.Labels[v1alpha1.LabelScheduleName], b.Status.CompletionTimestamp
		if name == "" || ended == nil || b.Spec.ImportedFrom != nil {
			continue
		}
		if known := last[name]; known == nil || known.Status.CompletionTimestamp.Before(ended) {
			last[name] = b
		}
	}
	return last
}

func newGauge(desc *prometheus.Desc, value float64, label string) prometheus.Metric {
	return prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, label)
}

func toFloat(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
