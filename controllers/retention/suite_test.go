// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package retention

import (
	"context"
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
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
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
	RunSpecs(t, "Retention controller")
}

// month is the ttl of Backups, unless a test overrides it.
const month = 720 * time.Hour

// stage is a namespace in which a test reconciles Backups, at chosen times. Times are relative to
// the start of the Backups.
type stage struct {
	*suite.Env
	t     testing.TB
	start time.Time
	now   time.Time
	// skew is how far the clock of the API server is ahead.
	skew time.Duration
	told []string
	r    *Reconciler
}

func newStage(t testing.TB) *stage {
	t.Helper()
	s := &stage{Env: cluster.NewEnv(t), t: t, start: time.Now().UTC().Truncate(time.Second)}
	s.now = s.start
	s.r = &Reconciler{
		Client: s.Client, Recorder: s, Now: func() time.Time { return s.now },
		ServerTime:     func(context.Context, string) (time.Time, error) { return s.now.Add(s.skew), nil },
		dataLeftBehind: prometheus.NewCounter(prometheus.CounterOpts{Name: "kept"}),
	}
	return s
}

// Eventf implements events.EventRecorder.
func (s *stage) Eventf(_, _ runtime.Object, level, reason, action, note string, args ...any) {
	s.told = append(s.told, fmt.Sprintf("%s %s %s: ", level, reason, action)+fmt.Sprintf(note, args...))
}

// backup creates a Completed Backup that owes no clean-up.
func (s *stage) backup(name string, edits ...func(*v1alpha1.Backup)) *v1alpha1.Backup {
	s.t.Helper()
	b := &v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.BackupSpec{TTL: &metav1.Duration{Duration: month}}}
	b.Status.Phase, b.Status.StorageLocation = v1alpha1.RunPhaseCompleted, "main"
	b.Status.StartTimestamp, b.Status.CompletionTimestamp = &metav1.Time{Time: s.start}, &metav1.Time{Time: s.start.Add(time.Minute)}
	conditions.SetSummary(b, conditions.Current, "Completed", "")
	for _, edit := range edits {
		edit(b)
	}
	status := b.Status
	suite.Create(s.Env, b)
	b.Status = status
	s.writeStatus(b)
	return b
}

// without removes the ttl of a Backup.
func without(b *v1alpha1.Backup) { b.Spec.TTL = nil }

// goes sets the deletionPolicy Delete.
func goes(b *v1alpha1.Backup) { b.Spec.DeletionPolicy = v1alpha1.DeletionPolicyDelete }

func (s *stage) writeStatus(object client.Object) {
	s.t.Helper()
	if err := s.Client.Status().Update(s.t.Context(), object); err != nil {
		s.t.Fatal(err)
	}
}

// at reconciles a Backup at a time, until nothing changes any more.
func (s *stage) at(since time.Duration, b *v1alpha1.Backup) ctrl.Result {
	s.t.Helper()
	s.now = s.start.Add(since)
	for range 5 {
		before := b.ResourceVersion
		result, err := s.r.Reconcile(s.t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(b)})
		if err != nil {
			s.t.Fatal(err)
		}
		if !suite.GetIfExists(s.Env, b) || b.ResourceVersion == before {
			return result
		}
	}
	s.t.Fatal("it changes over and over")
	return ctrl.Result{}
}

// keeps reconciles a Backup at a time at which nothing must be done.
func (s *stage) keeps(since time.Duration, b *v1alpha1.Backup) ctrl.Result {
	s.t.Helper()
	result := s.at(since, b)
	s.expectDoomed()
	if result.RequeueAfter > time.Hour {
		s.t.Errorf("it is requeued after %v", result.RequeueAfter)
	}
	return result
}

// deletions returns the DeletionRuns that are not deleted. Their controller, which removes their
// finalizer, does not run.
func (s *stage) deletions() []v1alpha1.DeletionRun {
	s.t.Helper()
	var list v1alpha1.DeletionRunList
	if err := s.Client.List(s.t.Context(), &list, client.InNamespace(s.Namespace)); err != nil {
		s.t.Fatal(err)
	}
	for i := range list.Items {
		s.releaseDeletion(&list.Items[i])
	}
	return slices.DeleteFunc(list.Items, func(d v1alpha1.DeletionRun) bool { return !d.DeletionTimestamp.IsZero() })
}

// releaseDeletion removes the finalizer of a DeletionRun.
func (s *stage) releaseDeletion(d *v1alpha1.DeletionRun) {
	s.t.Helper()
	if controllerutil.ContainsFinalizer(d, v1alpha1.FinalizerRun) {
		suite.UpdateWithRetry(s.Env, d, func(d *v1alpha1.DeletionRun) { controllerutil.RemoveFinalizer(d, v1alpha1.FinalizerRun) })
	}
}

