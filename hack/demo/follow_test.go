// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
)

func TestStory(t *testing.T) {
	var lines []string
	s := story{
		kind: lifecycle.BackupKind, name: "shop",
		print: func(c change) { lines = append(lines, c.what+" "+c.name+": "+c.phase+" "+c.text) },
		open:  map[string]bool{}, said: map[string]change{},
	}
	backup := &v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	hookRun := &v1alpha1.HookRun{ObjectMeta: metav1.ObjectMeta{Name: "shop-pre"}}
	hookRun.Spec.Hook, hookRun.Spec.ActionName = "PreBackup", "freeze"
	hookRun.Spec.ParentRef = v1alpha1.ParentReference{Kind: "Backup", Name: "shop"}
	tell := func(object runtime.Object) {
		t.Helper()
		if err := s.take(watch.Event{Type: watch.Modified, Object: object}, true); err != nil {
			t.Fatal(err)
		}
	}

	// Other stories.
	tell(&v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Name: "other"}})
	tell(&v1alpha1.HookRun{Spec: v1alpha1.HookRunSpec{ParentRef: v1alpha1.ParentReference{Kind: "Restore", Name: "shop"}}})

	tell(backup)
	tell(backup) // Nothing that a person can see.
	tell(hookRun)
	backup.Status.Phase = v1alpha1.RunPhaseInProgress
	backup.Status.Message = "Archiving"
	backup.Status.Progress = &v1alpha1.BackupProgress{TotalItems: 9, ItemsBackedUp: 4}
	tell(backup)
	operation := &v1alpha1.AsyncOperation{ObjectMeta: metav1.ObjectMeta{Name: "shop-data"}}
	operation.Spec.Item = v1alpha1.OperationItem{Resource: "persistentvolumeclaims", Name: "data"}
	tell(operation) // of another story
	operation.Spec.ParentRef = v1alpha1.ParentReference{Kind: "Backup", Name: "shop"}
	tell(operation)
	operation.Status.Phase, operation.Status.Message = v1alpha1.AsyncOperationPhaseInProgress, "25 %"
	operation.Status.Progress = &v1alpha1.AsyncOperationProgress{Completed: 1, Total: 4}
	tell(operation)
	tell(operation)
	backup.Status.Phase = v1alpha1.RunPhaseCompleted
	backup.Status.Message = "9 objects"
	backup.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: "True"}}
	tell(backup)
	if s.over() {
		t.Error("the story is over, and a HookRun is open")
	}
	hookRun.Status.Phase = v1alpha1.HookRunPhaseCompleted
	hookRun.Status.Message = "frozen"
	tell(hookRun)
	if s.over() {
		t.Error("the demo is over, and an operation is still running")
	}
	operation.Status.Phase, operation.Status.Message = v1alpha1.AsyncOperationPhaseCompleted, "done"
	operation.Status.CompletionTimestamp = &metav1.Time{}
	tell(operation)
	if !s.over() || s.halfway != 1 {
		t.Errorf("everything has ended: over is %v, progress was seen %d times", s.over(), s.halfway)
	}

	want := []string{
		"Backup shop:  created",
		"PreBackup freeze:  planned",
		"Backup shop: InProgress Archiving (4 of 9 objects)",
		"operation data:  started",
		"operation data: InProgress 25 %",
		"Backup shop: Completed 9 objects",
		"PreBackup freeze: Completed frozen",
		"operation data: Completed done",
	}
	if !slices.Equal(lines, want) {
		t.Errorf("lines are\n%q, want\n%q", lines, want)
	}
}

func TestStoryOfARestore(t *testing.T) {
	var lines []string
	s := story{
		kind: lifecycle.RestoreKind, name: "again",
		print: func(c change) { lines = append(lines, c.what+" "+c.name+": "+c.phase+" "+c.text) },
		open:  map[string]bool{}, said: map[string]change{},
	}
	restore := &v1alpha1.Restore{ObjectMeta: metav1.ObjectMeta{Name: "again"}}
	restore.Status.Phase = v1alpha1.RunPhaseInProgress
	restore.Status.Message = "Restoring"
	restore.Status.Progress = &v1alpha1.RestoreProgress{TotalItems: 9, ItemsRestored: 4}
	if err := s.take(watch.Event{Type: watch.Added, Object: restore}, true); err != nil {
		t.Fatal(err)
	}
	if want := []string{"Restore again: InProgress Restoring (4 of 9 objects)"}; !slices.Equal(lines, want) || s.over() {
		t.Errorf("over is %v, lines are %q, want %q", s.over(), lines, want)
	}
	restore.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionStalled, Status: "True"}}
	if err := s.take(watch.Event{Type: watch.Modified, Object: restore}, true); err != nil || !s.over() {
		t.Errorf("the restore stalled, but over is %v, error %v", s.over(), err)
	}
}

func TestStoryEndsWithItsWatch(t *testing.T) {
	s := story{open: map[string]bool{}, said: map[string]change{}}
	if s.take(watch.Event{}, false) == nil {
		t.Error("the end of a watch is no error")
	}
	if s.take(watch.Event{Type: watch.Error, Object: &metav1.Status{Message: "gone"}}, true) == nil {
		t.Error("an error of a watch is no error")
	}
}

func TestSumUp(t *testing.T) {
	const created = "namespace/a created\nnamespace/b created\ndeployment.apps/web created\n"
	for in, want := range map[string]string{
		created:                           "3 objects created: deployment (1), namespace (2)",
		"namespace/a created\n":           "namespace/a created\n",
		created + "x failed\n":            created + "x failed\n",
		"crd.apiextensions/a met\nb\nc\n": "crd.apiextensions/a met\nb\nc\n",
	} {
		if got := sumUp(in); got != want {
			t.Errorf("sumUp(%q) is %q, want %q", in, got, want)
		}
	}
}
