// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"maps"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
)

// restoredAsItShouldBe returns facts that every check of a restore likes.
func restoredAsItShouldBe(t *testing.T) *restoreFacts {
	t.Helper()
	backup := asItShouldBe()
	f := &restoreFacts{
		ran:      backup.ran,
		archived: 9,
		outcomes: map[string]map[string]int{
			"v1/Secret":    {"created": 5, "unchanged": 1},
			"v1/Endpoints": {"skipped": 3},
		},
		restored: restored{
			before: taken(t, before), after: taken(t, after),
			mapping: map[string]string{"data": "data-2"}, backup: "b", restore: "r", uid: "u",
		},
	}
	f.comparison = compareAll(&f.restored)
	f.kind, f.of = lifecycle.RestoreKind, &f.restore
	f.runs[0].Spec.Hook, f.runs[1].Spec.Hook = v1alpha1.HookPreRestore, v1alpha1.HookPostRestore
	f.log = []string{"msg=\"Froze the application\" namespaces=shop-frontend,shop-backend,shop-data-restored\n"}
	f.restore.UID = backup.backup.UID
	f.restore.Status = v1alpha1.RestoreStatus{
		Phase:                      v1alpha1.RunPhaseCompleted,
		RunStatus:                  backup.backup.Status.RunStatus,
		PreRestoreActionsStatuses:  backup.backup.Status.PreBackupActionsStatuses,
		PostRestoreActionsStatuses: backup.backup.Status.PostBackupActionsStatuses,
		Progress:                   &v1alpha1.RestoreProgress{TotalItems: 9, ItemsRestored: 9},
		Counts:                     &v1alpha1.RestoreCounts{Created: 5, Unchanged: 1, Skipped: 3},
		Files:                      &v1alpha1.RestoreFiles{Log: "l", Results: "r", ResourceList: "rl", PostLog: "p"},
		BackupOutputs:              map[string]v1alpha1.ParameterSet{actionName: {"replicas": "3"}},
	}
	f.restore.Status.Message = "Objects: 5 created, 1 unchanged, 3 skipped"
	return f
}

