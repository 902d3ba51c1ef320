// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package schedule_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/controllers/schedule"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

var cluster suite.Cluster

var (
	_ = BeforeSuite(func() { Expect(cluster.Start()).To(Succeed()) })
	_ = AfterSuite(func() { Expect(cluster.Stop()).To(Succeed()) })
)

func TestController(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Schedule controller")
}

// stage is a namespace in which a test reconciles one Schedule, at chosen times. Days are counted
// from the first midnight after its start, which begins day 1.
type stage struct {
	*suite.Env
	t        testing.TB
	midnight time.Time
	now      time.Time
	told     []string
	r        *schedule.Reconciler
	registry *prometheus.Registry
}

func newStage(t testing.TB) *stage {
	t.Helper()
	env := cluster.NewEnv(t)
	s := &stage{Env: env, t: t, midnight: time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, 1), registry: prometheus.NewRegistry()}
	metrics, err := schedule.NewMetrics(s.registry)
	if err != nil {
		t.Fatal(err)
	}
	s.r = &schedule.Reconciler{
		Client: env.Client, Reader: env.Client, Recorder: s, Metrics: metrics, Now: func() time.Time { return s.now },
	}
	return s
}

// Eventf implements events.EventRecorder.
func (s *stage) Eventf(_, _ runtime.Object, level, reason, action, note string, args ...any) {
	s.told = append(s.told, fmt.Sprintf("%s %s %s: ", level, reason, action)+fmt.Sprintf(note, args...))
}

// time returns a time such as "1 03:00".
func (s *stage) time(text string) time.Time {
	s.t.Helper()
	var day, hour, minute int
	if _, err := fmt.Sscanf(text, "%d %d:%d", &day, &hour, &minute); err != nil {
		s.t.Fatal(err)
	}
	return s.midnight.AddDate(0, 0, day-1).Add(time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute)
}

// shown returns a time in the format of time; empty if it is zero.
func (s *stage) shown(t *metav1.Time) string {
	if t == nil {
		return ""
	}
	day := int(t.Sub(s.midnight)/(24*time.Hour)) + 1
	return fmt.Sprintf("%d %s", day, t.UTC().Format("15:04"))
}

// backupName returns the name of the Backup of Schedule nightly for a time.
func (s *stage) backupName(text string) string {
	return "nightly-" + s.time(text).Format("20060102150405")
}

// nightly creates a Schedule that is due at 3:00 from day 1 on, and keeps everything.
func (s *stage) nightly(edits ...func(*v1alpha1.ScheduleSpec)) *v1alpha1.Schedule {
	s.t.Helper()
	n := s.fresh("0 3 * * *", edits...)
	before := n.DeepCopy()
	// Without it, the time of day at which the test starts would determine what is due.
	n.Status.SettledTime = &metav1.Time{Time: s.midnight}
	n.Status.ObservedSchedule, n.Status.ObservedTimeZone = n.Spec.Schedule, n.Spec.TimeZone
	if err := s.Client.Status().Patch(s.t.Context(), n, client.MergeFrom(before)); err != nil {
		s.t.Fatal(err)
	}
	return n
}

// fresh creates a Schedule that was never reconciled.
func (s *stage) fresh(expression string, edits ...func(*v1alpha1.ScheduleSpec)) *v1alpha1.Schedule {
	s.t.Helper()
	many := int32(100)
	n := &v1alpha1.Schedule{
		ObjectMeta: metav1.ObjectMeta{Name: "nightly"},
		Spec:       v1alpha1.ScheduleSpec{Schedule: expression, KeepFailed: &many},
	}
	n.Spec.Template.Spec.IncludedNamespaces = []v1alpha1.NamePattern{"shop"}
	for _, edit := range edits {
		edit(&n.Spec)
	}
	return suite.Create(s.Env, n)
}

// at reconciles at a time, and reads the Schedule again.
func (s *stage) at(text string, n *v1alpha1.Schedule) ctrl.Result {
	s.t.Helper()
	s.now = s.time(text)
	result, err := s.pass(n)
	if err != nil {
		s.t.Fatal(err)
	}
	return result
}

// pass reconciles, and reads the Schedule again.
func (s *stage) pass(n *v1alpha1.Schedule) (ctrl.Result, error) {
	s.t.Helper()
	result, err := s.r.Reconcile(s.t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(n)})
	suite.GetIfExists(s.Env, n)
	return result, err
}

// backups returns the existing Backups, by name.
func (s *stage) backups() []v1alpha1.Backup {
	s.t.Helper()
	var list v1alpha1.BackupList
	if err := s.Client.List(s.t.Context(), &list, client.InNamespace(s.Namespace)); err != nil {
		s.t.Fatal(err)
	}
	return list.Items
}

