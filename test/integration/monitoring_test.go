// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

var update = flag.Bool("update", false, "write the metrics on which test/monitoring evaluates the alerts")

var (
	// recordedMetric matches what alerts and the dashboard read, without the buckets of histograms.
	recordedMetric = regexp.MustCompile(`^(grapnel_|leader_election_master_status|rest_client_requests_total|process_resident_memory_bytes|process_cpu_seconds_total)`)
	bucketMetric   = regexp.MustCompile(`_bucket\{`)
	// variableLabel matches labels whose values are different in each run.
	variableLabel = regexp.MustCompile(`\b(action|backup|code|go_version|host|location|method|namespace|operation|plugin|restore|version)="[^"]*"`)
)

// record writes the metrics of the operator to a file of test/monitoring, or, without -update, checks that
// the operator exports all series in it.
func (s site) record(t testing.TB, name string) {
	t.Helper()
	file := filepath.Join("..", "monitoring", "testdata", name+".prom")
	if *update {
		lines := fmt.Sprintf("# at %d\n", time.Now().Unix())
		values := s.ScrapeMetrics(t)
		for _, series := range slices.Sorted(maps.Keys(values)) {
			if recordedMetric.MatchString(series) && !bucketMetric.MatchString(series) {
				lines += fmt.Sprintf("%s %v\n", series, values[series])
			}
		}
		Expect(os.WriteFile(file, []byte(lines), 0o644)).To(Succeed())
		return
	}
	recorded := map[string]bool{}
	for line := range strings.Lines(content(t, file)) {
		if !strings.HasPrefix(line, "#") {
			recorded[variableLabel.ReplaceAllString(line[:strings.LastIndexByte(line, ' ')], `$1="*"`)] = true
		}
	}
	suite.Eventually(t, func() string {
		missing := maps.Clone(recorded)
		for series := range s.ScrapeMetrics(t) {
			delete(missing, variableLabel.ReplaceAllString(series, `$1="*"`))
		}
		if len(missing) == 0 {
			return ""
		}
		return fmt.Sprintf("the operator does not export what is in %s: %q", file, slices.Sorted(maps.Keys(missing)))
	})
}

// runSchedule requests a Backup of a Schedule and waits until its Schedule has recorded the outcome.
func (s site) runSchedule(t testing.TB, schedule *v1alpha1.Schedule, phase v1alpha1.RunPhase) {
	t.Helper()
	before := latestOfSchedule(t, schedule)
	var b *v1alpha1.Backup
	suite.Eventually(t, func() string {
		// Requests have whole seconds.
		world.Patch(t, schedule, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AnnotationRunRequestedAt, time.Now().UTC().Format(time.RFC3339)))
		if b = latestOfSchedule(t, schedule); b == nil || before != nil && b.Name == before.Name {
			return "there is no new Backup"
		}
		return ""
	})
	outcome(t, b, phase)
	want := 0.0
	if phase == v1alpha1.RunPhaseCompleted {
		want = 1
	}
	s.WaitForMetric(t, fmt.Sprintf(`grapnel_schedule_last_status{schedule=%q}`, schedule.Name), want)
}

// latestOfSchedule returns the last Backup that a Schedule created; nil if there is none.
func latestOfSchedule(t testing.TB, schedule *v1alpha1.Schedule) *v1alpha1.Backup {
	t.Helper()
	var list v1alpha1.BackupList
	Expect(world.Client.List(t.Context(), &list, client.InNamespace(schedule.Namespace),
		client.MatchingLabels{v1alpha1.LabelScheduleName: schedule.Name})).To(Succeed())
	var last *v1alpha1.Backup
	for i := range list.Items {
		if b := &list.Items[i]; last == nil || b.Name > last.Name { // the name ends with the time
			last = b
		}
	}
	return last
}