// expectDoomed checks for which Backups the operator created DeletionRuns.
func (s *stage) expectDoomed(want ...string) {
	s.t.Helper()
	var got []string
	for _, d := range s.deletions() {
		if d.Spec.Cause != v1alpha1.DeletionCauseRequested {
			got = append(got, d.Spec.BackupName)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		s.t.Errorf("there are DeletionRuns of %q, want %q", got, want)
	}
}

// deletion returns the only DeletionRun.
func (s *stage) deletion() *v1alpha1.DeletionRun {
	s.t.Helper()
	all := s.deletions()
	if len(all) != 1 {
		s.t.Fatalf("there are %d DeletionRuns", len(all))
	}
	return &all[0]
}

// requested creates a DeletionRun as a user does.
func (s *stage) requested(name, backup string) *v1alpha1.DeletionRun {
	s.t.Helper()
	return suite.Create(s.Env, &v1alpha1.DeletionRun{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.DeletionRunSpec{BackupName: backup}})
}

// ends makes a DeletionRun end now.
func (s *stage) ends(d *v1alpha1.DeletionRun, phase v1alpha1.RunPhase) {
	s.t.Helper()
	d.Status.Phase, d.Status.CompletionTimestamp = phase, &metav1.Time{Time: s.now}
	s.writeStatus(d)
}

// begins gives a DeletionRun its plan.
func (s *stage) begins(d *v1alpha1.DeletionRun) {
	s.t.Helper()
	conditions.Set(d, v1alpha1.ConditionPlanned, metav1.ConditionTrue, v1alpha1.ReasonPlanRecorded, "")
	s.writeStatus(d)
}

// destroys makes a DeletionRun destroy the data of its Backup.
func (s *stage) destroys(d *v1alpha1.DeletionRun, b *v1alpha1.Backup) {
	s.t.Helper()
	d.Status.BackupName, d.Status.BackupUID = b.Name, string(b.UID)
	conditions.Set(d, v1alpha1.ConditionDataDeleted, metav1.ConditionTrue, v1alpha1.ReasonDataDeleted, "")
	s.begins(d)
}

// holds adds a finalizer that holds an object until the test removes it.
func holds[T client.Object](s *stage, object T) T {
	s.t.Helper()
	suite.UpdateWithRetry(s.Env, object, func(object T) { object.SetFinalizers(append(object.GetFinalizers(), "grapnel.dev/test")) })
	return object
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

// expectKept checks how many Backups were counted whose data stays.
func (s *stage) expectKept(want float64) {
	s.t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(s.r.dataLeftBehind)
	families, err := registry.Gather()
	if err != nil || len(families) != 1 {
		s.t.Fatalf("there are %d metrics: %v", len(families), err)
	}
	if got := families[0].GetMetric()[0].GetCounter().GetValue(); got != want {
		s.t.Errorf("%v Backups were counted whose data stays, want %v", got, want)
	}
}

// expectHeld checks that a Backup exists, with or without the finalizer.
func (s *stage) expectHeld(b *v1alpha1.Backup, want bool) {
	s.t.Helper()
	if !suite.GetIfExists(s.Env, b) {
		s.t.Fatalf("Backup %s no longer exists", b.Name)
	}
	if got := slices.Contains(b.Finalizers, v1alpha1.FinalizerStoredData); got != want {
		s.t.Errorf("Backup %s has the finalizers %q", b.Name, b.Finalizers)
	}
}

// expectSpec checks the spec of a DeletionRun.
func (s *stage) expectSpec(d *v1alpha1.DeletionRun, b *v1alpha1.Backup, cause v1alpha1.DeletionCause) {
	s.t.Helper()
	want := v1alpha1.DeletionRunSpec{BackupName: b.Name, BackupUID: string(b.UID), Cause: cause, TTL: &metav1.Duration{Duration: 24 * time.Hour}}
	if diff := cmp.Diff(want, d.Spec); diff != "" {
		s.t.Errorf("spec (-want +got):\n%s", diff)
	}
}

// broken is an API server that fails once an error is set.
type broken struct {
	client.Client
	create, patch error
}

// Create implements client.Client.
func (b *broken) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	if b.create != nil {
		return b.create
	}
	return b.Client.Create(ctx, object, options...)
}

// Patch implements client.Client.
func (b *broken) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.PatchOption) error {
	if b.patch != nil {
		return b.patch
	}
	return b.Client.Patch(ctx, object, patch, options...)
}
