// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"fmt"
	"testing"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

// TestARestoreIsStopped stops Restores in two ways at several moments. What they owe
// is paid, and what was restored stays.
func TestARestoreIsStopped(t *testing.T) {
	t.Parallel()
	s := site{world.SharedOperator(t)}
	app := gatedApp(t, 2)
	b := s.backUp(t, app)
	newGate(t, app)
	for name, stop := range map[string]func(*testing.T, *v1alpha1.Restore){
		"cancelled": func(t *testing.T, r *v1alpha1.Restore) {
			t.Helper()
			cancelRestore(t, r)
			outcome(t, r, v1alpha1.RunPhaseCancelled, "Cancelled: spec.desiredState is Cancel")
		},
		"deleted": func(t *testing.T, r *v1alpha1.Restore) {
			t.Helper()
			world.Delete(t, r)
			world.WaitForDeletion(t, r)
			checkPaid(t, r)
		},
	} {
		t.Run(name+" in a PreRestore action", func(t *testing.T) {
			t.Parallel()
			r, target := s.restoreOf(b.Name, app)
			r.Labels = env.LabelsForActions(first, holds)
			env.Create(t, world.Client, r)
			called(t, r, v1alpha1.HookPreRestore, holds)
			stop(t, r)
			untouched(t, target)
			env.CheckEqual(t, "calls", callsOf(t, r, "holds"), []string{"PreRestore " + holds + " #1", "PostRestore " + holds + " #1"})
		})
		t.Run(name+" while it restores", func(t *testing.T) {
			t.Parallel()
			r, target := s.restoreOf(b.Name, app)
			r.Labels = env.LabelsForActions(first)
			env.Create(t, world.Client, r)
			awaitObjects(t, target, 2)
			stop(t, r)
			env.CheckEqual(t, "objects", restored(t, target), []string{"c0=0", "c1=1"})
			env.CheckEqual(t, "calls", callsOf(t, r, "story"), []string{"PreRestore " + first + " #1", "PostRestore " + first + " #1"})
		})
	}
}

// TestACancelledRestoreTellsWhatItDid in its counts and in its files, for what was
// restored stays.
func TestACancelledRestoreTellsWhatItDid(t *testing.T) {
	t.Parallel()
	s := site{world.SharedOperator(t)}
	app := gatedApp(t, 2)
	b := s.backUp(t, app)
	newGate(t, app)
	r, target := s.restoreOf(b.Name, app)
	env.Create(t, world.Client, r)
	awaitObjects(t, target, 2)
	cancelRestore(t, r)
	r = outcome(t, r, v1alpha1.RunPhaseCancelled, "Cancelled: spec.desiredState is Cancel", "Objects: 3 created before")
	if r.Status.Counts == nil || r.Status.Counts.Created != 3 {
		t.Errorf("the counts are %+v, want 3 created", r.Status.Counts)
	}
	says(t, s.stored(t, r.Status.Files.ResourceList), `"v1/ConfigMap":["`+target+`/c0(created)","`+target+`/c1(created)"]`)
	says(t, s.stored(t, r.Status.Files.Results), "Cancelled: spec.desiredState is Cancel")
}

// TestOwedCleanUpIsNotStopped stops Restores whose outcome is known already. It stays.
func TestOwedCleanUpIsNotStopped(t *testing.T) {
	t.Parallel()
	s := site{world.SharedOperator(t)}
	app := world.CreateApp(t, 1)
	b := s.backUp(t, app)
	for name, stop := range map[string]func(*testing.T, *v1alpha1.Restore){
		"cancelled": func(t *testing.T, r *v1alpha1.Restore) {
			t.Helper()
			cancelRestore(t, r)
			outcome(t, r, v1alpha1.RunPhaseCompleted, "2 created")
		},
		"deleted": func(t *testing.T, r *v1alpha1.Restore) {
			t.Helper()
			world.Delete(t, r)
			world.WaitForDeletion(t, r)
			checkPaid(t, r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, target := s.restoreOf(b.Name, app)
			r.Labels, r.Spec.Parameters = env.LabelsForActions(first), parameter(first, "fault", "sleep:1s")
			env.Create(t, world.Client, r)
			called(t, r, v1alpha1.HookPostRestore, first)
			stop(t, r)
			env.CheckEqual(t, "objects", restored(t, target), []string{"c0=0"})
			env.CheckEqual(t, "calls", callsOf(t, r, "story"), []string{"PreRestore " + first + " #1", "PostRestore " + first + " #1"})
		})
	}
}

// awaitObjects waits until a namespace has so many ConfigMaps.
func awaitObjects(t *testing.T, namespace string, n int) {
	t.Helper()
	suite.Eventually(t, func() string {
		if got := restored(t, namespace); len(got) != n {
			return fmt.Sprintf("there are %q, want %d", got, n)
		}
		return ""
	})
}

func TestARestoreIsCancelledBeforeItBegins(t *testing.T) {
	t.Parallel()
	s := site{world.SharedOperator(t)}
	app := world.CreateApp(t, 1)
	r, target := s.restoreOf(s.backUp(t, app).Name, app)
	r.Spec.DesiredState = v1alpha1.DesiredStateCancel
	r = outcome(t, env.Create(t, world.Client, r), v1alpha1.RunPhaseCancelled, "Cancelled before it started")
	untouched(t, target)
	r.Spec.DesiredState = v1alpha1.DesiredStateRun
	if err := world.Client.Update(t.Context(), r); err == nil {
		t.Error("the API server took it back")
	}
}
