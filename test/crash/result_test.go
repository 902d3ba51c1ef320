// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package crash

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
)

// result is everything that must not depend on how often the operator ended. The
// name of the run is replaced wherever it appears.
type result struct {
	Phase                           v1alpha1.RunPhase
	Message, FailureReason          string
	Warnings, Errors                int64
	Pre, Post, HookRuns, Conditions []string
	// Operations are those that count.
	Operations []string
	// Files are those that the status names, Stored those that are there.
	Files  map[string]string
	Stored []string
	// Logged are the different messages of the logs.
	Logged []string
	// Left is what the work left behind, see work.
	Left map[string]string
}

// observe reads the outcome of a run, and checks what must hold for any.
func (l *testOperator) observe(t *testing.T, o lifecycle.Object, ends int) result {
	t.Helper()
	runs := l.hookRuns(t, o)
	l.checkRuns(t, o, runs)
	l.checkCalls(t, runs, ends)
	l.checkScratch(t)
	operations := l.checkOperations(t, o, ends)
	s := o.Run()
	pre, post := o.ActionsStatuses()
	r := result{
		Phase: o.GetPhase(), Message: s.Message, FailureReason: s.FailureReason,
		Warnings: s.Warnings, Errors: s.Errors,
		Pre: actions(*pre), Post: actions(*post), Files: files(t, o), Operations: operations,
	}
	for _, run := range runs {
		r.HookRuns = append(r.HookRuns, fmt.Sprintf("%s %s %s %q", run.Spec.Hook, run.Spec.ActionName, run.Status.Phase,
			slices.Sorted(maps.Keys(run.Status.Outputs))))
	}
	slices.Sort(r.HookRuns)
	for _, c := range s.Conditions {
		r.Conditions = append(r.Conditions, fmt.Sprintf("%s %s %s", c.Type, c.Status, c.Reason))
	}
	slices.Sort(r.Conditions)
	l.observeStore(t, o, &r)
	r.Left = l.work.left(t, l, o, ends)
	return anonymous(t, r, o)
}

// files returns the files that a status names.
func files(t *testing.T, o lifecycle.Object) map[string]string {
	t.Helper()
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		t.Fatal(err)
	}
	named, _, err := unstructured.NestedStringMap(object, "status", "files")
	if err != nil {
		t.Fatal(err)
	}
	return named
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

// stamped is what a Restore notes on an object, in JSON within JSON or not; its end
// depends on the object and the UID.
var stamped = regexp.MustCompile(`(grapnel\.dev/restored\\*":\\*"[a-z]+) UID [A-Za-z0-9_-]+`)

// seconds is how long a run worked on the objects of a resource, in JSON within JSON.
var seconds = regexp.MustCompile(`(seconds\\*":)[0-9.e-]+`)

// expires is when a Backup without a ttl expires.
var expires = regexp.MustCompile(`expires at [0-9TZ:-]+`)

// anonymous replaces the name and the UID of the run, what depends on them, and how long its parts took.
func anonymous(t *testing.T, r result, o lifecycle.Object) result {
	t.Helper()
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	data = bytes.ReplaceAll(data, []byte(o.GetName()), []byte("NAME"))
	data = bytes.ReplaceAll(data, []byte(o.GetUID()), []byte("UID"))
	data = stamped.ReplaceAll(data, []byte("$1 UID"))
	data = seconds.ReplaceAll(data, []byte("${1}0"))
	data = expires.ReplaceAll(data, []byte("expires at TIME"))
	var out result
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// hookRuns returns the HookRuns of a run in the order of their points.
func (l *testOperator) hookRuns(t *testing.T, o lifecycle.Object) []v1alpha1.HookRun {
	t.Helper()
	var runs v1alpha1.HookRunList
	err := l.client.List(t.Context(), &runs, client.InNamespace(l.name), client.MatchingLabels{v1alpha1.LabelParentUID: string(o.GetUID())})
	if err != nil {
		t.Fatal(err)
	}
	return runs.Items
}

// fair are the reasons for which an attempt may end: it did well, the operator ended,
// a person canceled it, or the action says that it failed. That the plugin could not
// be called is none.
var fair = []string{"", v1alpha1.ReasonInterrupted, v1alpha1.ReasonCancelled, v1alpha1.ReasonActionFailed}

// checkRuns checks that nothing holds the run any more, that nothing is owed and that
// every HookRun came to its end, without failures on its way.
func (l *testOperator) checkRuns(t *testing.T, o lifecycle.Object, runs []v1alpha1.HookRun) {
	t.Helper()
	if conditions.IsTrue(o, v1alpha1.ConditionCleanupOwed) {
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

// checkScratch checks that nothing is left on the operator's disk, by it or by those
// before it.
func (l *testOperator) checkScratch(t *testing.T) {
	t.Helper()
	entries, err := os.ReadDir(l.scratch())
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		t.Errorf("%s was left behind", filepath.Join("scratch", entry.Name()))
	}
}

func isLog(key string) bool { return strings.HasSuffix(key, "-logs.gz") }

// withoutLogs is what is left when logs do not count.
func (r result) withoutLogs() result {
	r.Stored, r.Logged = slices.DeleteFunc(slices.Clone(r.Stored), isLog), nil
	r.Files = maps.Clone(r.Files)
	maps.DeleteFunc(r.Files, func(_, key string) bool { return isLog(key) })
	return r
}
