// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package crash

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/archive"
	"github.com/grapnel-dev/grapnel/internal/backupstore"
	"github.com/grapnel-dev/grapnel/internal/kube/conditions"
	"github.com/grapnel-dev/grapnel/internal/objectstore"
)

// result is everything that must not depend on how often the operator ended. The
// name of the Backup is replaced wherever it appears.
type result struct {
	Phase, Message, FailureReason   string
	Warnings, Errors                int64
	Pre, Post, HookRuns, Conditions []string
	Files                           *v1alpha1.BackupFiles
	Stored                          []string
	ManifestPhase                   string
	// Progress of a backup that is stored; of another it is how far it happened to be.
	Progress *v1alpha1.BackupProgress
	// Archive is what is in the archive, by path.
	Archive map[string]string
}

// observe reads what became of a Backup, and checks what must hold for any.
func (l *lane) observe(t *testing.T, b *v1alpha1.Backup) result {
	t.Helper()
	runs := l.hookRuns(t, b)
	l.checkRuns(t, b, runs)
	l.checkCalls(t, runs)
	s := b.Status
	r := result{
		Phase: string(s.Phase), Message: s.Message, FailureReason: s.FailureReason,
		Warnings: s.Warnings, Errors: s.Errors,
		Pre: actions(s.PreBackupActionsStatuses), Post: actions(s.PostBackupActionsStatuses),
		Files: s.Files,
	}
	for _, run := range runs {
		r.HookRuns = append(r.HookRuns, fmt.Sprintf("%s %s %s %q", run.Spec.Hook, run.Spec.PluginName, run.Status.Phase,
			slices.Sorted(maps.Keys(run.Status.Outputs))))
	}
	slices.Sort(r.HookRuns)
	for _, c := range s.Conditions {
		r.Conditions = append(r.Conditions, fmt.Sprintf("%s %s %s", c.Type, c.Status, c.Reason))
	}
	slices.Sort(r.Conditions)
	l.observeStore(t, b, &r)
	return anonymous(t, r, b.Name)
}

// actions says how each action ended.
func actions(list *[]v1alpha1.ActionStatus) []string {
	if list == nil {
		return nil
	}
	var texts []string
	for _, a := range *list {
		texts = append(texts, fmt.Sprintf("%s %s", a.PluginName, a.Phase))
	}
	return texts
}