// The metrics of these stories are those on which test/monitoring evaluates the alerts.
var _ = Describe("Monitoring", Label("monitoring"), func() {
	It("records a Schedule that is suspended, and whose Backup fails", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.StartOperator(t)}
		schedule := &v1alpha1.Schedule{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.Name, Name: "nightly"},
			Spec:       v1alpha1.ScheduleSpec{Schedule: "0 3 * * *", SkipImmediately: true},
		}
		schedule.Spec.Template.Spec.IncludedNamespaces = []v1alpha1.NamePattern{v1alpha1.NamePattern(world.CreateApp(t, 1))}
		env.Create(t, world.Client, schedule)
		const interval = `grapnel_schedule_expected_interval_seconds{schedule="nightly"}`
		s.WaitForMetric(t, interval, 24*60*60)
		s.record(t, "schedule-new")
		s.runSchedule(t, schedule, v1alpha1.RunPhaseCompleted)
		s.record(t, "schedule-completed")
		world.Patch(t, schedule, `{"spec":{"suspend":true}}`)
		s.WaitForMetric(t, interval, env.MetricAbsent)
		s.record(t, "schedule-suspended")
		world.Patch(t, schedule, `{"spec":{"suspend":false}}`)
		s.WaitForMetric(t, interval, 24*60*60)
		s.record(t, "schedule-resumed")
		world.Patch(t, schedule, `{"spec":{"template":{"metadata":{"labels":`+labelsForAction(preFails)+`}}}}`)
		s.runSchedule(t, schedule, v1alpha1.RunPhaseFailedPreBackupActions)
		s.record(t, "schedule-failed")
	})

	It("records clean-up that is overdue", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.StartOperator(t)}
		b, _, _ := brokenCleanup(t, s)
		name := fmt.Sprintf(`grapnel_backup_cleanup_owed{backup=%q,namespace=%q,overdue="true"}`, b.Name, s.Name)
		s.WaitForMetric(t, name, 1)
		s.record(t, "cleanup-overdue")
		world.Patch(t, b, `{"metadata":{"annotations":{"`+v1alpha1.AnnotationAbandonCleanup+`":"true"}}}`)
		outcome(t, b, v1alpha1.RunPhaseCompleted)
		s.WaitForMetric(t, name, env.MetricAbsent)
		s.record(t, "cleanup-abandoned")
	})

	It("records a location that is unavailable", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.StartOperator(t, "--location-check-interval=1s", "--backup-sync-interval=1s")}
		const available = `grapnel_location_available{location="away"}`
		env.Create(t, world.Client, newDirLocation(s, "away"))
		s.WaitForMetric(t, available, 1)
		dir := s.LocationDir("away")
		Expect(os.RemoveAll(dir)).To(Succeed())
		Expect(os.WriteFile(dir, nil, 0o600)).To(Succeed()) // no directory can be made there
		s.WaitForMetric(t, available, 0)
		s.record(t, "location-unavailable")
		Expect(os.Remove(dir)).To(Succeed())
		s.WaitForMetric(t, available, 1)
		s.record(t, "location-available")
	})

	It("records a Restore, and a backup that cannot be read", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.StartOperator(t, "--backup-sync-interval=1s")}
		b := outcome(t, s.apply(t, s.NewBackup(world.CreateApp(t, 1))), v1alpha1.RunPhaseCompleted)
		env.Create(t, world.Client, &v1alpha1.Restore{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.Name, Name: "story"}, Spec: v1alpha1.RestoreSpec{BackupName: b.Name},
		})
		s.WaitForMetric(t, `grapnel_restore_success_total{schedule=""}`, 1)
		damaged := filepath.Join(s.LocationDir(env.DefaultLocation), "backups", "damaged")
		Expect(os.MkdirAll(damaged, 0o755)).To(Succeed())
		Expect(os.WriteFile(filepath.Join(damaged, "velero-backup.json"), []byte(`{"kind":"Backup"`), 0o600)).To(Succeed())
		unreadable := fmt.Sprintf(`grapnel_location_unreadable_backups{location=%q}`, env.DefaultLocation)
		s.WaitForMetric(t, unreadable, 1)
		s.record(t, "backup-unreadable")
		Expect(os.RemoveAll(damaged)).To(Succeed())
		s.WaitForMetric(t, unreadable, 0)
	})

	It("records expired Backups that are kept until a user decides", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.StartOperator(t)}
		app := world.CreateApp(t, 1)
		var backups []*v1alpha1.Backup
		for range 5 {
			backups = append(backups, env.Create(t, world.Client, s.NewBackup(app)))
		}
		for _, b := range backups {
			outcome(t, b, v1alpha1.RunPhaseCompleted)
		}
		// All of them must be due when the operator counts them.
		Expect(s.Operator.Kill()).To(Succeed())
		for _, b := range backups {
			world.Patch(t, b, `{"spec":{"ttl":"1s"}}`)
		}
		s.RestartOperator(t)
		held := fmt.Sprintf(`grapnel_location_expiry_held{location=%q}`, env.DefaultLocation)
		s.WaitForMetric(t, held, 1)
		s.record(t, "expiry-held")
		location := newDirLocation(s, env.DefaultLocation)
		world.Patch(t, location, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`,
			v1alpha1.AnnotationAllowMassExpiryUntil, time.Now().Add(time.Hour).UTC().Format(time.RFC3339)))
		for _, b := range backups {
			awaitGone(t, b)
		}
		s.WaitForMetric(t, held, 0)
	})

	It("records a deletion that leaves something behind", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.StartOperator(t)}
		action := own(t, "fails")
		install(t, world.NewFaultPlugin(filepath.Base(action), []v1alpha1.PluginAction{deletes(v1alpha1.PluginAction{Name: action})}))
		b := s.NewBackup(world.CreateApp(t, 1))
		b.Labels = env.LabelsForActions(action)
		parameter(b, action, "fault", "fail")
		b = outcome(t, env.Create(t, world.Client, b), v1alpha1.RunPhaseCompleted)
		d := destroyed(t, destroy(t, b), v1alpha1.RunPhasePartiallyFailed, action)
		s.WaitForMetric(t, `grapnel_deletionrun_total{phase="PartiallyFailed"}`, 1)
		s.record(t, "deletion-partially-failed")
		world.Delete(t, d)
		s.WaitForMetric(t, `grapnel_deletionrun_total{phase="PartiallyFailed"}`, env.MetricAbsent)
		s.record(t, "deletion-forgotten")
	})

	It("records a Plugin that does not load", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.StartOperator(t)}
		plugin := world.NewFaultPlugin("missing", nil)
		plugin.Spec.Executor.Process.Command = "no-such-file"
		createPlugin(t, plugin)
		checkBroken(t, plugin)
		s.WaitForMetric(t, `grapnel_plugin_ready{plugin="missing"}`, 0)
		s.record(t, "plugin-not-ready")
		world.Patch(t, plugin, `{"spec":{"suspend":true}}`)
		s.WaitForMetric(t, `grapnel_plugin_ready{plugin="missing"}`, env.MetricAbsent)
		s.record(t, "plugin-suspended")
	})

	It("records operations whose plugin does not answer", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.StartOperator(t, "--item-operation-cancel-timeout=1s")}
		app, action := world.CreateApp(t, 0), own(t, "silent")
		plugin := operatingPlugin(t, action, v1alpha1.OperationPolicy{})
		plugin.Name = "silent"
		install(t, plugin)
		operate(t, app, "one", "never;flaky:1")
		b := s.NewBackup(app)
		b.Labels = env.LabelsForActions(action)
		s.apply(t, b)
		failed := func(n float64) {
			suite.Eventually(t, func() string {
				if got := s.ScrapeMetrics(t)[`grapnel_item_operation_poll_errors_total{plugin="silent"}`]; got < n {
					return fmt.Sprintf("%v polls failed, want %v", got, n)
				}
				return ""
			})
		}
		failed(1)
		s.record(t, "operation-unanswered-before")
		failed(4)
		s.record(t, "operation-unanswered")
		cancelBackup(t, b)
		ended(t, b)
		s.WaitForMetric(t, `grapnel_item_operations_open{plugin="silent"}`, 0)
		s.record(t, "operation-cancelled")
	})

	It("records a leader, and an operator that stands by", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.StartOperator(t, "--leader-elect")}
		awaitLeader(t, s, "")
		const leader = `leader_election_master_status{name="operator.grapnel.dev"}`
		s.WaitForMetric(t, leader, 1)
		s.WaitForMetric(t, fmt.Sprintf(`grapnel_location_available{location=%q}`, env.DefaultLocation), 1)
		s.record(t, "leader")
		s.Operator = s.StartStandby(t)
		s.WaitForMetric(t, leader, 0)
		s.record(t, "standby")
	})
})

// labelsForAction returns the labels of a Backup that calls an action, as JSON.
func labelsForAction(action string) string {
	var pairs []string
	for key, value := range env.LabelsForActions(action) {
		pairs = append(pairs, fmt.Sprintf("%q:%q", key, value))
	}
	return "{" + strings.Join(pairs, ",") + "}"
}
