// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package crash

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// scenario is a kind of run.
type scenario struct {
	// name of the lane.
	name string
	// data is the namespace that is archived.
	data string
	// faults of the actions.
	faults string
	phase  v1alpha1.BackupPhase
	// prepare adds what makes the run end as it does.
	prepare func(t *testing.T, l *lane, d *disturbance)
	sweeps  []sweep
	// logged says that the logs of a run tell no less if the operator ended, as long
	// as they are kept.
	logged bool
	// unanswered are the calls that do not get as far as to kill the operator.
	unanswered []string
}

func scenarios() []scenario {
	kills := []sweep{
		{how: killed, when: before, target: api},
		{how: killed, when: after, target: api},
		{how: killed, when: before, target: store},
		{how: killed, when: after, target: store},
	}
	return []scenario{
		{
			name: "done", data: smallData, faults: "PreBackup=outputs,PostBackup=outputs", phase: v1alpha1.BackupPhaseCompleted,
			prepare: nothing, logged: true,
			sweeps: []sweep{
				kills[0],
				{how: killed, when: after, target: api, events: true},
				kills[2], kills[3],
				{how: asked, when: after, target: api},
				{how: pressed, when: after, target: api},
			},
		},
		{
			name: "refused", data: smallData, faults: "PreBackup=error,PostBackup=outputs", phase: v1alpha1.BackupPhaseFailedPreBackupActions,
			prepare: nothing, sweeps: kills[1:], logged: true,
		},
		{
			name: "halted", data: smallData, faults: "PreBackup=wait,PostBackup=outputs", phase: v1alpha1.BackupPhaseCancelled,
			prepare: cancelPre, sweeps: append(kills, sweep{how: asked, when: after, target: api}), unanswered: []string{"PreBackup:1 after"},
		},
		{
			name: "dropped", data: smallData, faults: "PreBackup=outputs,PostBackup=outputs", phase: v1alpha1.BackupPhaseCancelled,
			prepare: cancelArchive, sweeps: kills[1:],
		},
		{
			name: "large", data: largeData, faults: "PreBackup=outputs,PostBackup=outputs", phase: v1alpha1.BackupPhaseCompleted,
			prepare: nothing, logged: true,
			sweeps: []sweep{
				{how: killed, when: before, target: store, only: ".tar.gz"},
				{how: killed, when: after, target: store, only: ".tar.gz"},
			},
		},
		{
			name: "removed", data: smallData, faults: "PreBackup=wait,PostBackup=outputs", phase: v1alpha1.BackupPhaseCancelled,
			prepare: deletePre, sweeps: kills[1:2], unanswered: []string{"PreBackup:1 after"},
		},
	}
}

func nothing(*testing.T, *lane, *disturbance) {}

// cancelPre cancels the Backup while its PreBackup action works.
func cancelPre(t *testing.T, l *lane, d *disturbance) {
	t.Helper()
	whilePre(d, cancel(t, l))
}

// deletePre deletes it then.
func deletePre(t *testing.T, l *lane, d *disturbance) {
	t.Helper()
	var once sync.Once
	whilePre(d, func(name string) {
		once.Do(func() {
			if err := l.client.Delete(t.Context(), &v1alpha1.Backup{ObjectMeta: l.meta(name)}); err != nil {
				t.Errorf("deleting: %v", err)
			}
		})
	})
}

func whilePre(d *disturbance, stop func(name string)) {
	d.onEvent = func(object client.Object) {
		run, ok := object.(*v1alpha1.HookRun)
		if ok && run.Spec.Hook == v1alpha1.HookPreBackup && run.Status.StartTimestamp != nil &&
			run.Spec.Subject.Name == d.api.backup {
			stop(d.api.backup)
		}
	}
}

// cancelArchive cancels the Backup while its archive is stored.
func cancelArchive(t *testing.T, l *lane, d *disturbance) {
	t.Helper()
	stop := cancel(t, l)
	d.store.meet = func(ctx context.Context, kind string) {
		if strings.HasSuffix(kind, ".tar.gz") {
			stop(d.store.backup)
			<-ctx.Done() // it never is
		}
	}
}

