// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package crash

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
)

// Patterns of the writes that have to do with operations.
var (
	// operated are those of operations.
	operated = regexp.MustCompile(`/asyncoperations`)
	// following are those, and those of the run itself.
	following = regexp.MustCompile(`/(asyncoperations|backups|restores)\b`)
)

// mostStarted is how many operations an action starts in one attempt.
const mostStarted = 2

// checkOperations checks that no operation is running any more, and returns how the operations
// ended that count. Those of an attempt that was interrupted may have been canceled.
// An operation that was started and not recorded is lost with the operator: only
// the action knows of it.
func (l *testOperator) checkOperations(t *testing.T, o lifecycle.Object, ends int) (counted []string) {
	t.Helper()
	var list v1alpha1.AsyncOperationList
	err := l.client.List(t.Context(), &list, client.InNamespace(l.name), client.MatchingLabels{v1alpha1.LabelParentUID: string(o.GetUID())})
	if err != nil {
		t.Fatal(err)
	}
	recorded := map[string]bool{}
	for i := range list.Items {
		op := &list.Items[i]
		recorded[op.Spec.OperationID] = true
		if op.Status.CompletionTimestamp == nil {
			t.Errorf("AsyncOperation %s is still running: %+v", op.Name, op.Status)
		}
		// A Restore continues where it was, a Backup restarts.
		current := l.work.kind() == lifecycle.RestoreKind || op.Spec.Attempt == o.Run().Attempts
		switch phase := op.Status.Phase; {
		case phase == v1alpha1.AsyncOperationPhaseCompleted && current:
			counted = append(counted, fmt.Sprintf("%s %s", op.Spec.Item.Name, phase))
		case phase != v1alpha1.AsyncOperationPhaseCompleted &&
			(phase != v1alpha1.AsyncOperationPhaseCancelled && !isTakenOver(op, list.Items) || ends == 0):
			t.Errorf("AsyncOperation %s ended as %s: %s", op.Name, phase, op.Status.Message)
		}
	}
	if lost := l.unrecorded(t, o, recorded); len(lost) > ends*mostStarted {
		t.Errorf("unknown operations were started, and the operator ended %d times: %q", ends, lost)
	}
	if sum := o.Run().Operations; sum != nil {
		counted = append(counted, fmt.Sprintf("%d attempted, %d completed, %d failed, %d cancelled", sum.Attempted, sum.Completed, sum.Failed, sum.Cancelled))
	}
	slices.Sort(counted)
	return slices.Compact(counted)
}

// isTakenOver reports whether the CSI plugin ended an operation because the action was called again for its object.
func isTakenOver(op *v1alpha1.AsyncOperation, all []v1alpha1.AsyncOperation) bool {
	return op.Spec.ActionName == csiAction && slices.ContainsFunc(all, func(other v1alpha1.AsyncOperation) bool {
		return other.Spec.Item == op.Spec.Item && other.Status.Phase == v1alpha1.AsyncOperationPhaseCompleted
	})
}

// unrecorded returns the IDs of what was started for a run, neither recorded nor
// canceled.
func (l *testOperator) unrecorded(t *testing.T, o lifecycle.Object, recorded map[string]bool) (lost []string) {
	t.Helper()
	if !l.operations {
		return nil
	}
	data, err := os.ReadFile(l.calls)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		var c call
		if err := json.Unmarshal([]byte(line), &c); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		switch {
		case c.Point == "Start" && strings.HasPrefix(c.Key, string(o.GetUID())+"/") && !recorded[c.Key]:
			lost = append(lost, c.Key)
		case c.Point == "Cancel":
			lost = slices.DeleteFunc(lost, func(id string) bool { return id == c.Key })
		}
	}
	return lost
}
