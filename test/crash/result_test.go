// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package crash

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/kube/conditions"
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
	// Logged are the different messages of the logs.
	Logged []string
	// Archive is what is in the archive, by path.
	Archive map[string]string
}

// observe reads what became of a Backup, and checks what must hold for any.
func (l *lane) observe(t *testing.T, b *v1alpha1.Backup, ends int) result {
	t.Helper()
	runs := l.hookRuns(t, b)
	l.checkRuns(t, b, runs)
	l.checkCalls(t, runs, ends)
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

// fair are the reasons for which an attempt may end: it did well, the operator ended,
// a person cancelled it, or the action says that it failed. That the plugin could not
// be called is none.
var fair = []string{"", v1alpha1.ReasonInterrupted, v1alpha1.ReasonCancelled, v1alpha1.ReasonActionFailed}

// checkRuns checks that nothing holds the Backup any more, that nothing is owed and
// that every HookRun came to its end, without failures on its way.
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
		for _, attempt := range run.Status.Attempts {
			if !slices.Contains(fair, attempt.Reason) {
				t.Errorf("HookRun %s made an attempt that ended %s: %s", run.Name, attempt.Reason, attempt.Message)
			}
		}
	}
}

// withoutLogs is what is left when logs do not count.
func (r result) withoutLogs() result {
	isLog := func(key string) bool { return strings.HasSuffix(key, "-logs.gz") }
	r.Stored, r.Logged = slices.DeleteFunc(slices.Clone(r.Stored), isLog), nil
	if r.Files != nil {
		r.Files = r.Files.DeepCopy()
		r.Files.Log, r.Files.PostLog = "", ""
	}
	return r
}