// cancel cancels a Backup, once.
func cancel(t *testing.T, l *lane) func(name string) {
	t.Helper()
	var once sync.Once
	return func(name string) {
		once.Do(func() {
			b := &v1alpha1.Backup{ObjectMeta: l.meta(name)}
			patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"desiredState":"Cancel"}}`))
			if err := l.client.Patch(t.Context(), b, patch); err != nil {
				t.Errorf("cancelling: %v", err)
			}
		})
	}
}

// undisturbed runs the scenario without any harm.
func (s scenario) undisturbed(t *testing.T, l *lane) (result, disturbance) {
	t.Helper()
	d := &disturbance{api: &trap{}, store: &trap{}}
	s.prepare(t, l, d)
	last, ends := l.run(t, *d)
	got := l.observe(t, last, ends)
	if ends > 0 || got.Phase != string(s.phase) {
		t.Fatalf("the run ended %s, with %d ends of the operator: %+v\n%s", got.Phase, ends, got, l.op().LastLines())
	}
	return got, *d
}

// record runs the scenario twice: the first run also waits for the location and the
// plugin.
func (s scenario) record(t *testing.T, l *lane) (want result, recorded disturbance) {
	t.Helper()
	first, _ := s.undisturbed(t, l)
	want, recorded = s.undisturbed(t, l)
	if diff := cmp.Diff(first, want); diff != "" {
		t.Fatalf("two undisturbed runs differ:\n%s", diff)
	}
	return want, recorded
}

func TestCrash(t *testing.T) {
	s := newSite(t)
	for _, scene := range scenarios() {
		t.Run(scene.name, func(t *testing.T) {
			t.Parallel()
			l := s.newLane(t, scene.name, scene.data, scene.faults)
			want, recorded := scene.record(t, l)
			for _, sw := range scene.sweeps {
				t.Run(fmt.Sprint(sw), func(t *testing.T) { sw.run(t, l, scene, want, recorded) })
			}
			scene.sweepCalls(t, l, want)
		})
	}
	t.Run("again", func(t *testing.T) {
		t.Parallel()
		crashAgain(t, s)
	})
	t.Run("working", func(t *testing.T) {
		t.Parallel()
		stopWhileAnActionWorks(t, s)
	})
}

// crashAgain kills the operator again and again within one run. It has to live for a
// few writes: to create the HookRuns and record that they are there, or to record an
// attempt and its result.
func crashAgain(t *testing.T, s *site) {
	t.Helper()
	scene := scenarios()[0]
	l := s.newLane(t, "again", smallData, scene.faults)
	want, _ := scene.record(t, l)
	for _, every := range []int{5, 7, 11} {
		for _, w := range []when{before, after} {
			t.Run(fmt.Sprintf("%s every %d writes", w, every), func(t *testing.T) {
				d := disturbance{api: &trap{at: every, again: true, when: w, spring: l.kill}, store: &trap{}}
				last, ends := l.run(t, d)
				if ends < 2 {
					t.Errorf("the operator ended %d times", ends)
				}
				scene.compare(t, l, want, last, ends, false)
			})
		}
	}
}

// stopWhileAnActionWorks asks the operator to end while an action works that can not
// be interrupted.
func stopWhileAnActionWorks(t *testing.T, s *site) {
	t.Helper()
	scene := scenario{
		faults: "PreBackup=sleep:300ms,PostBackup=sleep:300ms", phase: v1alpha1.BackupPhaseCompleted,
		prepare: nothing, logged: true,
	}
	l := s.newLane(t, "working", smallData, scene.faults)
	want, _ := scene.record(t, l)
	for n, point := range []string{"PreBackup action", "first PostBackup action", "second PostBackup action"} {
		t.Run(point, func(t *testing.T) {
			l.replug(t, scene.faults, nil) // its calls are counted from here
			asked := make(chan struct{})
			go func() {
				defer close(asked)
				l.awaitCalls(t, n+1)
				l.ask()
			}()
			last, ends := l.run(t, disturbance{api: &trap{}, store: &trap{}, polite: true})
			<-asked
			if ends != 1 {
				t.Errorf("the operator ended %d times", ends)
			}
			scene.compare(t, l, want, last, ends, false)
		})
	}
}
