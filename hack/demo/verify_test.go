// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/archive"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
)

// asItShouldBe returns facts that every check likes.
func asItShouldBe() *facts {
	begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(seconds int) *metav1.Time {
		return &metav1.Time{Time: begin.Add(time.Duration(seconds) * time.Second)}
	}
	action := func(start, end int) *[]v1alpha1.ActionStatus {
		return &[]v1alpha1.ActionStatus{{
			PluginName: actionName, Phase: v1alpha1.ActionPhaseCompleted, StartTimestamp: at(start), CompletionTimestamp: at(end),
		}}
	}
	hookRun := func(point v1alpha1.HookPoint) v1alpha1.HookRun {
		r := v1alpha1.HookRun{}
		r.OwnerReferences = []metav1.OwnerReference{{UID: "uid"}}
		r.Spec.Hook, r.Spec.ActionName = point, actionName
		r.Status.Phase, r.Status.Attempt, r.Status.Duration = v1alpha1.HookRunPhaseCompleted, 1, "2s"
		return r
	}
	data := bytes.Repeat([]byte("x"), dataBytes)
	operation := v1alpha1.AsyncOperation{Spec: v1alpha1.AsyncOperationSpec{PluginName: copyAction, Item: v1alpha1.OperationItem{Name: claim}}}
	operation.Status.Phase, operation.Status.CompletionTimestamp = v1alpha1.AsyncOperationPhaseCompleted, at(0)
	f := &facts{
		ran: ran{
			operated: operated{operations: []v1alpha1.AsyncOperation{operation}, halfway: 1, data: data, copied: data},
			kind:     lifecycle.BackupKind,
			runs:     []v1alpha1.HookRun{hookRun(v1alpha1.HookPreBackup), hookRun(v1alpha1.HookPostBackup)},
			log:      []string{"msg=\"Froze the application\" namespaces=shop-*\n"},
			postLog:  []string{"msg=\"Thawed the application\" phase=Completed removedMarkers=1 replicas=3\n"},
		},
		liveDatabase: map[string]any{"replicas": int64(3)},
		database:     map[string]any{"replicas": int64(3)},
		paths:        wantedPaths(),
		objects: []archive.Identity{
			{Resource: "secrets", Namespace: "shop-data", Name: "orders"},
			{Resource: "namespaces", Name: "shop-data"},
		},
	}
	for _, name := range wantedFiles() {
		f.files = append(f.files, storedFile{name: name, size: 1})
	}
	for _, pod := range []string{"frontend/a", "frontend/b", "backend/a", "backend/b", "backend/c", "backend/d"} {
		f.paths = append(f.paths, "resources/pods/namespaces/shop-"+pod+".json")
	}
	f.of = &f.backup
	f.backup.UID = "uid"
	f.backup.Annotations = map[string]string{"example.io/notify.postbackup": "skip"}
	f.backup.Status = v1alpha1.BackupStatus{
		Phase:                    v1alpha1.RunPhaseCompleted,
		PreBackupActionsStatuses: action(0, 2), PostBackupActionsStatuses: action(3, 5),
		Progress: &v1alpha1.BackupProgress{TotalItems: 2, ItemsBackedUp: 2},
		RunStatus: v1alpha1.RunStatus{
			CompletionTimestamp: at(3),
			Operations:          &v1alpha1.OperationCounts{Attempted: 1, Completed: 1, Percent: 100},
			Conditions: []metav1.Condition{
				{Type: "Succeeded", Status: "True"},
				{Type: "Ready", Status: "True"},
				{Type: "PostActionsSucceeded", Status: "True"},
				{Type: "Reconciling", Status: "False"},
				{Type: "Stalled", Status: "False"},
				{Type: "CleanupOwed", Status: "False"},
			},
		},
	}
	return f
}