func TestRestoreChecksNotice(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(f *restoreFacts)
		want  string
	}{
		"nothing":           {func(*restoreFacts) {}, ""},
		"other data":        {func(f *restoreFacts) { f.copied = nil }, "byte by byte"},
		"phase":             {func(f *restoreFacts) { f.restore.Status.Phase = v1alpha1.RunPhasePartiallyFailed }, "is Completed"},
		"warning":           {func(f *restoreFacts) { f.restore.Status.Warnings = 1 }, "is Completed"},
		"clean-up owed":     {func(f *restoreFacts) { f.restore.Status.Conditions[5].Status = metav1.ConditionTrue }, "conditions"},
		"no post action":    {func(f *restoreFacts) { f.restore.Status.PostRestoreActionsStatuses = nil }, "actions are Completed"},
		"objects too late":  {func(f *restoreFacts) { f.restore.Status.CompletionTimestamp = &metav1.Time{Time: time.Now()} }, "actions are Completed"},
		"runs of a backup":  {func(f *restoreFacts) { f.runs[0].Spec.Hook = v1alpha1.HookPreBackup }, "has its HookRun"},
		"missing object":    {func(f *restoreFacts) { f.lose("Service web/svc") }, "is back"},
		"additional object": {func(f *restoreFacts) { f.comparison.additional = sorted(f.restored.after)[:1] }, "is back"},
		"nothing compared":  {func(f *restoreFacts) { f.comparison.compared = 0 }, "is back"},
		"another value": {func(f *restoreFacts) {
			f.comparison.unexpected = []difference{{field: "spec.replicas", before: int64(2), after: int64(3)}}
		}, "differs in anything"},
		"no difference": {func(f *restoreFacts) { f.comparison.expected = nil }, "differs in anything"},
		"old namespace": {func(f *restoreFacts) {
			f.restored.after = maps.Clone(f.restored.after)
			f.restored.after[identity{namespace: "data", name: "left"}] = nil
		}, "that is mapped"},
		"nothing mapped":     {func(f *restoreFacts) { f.restored.mapping = map[string]string{"a": "b"} }, "that is mapped"},
		"a failed object":    {func(f *restoreFacts) { f.restore.Status.Counts.Failed, f.outcomes["v1/Secret"]["failed"] = 1, 1 }, "counts every object"},
		"too few objects":    {func(f *restoreFacts) { f.archived++ }, "counts every object"},
		"half of the work":   {func(f *restoreFacts) { f.restore.Status.Progress.ItemsRestored = 4 }, "counts every object"},
		"another message":    {func(f *restoreFacts) { f.restore.Status.Message = "Objects: 4 created" }, "counts every object"},
		"another list":       {func(f *restoreFacts) { f.outcomes["v1/Secret"]["created"]-- }, "list of resources"},
		"missing file":       {func(f *restoreFacts) { f.missing = []string{"l"} }, "No file"},
		"no files":           {func(f *restoreFacts) { f.restore.Status.Files = nil }, "No file"},
		"no outputs":         {func(f *restoreFacts) { f.restore.Status.BackupOutputs = nil }, "put out before the backup"},
		"namespace unmapped": {func(f *restoreFacts) { f.log[0] = strings.ReplaceAll(f.log[0], "-restored", "") }, "in the restore's log"},
		"logged too early":   {func(f *restoreFacts) { f.log = append(f.log, f.postLog...) }, "log of its own"},
		"default replicas":   {func(f *restoreFacts) { f.postLog[0] = strings.ReplaceAll(f.postLog[0], "replicas=3", "replicas=1") }, "log of its own"},
		"still frozen":       {func(f *restoreFacts) { f.markers = []string{"frozen"} }, "frozen any more"},
	} {
		t.Run(name, func(t *testing.T) {
			f := restoredAsItShouldBe(t)
			tc.spoil(f)
			var failed []string
			for _, check := range restoreChecks() {
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

// lose takes an object from the cluster and compares again.
func (f *restoreFacts) lose(name string) {
	for id := range f.restored.after {
		if id.String() == name {
			delete(f.restored.after, id)
		}
	}
	f.comparison = compareAll(&f.restored)
}

func TestEveryRestoreCheckCanFail(t *testing.T) {
	var out bytes.Buffer
	p := &printer{out: &out}
	nothing := &restoreFacts{archived: 1, outcomes: map[string]map[string]int{"v1/Secret": {"created": 1}}}
	nothing.ran = ran{kind: lifecycle.RestoreKind, of: &nothing.restore, markers: []string{"frozen"}}
	nothing.restored.mapping = map[string]string{"data": "data-2"}
	if err := verify(p, nothing, restoreChecks()); err == nil {
		t.Error("nothing is there, and verify is content")
	}
	if strings.Contains(out.String(), "  ok ") || strings.Count(out.String(), "FAIL") != len(restoreChecks()) {
		t.Errorf("nothing is there, and yet:\n%s", out.String())
	}
}

func TestCountOutcomes(t *testing.T) {
	f := &restoreFacts{}
	var err error
	if f.outcomes, err = countOutcomes([]byte(`{"v1/Pod":["a/b(created)","a/c(created)","a/d(failed)"],"v1/Secret":["a/b(created)"]}`)); err != nil {
		t.Fatal(err)
	}
	if f.outcome("created") != 3 || f.outcome("failed") != 1 || f.outcome("skipped") != 0 {
		t.Errorf("outcomes are %v", f.outcomes)
	}
	for name, text := range map[string]string{
		"torn": `{"v1`, "twice": `{"v1/Pod":["a/b(created)","a/c(created)","a/b(created)"]}`, "no outcome": `{"v1/Pod":["a/b"]}`,
	} {
		if _, err := countOutcomes([]byte(text)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestShow(t *testing.T) {
	for want, value := range map[string]any{
		"nothing": nil, `"a"`: "a", `{"a":[1]}`: map[string]any{"a": []any{1}},
		`"` + strings.Repeat("ä", valueLength-1) + "…": strings.Repeat("ä", valueLength),
	} {
		if got := show(value); got != want {
			t.Errorf("show(%v) is %s, want %s", value, got, want)
		}
	}
}
