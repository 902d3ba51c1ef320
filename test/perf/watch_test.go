// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// state returns a Backup as a watch shows it.
func state(phase v1alpha1.RunPhase, trueConditions ...string) *v1alpha1.Backup {
	backup := newBackup("b")
	backup.Status.Phase = phase
	for _, name := range trueConditions {
		backup.Status.Conditions = append(backup.Status.Conditions, metav1.Condition{Type: name, Status: metav1.ConditionTrue})
	}
	return backup
}

func TestWatcher_TakeBackup(t *testing.T) {
	seen := &observation[*v1alpha1.Backup]{}
	w := &watcher[*v1alpha1.Backup]{seen: map[string]*observation[*v1alpha1.Backup]{"b": seen}, open: 1}
	run := &v1alpha1.HookRun{Spec: v1alpha1.HookRunSpec{ParentRef: v1alpha1.ParentReference{Name: "b"}}}
	stranger := state(v1alpha1.RunPhaseFailed, v1alpha1.ConditionStalled)
	stranger.Name = "stranger"
	for _, event := range []watch.Event{
		{Type: watch.Added, Object: stranger},
		{Type: watch.Added, Object: state("")},
		{Type: watch.Modified, Object: state(v1alpha1.RunPhaseInProgress, v1alpha1.ConditionReconciling)},
		{Type: watch.Added, Object: run},
		{Type: watch.Modified, Object: run},
		{Type: watch.Deleted, Object: run},
		{Type: watch.Modified, Object: state(v1alpha1.RunPhaseCompleted, v1alpha1.ConditionReconciling)},
	} {
		if err := w.take(event); err != nil {
			t.Fatal(err)
		}
	}
	if w.open != 1 || seen.completed.IsZero() {
		t.Errorf("with post actions to come, %d Backups are open and completion was seen at %s", w.open, seen.completed)
	}
	first := seen.completed
	for range 2 {
		err := w.take(watch.Event{Type: watch.Modified, Object: state(v1alpha1.RunPhaseCompleted, v1alpha1.ConditionReady)})
		if err != nil {
			t.Fatal(err)
		}
	}
	if w.open != 0 || seen.completed != first {
		t.Errorf("at the end %d Backups are open, and completion moved from %s to %s", w.open, first, seen.completed)
	}
	if seen.writes != 6 {
		t.Errorf("%d writes were counted, want 6", seen.writes)
	}
}

func TestWatcher_TakeErrors(t *testing.T) {
	failed := state(v1alpha1.RunPhaseFailed, v1alpha1.ConditionStalled)
	failed.Status.FailureReason = "the disk is full"
	for name, tc := range map[string]struct {
		event watch.Event
		want  string
	}{
		"failed backup": {watch.Event{Type: watch.Modified, Object: failed}, "the disk is full"},
		"broken watch":  {watch.Event{Type: watch.Error, Object: &metav1.Status{Message: "too old"}}, "too old"},
	} {
		w := &watcher[*v1alpha1.Backup]{seen: map[string]*observation[*v1alpha1.Backup]{"b": {}}, open: 1}
		if err := w.take(tc.event); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: the error is %v, want one with %q", name, err, tc.want)
		}
	}
}

func TestWatcher_TakeRestore(t *testing.T) {
	seen := &observation[*v1alpha1.Restore]{}
	w := &watcher[*v1alpha1.Restore]{seen: map[string]*observation[*v1alpha1.Restore]{"r": seen}, open: 1}
	done := newRestore("r", "b", "there-", 1)
	done.Status.Phase = v1alpha1.RunPhaseCompleted
	done.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}}
	if err := w.take(watch.Event{Type: watch.Modified, Object: done}); err != nil {
		t.Fatal(err)
	}
	if w.open != 0 || seen.completed.IsZero() || seen.last != done {
		t.Errorf("%d Restores are open, and completion was seen at %s", w.open, seen.completed)
	}
}