func TestChecksNotice(t *testing.T) {
	condition := func(kind string, status metav1.ConditionStatus) func(*facts) {
		return func(f *facts) {
			for i := range f.backup.Status.Conditions {
				if f.backup.Status.Conditions[i].Type == kind {
					f.backup.Status.Conditions[i].Status = status
				}
			}
		}
	}
	for name, tc := range map[string]struct {
		spoil func(f *facts)
		want  string
	}{
		"nothing":             {func(*facts) {}, ""},
		"phase":               {func(f *facts) { f.backup.Status.Phase = v1alpha1.RunPhaseFailed }, "is Completed"},
		"no operation":        {func(f *facts) { f.operations = nil }, "waited for the one operation"},
		"a failed operation":  {func(f *facts) { f.operations[0].Status.Phase = v1alpha1.AsyncOperationPhaseFailed }, "waited for the one operation"},
		"it did not wait":     {func(f *facts) { f.operations[0].Status.CompletionTimestamp = &metav1.Time{Time: time.Now()} }, "waited for the one operation"},
		"no progress":         {func(f *facts) { f.halfway = 0 }, "could be watched"},
		"other data":          {func(f *facts) { f.copied = bytes.Repeat([]byte("y"), dataBytes) }, "byte by byte"},
		"warning":             {func(f *facts) { f.backup.Status.Warnings = 1 }, "is Completed"},
		"error":               {func(f *facts) { f.backup.Status.Errors = 1 }, "is Completed"},
		"not ready":           {condition("Ready", "False"), "conditions"},
		"clean-up owed":       {condition("CleanupOwed", "True"), "conditions"},
		"post action unknown": {condition("PostActionsSucceeded", "Unknown"), "conditions"},
		"no pre action":       {func(f *facts) { f.backup.Status.PreBackupActionsStatuses = nil }, "actions are Completed"},
		"failed post action":  {func(f *facts) { (*f.backup.Status.PostBackupActionsStatuses)[0].Phase = "Failed" }, "actions are Completed"},
		"post action too soon": {func(f *facts) {
			f.backup.Status.CompletionTimestamp.Time = f.backup.Status.CompletionTimestamp.Add(time.Second)
		}, "actions are Completed"},
		"archive too soon": {func(f *facts) {
			f.backup.Status.CompletionTimestamp.Time = f.backup.Status.CompletionTimestamp.Add(-2 * time.Second)
		}, "actions are Completed"},
		"a run missing":    {func(f *facts) { f.runs = f.runs[:1] }, "has its HookRun"},
		"two attempts":     {func(f *facts) { f.runs[0].Status.Attempt = 2 }, "has its HookRun"},
		"another owner":    {func(f *facts) { f.runs[1].OwnerReferences[0].UID = "other" }, "has its HookRun"},
		"no annotation":    {func(f *facts) { f.backup.Annotations = nil }, "was skipped"},
		"damage":           {func(f *facts) { f.damage = errors.New("it is torn") }, "what the manifest says"},
		"empty file":       {func(f *facts) { f.files[0].size = 0 }, "No file is missing"},
		"missing object":   {func(f *facts) { f.paths = f.paths[1:] }, "objects of the application"},
		"missing pod":      {func(f *facts) { f.paths = f.paths[:len(f.paths)-1] }, "objects of the application"},
		"foreign object":   {func(f *facts) { f.objects[0].Namespace = "default" }, "nothing of other namespaces"},
		"excluded object":  {func(f *facts) { f.objects[0].Resource = "events" }, "nothing of other namespaces"},
		"no database":      {func(f *facts) { f.database, f.liveDatabase = nil, nil }, "custom resource in it"},
		"another database": {func(f *facts) { f.database = map[string]any{"replicas": int64(2)} }, "custom resource in it"},
		"too few objects":  {func(f *facts) { f.backup.Status.Progress.ItemsBackedUp = 1 }, "number of objects"},
		"no log":           {func(f *facts) { f.log = nil }, "is in the backup's log"},
		"logged too early": {func(f *facts) { f.log = append(f.log, f.postLog...) }, "log of its own"},
		"outputs lost":     {func(f *facts) { f.postLog[0] = strings.ReplaceAll(f.postLog[0], "replicas=3", "") }, "log of its own"},
		"was not frozen":   {func(f *facts) { f.postLog[0] = strings.ReplaceAll(f.postLog[0], "removedMarkers=1", "") }, "log of its own"},
		"still frozen":     {func(f *facts) { f.markers = []string{"frozen"} }, "frozen any more"},
	} {
		t.Run(name, func(t *testing.T) {
			f := asItShouldBe()
			tc.spoil(f)
			var failed []string
			for _, check := range checks() {
				if check.holds(f) != nil {
					failed = append(failed, check.what)
				}
			}
			if tc.want == "" && len(failed) > 0 || tc.want != "" && (len(failed) != 1 || !strings.Contains(failed[0], tc.want)) {
				t.Errorf("failed: %q, want the one that says %q", failed, tc.want)
			}
		})
	}
}

func TestEveryCheckCanFail(t *testing.T) {
	var out bytes.Buffer
	p := &printer{out: &out}
	if err := verify(p, asItShouldBe(), checks()); err != nil || strings.Contains(out.String(), "FAIL") {
		t.Errorf("all is well, but %v:\n%s", err, out.String())
	}
	out.Reset()
	nothing := &facts{damage: errors.New("nothing is stored")}
	nothing.ran = ran{kind: lifecycle.BackupKind, of: &nothing.backup, markers: []string{"frozen"}}
	nothing.objects = []archive.Identity{{Resource: "events"}}
	if err := verify(p, nothing, checks()); err == nil {
		t.Error("nothing is there, and verify is content")
	}
	if strings.Contains(out.String(), "  ok ") || strings.Count(out.String(), "FAIL") != len(checks()) {
		t.Errorf("nothing is there, and yet:\n%s", out.String())
	}
}

func TestWantedListsHaveNoDuplicates(t *testing.T) {
	for _, list := range [][]string{wantedPaths(), wantedFiles()} {
		if sorted := slices.Sorted(slices.Values(list)); len(slices.Compact(sorted)) != len(list) {
			t.Errorf("duplicates in %q", list)
		}
	}
}