// expectMade checks for which times Backups exist, in order.
func (s *stage) expectMade(want ...string) {
	s.t.Helper()
	var got []string
	for _, b := range s.backups() {
		at, err := time.Parse(time.RFC3339, b.Annotations[v1alpha1.AnnotationScheduledTime])
		if err != nil {
			s.t.Errorf("Backup %s: %v", b.Name, err)
		}
		got = append(got, s.shown(&metav1.Time{Time: at}))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		s.t.Errorf("Backups (-want +got):\n%s", diff)
	}
}

// backup returns the Backup for a time.
func (s *stage) backup(text string) *v1alpha1.Backup {
	s.t.Helper()
	b := &v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.backupName(text)}}
	if !suite.GetIfExists(s.Env, b) {
		s.t.Fatalf("Backup %s does not exist", b.Name)
	}
	return b
}

// made creates a Backup as a Schedule did before the test.
func (s *stage) made(text string, edits ...func(*v1alpha1.Backup)) *v1alpha1.Backup {
	s.t.Helper()
	b := &v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{
		Name: s.backupName(text), Labels: map[string]string{v1alpha1.LabelScheduleName: "nightly"},
		Annotations: map[string]string{v1alpha1.AnnotationScheduledTime: s.time(text).Format(time.RFC3339)},
	}}
	for _, edit := range edits {
		edit(b)
	}
	return suite.Create(s.Env, b)
}

// end finishes a Backup an hour after a time, with nothing owed.
func (s *stage) end(b *v1alpha1.Backup, phase v1alpha1.RunPhase, text string) {
	s.t.Helper()
	before := b.DeepCopy()
	b.Status.Phase, b.Status.CompletionTimestamp = phase, &metav1.Time{Time: s.time(text)}
	conditions.SetSummary(b, conditions.Current, string(phase), "")
	if err := s.Client.Status().Patch(s.t.Context(), b, client.MergeFrom(before)); err != nil {
		s.t.Fatal(err)
	}
}

// expectTold expects exactly these events since the last call. Each is the beginning of an event,
// optionally followed by a later part of it after a "…".
func (s *stage) expectTold(want ...string) {
	s.t.Helper()
	told := s.told
	s.told = nil
	if len(told) != len(want) {
		s.t.Errorf("the events are %q, want %q", told, want)
		return
	}
	for i, text := range told {
		beginning, words, _ := strings.Cut(want[i], "…")
		if !strings.HasPrefix(text, beginning) || !strings.Contains(text, words) {
			s.t.Errorf("the event is %q, want %q", text, want[i])
		}
	}
}

// expect is the expected status.
type expect struct {
	Phase                       v1alpha1.SchedulePhase
	Last, Backup, Success, Next string
	Skipped, Reason             string
	Active                      int32
	Ready, Stalled              string
}

// expectStatus compares a status. Ready and Stalled are the reasons of these conditions if
// they are True.
func (s *stage) expectStatus(n *v1alpha1.Schedule, want expect) {
	s.t.Helper()
	st := n.Status
	got := expect{
		Phase: st.Phase, Last: s.shown(st.LastScheduleTime), Backup: st.LastBackup, Success: s.shown(st.LastSuccessfulTime),
		Next: s.shown(st.NextScheduleTime), Skipped: s.shown(st.LastSkippedTime), Reason: st.LastSkippedReason, Active: st.Active,
	}
	if st.ObservedGeneration != n.Generation {
		s.t.Errorf("the status is about generation %d, the Schedule has %d", st.ObservedGeneration, n.Generation)
	}
	for of, reason := range map[string]*string{v1alpha1.ConditionReady: &got.Ready, v1alpha1.ConditionStalled: &got.Stalled} {
		c := conditions.Get(n, of)
		if c == nil || c.ObservedGeneration != n.Generation {
			s.t.Errorf("%s is %+v", of, c)
		} else if c.Status == metav1.ConditionTrue {
			*reason = c.Reason
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		s.t.Errorf("status (-want +got):\n%s", diff)
	}
}

// counted returns the counters by their name and the values of their labels.
func (s *stage) counted() map[string]float64 {
	s.t.Helper()
	families, err := s.registry.Gather()
	if err != nil {
		s.t.Fatal(err)
	}
	counted := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			name := family.GetName()
			for _, label := range metric.GetLabel() {
				name += " " + label.GetValue()
			}
			counted[name] = metric.GetCounter().GetValue()
		}
	}
	return counted
}

// expectDoomed checks for the Backups of which times DeletionRuns exist.
func (s *stage) expectDoomed(want ...string) {
	s.t.Helper()
	var list v1alpha1.DeletionRunList
	if err := s.Client.List(s.t.Context(), &list, client.InNamespace(s.Namespace)); err != nil {
		s.t.Fatal(err)
	}
	var got, names []string
	for _, d := range list.Items {
		got = append(got, d.Spec.BackupName)
	}
	for _, text := range want {
		names = append(names, s.backupName(text))
	}
	slices.Sort(got)
	if diff := cmp.Diff(names, got); diff != "" {
		s.t.Errorf("DeletionRuns (-want +got):\n%s", diff)
	}
}