// anonymous replaces the name of the Backup.
func anonymous(t *testing.T, r result, name string) result {
	t.Helper()
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var out result
	if err := json.Unmarshal(bytes.ReplaceAll(data, []byte(name), []byte("NAME")), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// hookRuns returns the HookRuns of a Backup in the order of their points.
func (l *lane) hookRuns(t *testing.T, b *v1alpha1.Backup) []v1alpha1.HookRun {
	t.Helper()
	var runs v1alpha1.HookRunList
	err := l.client.List(t.Context(), &runs, client.InNamespace(l.name), client.MatchingLabels{v1alpha1.LabelParentUID: string(b.UID)})
	if err != nil {
		t.Fatal(err)
	}
	return runs.Items
}

// checkRuns checks that nothing holds the Backup any more, that nothing is owed and
// that every HookRun came to its end.
func (l *lane) checkRuns(t *testing.T, b *v1alpha1.Backup, runs []v1alpha1.HookRun) {
	t.Helper()
	if conditions.IsTrue(b, v1alpha1.ConditionCleanupOwed) {
		t.Error("clean-up is still owed")
	}
	for i := range runs {
		run := &runs[i]
		if len(run.Finalizers) > 0 {
			t.Errorf("HookRun %s still has the finalizers %v", run.Name, run.Finalizers)
		}
		if run.Status.CompletionTimestamp == nil {
			t.Errorf("HookRun %s has not ended: %+v", run.Name, run.Status)
		}
	}
}

// call is a line that test/faultplugin writes.
type call struct {
	Point   string `json:"point"`
	Action  string `json:"action"`
	Key     string `json:"key"`
	Attempt int32  `json:"attempt"`
}

// callsOf returns the calls of the HookRuns in the order they were made.
func (l *lane) callsOf(t *testing.T, runs []v1alpha1.HookRun) []call {
	t.Helper()
	data, err := os.ReadFile(l.calls)
	if err != nil {
		t.Fatal(err)
	}
	var calls []call
	for line := range strings.Lines(string(data)) {
		var c call
		if err := json.Unmarshal([]byte(line), &c); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if slices.ContainsFunc(runs, func(run v1alpha1.HookRun) bool { return string(run.UID) == c.Key }) {
			calls = append(calls, c)
		}
	}
	return calls
}

// checkCalls compares what the actions saw with what the HookRuns say: an action
// that ended well was called, each attempt once at most, in order, with the same key,
// and what a started action owes was paid after it.
func (l *lane) checkCalls(t *testing.T, runs []v1alpha1.HookRun) {
	t.Helper()
	calls := l.callsOf(t, runs)
	paid := false
	for i := range runs {
		run := &runs[i]
		var attempts []int32
		for _, c := range calls {
			if c.Key == string(run.UID) {
				attempts = append(attempts, c.Attempt)
				if c.Action != run.Spec.PluginName || c.Point != string(run.Spec.Hook) {
					t.Errorf("HookRun %s called %s %s", run.Name, c.Point, c.Action)
				}
			}
		}
		last := run.Status.Attempt
		if !slices.IsSorted(attempts) || len(slices.Compact(slices.Clone(attempts))) != len(attempts) {
			t.Errorf("HookRun %s made the attempts %v", run.Name, attempts)
		}
		if run.Status.Phase == v1alpha1.HookRunPhaseCompleted && !slices.Contains(attempts, last) {
			t.Errorf("HookRun %s is Completed with attempt %d, but the action saw only %v", run.Name, last, attempts)
		}
		if run.Spec.Owed && run.Status.Phase == v1alpha1.HookRunPhaseCompleted {
			paid = true
		}
	}
	started := slices.IndexFunc(calls, func(c call) bool { return c.Point == string(v1alpha1.HookPreBackup) })
	if started < 0 {
		return
	}
	cleaned := slices.IndexFunc(calls, func(c call) bool {
		return c.Point == string(v1alpha1.HookPostBackup) && c.Action == l.pair()
	})
	lastPre := started
	for i, c := range calls {
		if c.Point == string(v1alpha1.HookPreBackup) {
			lastPre = i
		}
	}
	if !paid || cleaned < lastPre {
		t.Errorf("the clean-up of %s was not paid after it: %+v", l.pair(), calls)
	}
}

func listOf(prefix, backup string) objectstore.ListOptions {
	return objectstore.ListOptions{Prefix: prefix + "/backups/" + backup + "/"}
}

// observeStore reads what is stored, and checks that it is whole, or that its name
// is free.
func (l *lane) observeStore(t *testing.T, b *v1alpha1.Backup, r *result) {
	t.Helper()
	var err error
	if r.Stored, err = l.keys(t.Context(), b.Name); err != nil {
		t.Fatal(err)
	}
	if s := b.Status.Files; s != nil {
		for _, key := range []string{s.Archive, s.Log, s.Results, s.PostLog} {
			if key != "" && !slices.Contains(r.Stored, key) {
				t.Errorf("the status names %s, which is not stored", key)
			}
		}
	}
	store := backupstore.New(l.objects, l.name)
	complete, err := store.Committed(t.Context(), b.Name, string(b.UID))
	if err != nil {
		t.Fatal(err)
	}
	if !complete {
		if err := store.Check(t.Context(), b.Name, "the UID of another Backup"); err != nil {
			t.Errorf("the name was not given back: %v", err)
		}
		return
	}
	if err := store.Verify(t.Context(), b.Name); err != nil {
		t.Error(err)
	}
	velero, grapnel, err := store.Manifest(t.Context(), b.Name)
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct {
		Status struct {
			Phase string `json:"phase"`
		} `json:"status"`
	}
	if err := json.Unmarshal(velero, &manifest); err != nil {
		t.Fatal(err)
	}
	r.ManifestPhase, r.Progress = manifest.Status.Phase, b.Status.Progress
	l.checkOutputs(t, b, grapnel)
	if r.Archive, err = contents(t.Context(), store, b.Name); err != nil {
		t.Fatal(err)
	}
}

// checkOutputs checks that what the PreBackup action answered is stored with the
// backup. All it ever answers is its key.
func (l *lane) checkOutputs(t *testing.T, b *v1alpha1.Backup, manifest *backupstore.GrapnelManifest) {
	t.Helper()
	for _, run := range l.hookRuns(t, b) {
		want := ""
		if run.Spec.Hook != v1alpha1.HookPreBackup {
			continue
		}
		if len(run.Status.Outputs) > 0 {
			want = string(run.UID)
		}
		if got := manifest.Outputs[run.Spec.PluginName]["from"]; got != want {
			t.Errorf("the manifest has the output %q of %s, want %q", got, run.Spec.PluginName, want)
		}
	}
}

// contents reads an archive; objects are normalised.
func contents(ctx context.Context, store *backupstore.Store, name string) (map[string]string, error) {
	stream, err := store.Get(ctx, name, backupstore.Contents)
	if err != nil {
		return nil, err
	}
	defer func() { _ = stream.Close() }()
	files := map[string]string{}
	err = archive.Walk(stream, archive.Limits{}, func(e archive.Entry) error {
		if !e.IsObject() {
			files[e.Path] = string(e.Content)
			return nil
		}
		var object any
		if err := json.Unmarshal(e.Content, &object); err != nil {
			return fmt.Errorf("%s: %w", e.Path, err)
		}
		normal, err := json.Marshal(object)
		files[e.Path] = string(normal)
		return err
	})
	return files, err
}

// withoutLogs is what is left when logs do not count.
func (r result) withoutLogs() result {
	isLog := func(key string) bool { return strings.HasSuffix(key, "-logs.gz") }
	r.Stored = slices.DeleteFunc(slices.Clone(r.Stored), isLog)
	if r.Files != nil {
		r.Files = r.Files.DeepCopy()
		r.Files.Log, r.Files.PostLog = "", ""
	}
	return r
}

// awaitCalls waits until the plugin has noted as many calls.
func (l *lane) awaitCalls(t *testing.T, n int) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		data, err := os.ReadFile(l.calls)
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		return bytes.Count(data, []byte("\n")) >= n, err
	})
	if err != nil {
		t.Errorf("waiting for call %d: %v", n, err)
	}
}
