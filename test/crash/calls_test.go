// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package crash

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// call is a line that test/faultplugin writes.
type call struct {
	Point   string `json:"point"`
	Action  string `json:"action"`
	Key     string `json:"key"`
	Attempt int32  `json:"attempt"`
}

// callsOf returns the calls of the HookRuns in the order they were made.
func (l *testOperator) callsOf(t *testing.T, runs []v1alpha1.HookRun) []call {
	t.Helper()
	calls, err := l.readCalls()
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(calls, func(c call) bool {
		return !slices.ContainsFunc(runs, func(run v1alpha1.HookRun) bool { return string(run.UID) == c.Key })
	})
}

// readCalls returns all calls that the plugin has noted.
func (l *testOperator) readCalls() (calls []call, err error) {
	data, err := os.ReadFile(l.calls)
	for line := range strings.Lines(string(data)) {
		var c call
		if err := json.Unmarshal([]byte(line), &c); err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
		calls = append(calls, c)
	}
	return calls, err
}

// checkCalls compares what the actions saw with what the HookRuns say, and checks that
// what a started action owes was paid after it.
func (l *testOperator) checkCalls(t *testing.T, runs []v1alpha1.HookRun, ends int) {
	t.Helper()
	kind, calls := l.work.kind(), l.callsOf(t, runs)
	paid := false
	for i := range runs {
		run := &runs[i]
		if run.Spec.ActionName == csiAction {
			continue // its plugin notes nothing
		}
		checkCallsOf(t, run, calls, ends)
		paid = paid || (run.Spec.Owed && run.Status.Phase == v1alpha1.HookRunPhaseCompleted)
	}
	started := slices.IndexFunc(calls, func(c call) bool { return c.Point == string(kind.PreHookPoint) })
	if started < 0 || kind.HasSingleHookPoint() {
		return // nothing is owed
	}
	cleaned := slices.IndexFunc(calls, func(c call) bool {
		return c.Point == string(kind.PostHookPoint) && c.Action == l.pair()
	})
	lastPre := started
	for i, c := range calls {
		if c.Point == string(kind.PreHookPoint) {
			lastPre = i
		}
	}
	if !paid || cleaned < lastPre {
		t.Errorf("the clean-up of %s was not paid after it: %+v", l.pair(), calls)
	}
}

// checkCallsOf compares the calls for one HookRun with what it says: an action that
// ended well was called, each attempt once at most, in order, with the same key. No
// action is called again without need: the operator ended, or the action failed.
func checkCallsOf(t *testing.T, run *v1alpha1.HookRun, calls []call, ends int) {
	t.Helper()
	var attempts []int32
	for _, c := range calls {
		if c.Key == string(run.UID) {
			attempts = append(attempts, c.Attempt)
			if c.Action != run.Spec.ActionName || c.Point != string(run.Spec.Hook) {
				t.Errorf("HookRun %s called %s %s", run.Name, c.Point, c.Action)
			}
		}
	}
	completed, allowed := run.Status.Phase == v1alpha1.HookRunPhaseCompleted, 1+ends
	if !completed {
		allowed += int(run.Spec.Retries)
	}
	if len(attempts) > allowed {
		t.Errorf("HookRun %s called its action %d times, and the operator ended %d times", run.Name, len(attempts), ends)
	}
	if !slices.IsSorted(attempts) || len(slices.Compact(slices.Clone(attempts))) != len(attempts) {
		t.Errorf("HookRun %s made the attempts %v", run.Name, attempts)
	}
	if last := run.Status.Attempt; completed && !slices.Contains(attempts, last) {
		t.Errorf("HookRun %s is Completed with attempt %d, but the action saw only %v", run.Name, last, attempts)
	}
}

// awaitCalls waits until the plugin has noted n calls that match, and reports whether it has.
func (l *testOperator) awaitCalls(t *testing.T, n int, matches func(call) bool) bool {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		calls, err := l.readCalls()
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		return len(slices.DeleteFunc(calls, func(c call) bool { return !matches(c) })) >= n, err
	})
	if err != nil {
		t.Errorf("waiting for call %d: %v", n, err)
	}
	return err == nil
}
