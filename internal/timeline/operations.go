// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// maxSingleOperations is how many operations have rows of their own. Of more, only as many that failed have.
const maxSingleOperations = 20

// OperationGroup are operations of one action with the same phase.
type OperationGroup struct {
	Action     string
	Phase      v1alpha1.AsyncOperationPhase
	Operations []v1alpha1.AsyncOperation
}

// Label returns the action and the object of a single operation, or the number of operations and their action.
func (g *OperationGroup) Label() string {
	if len(g.Operations) > 1 {
		return fmt.Sprintf("%d × %s", len(g.Operations), g.Action)
	}
	item := &g.Operations[0].Spec.Item
	if item.Namespace == "" {
		return g.Action + " " + item.Name
	}
	return g.Action + " " + item.Namespace + "/" + item.Name
}

// State returns the state of the operations.
func (g *OperationGroup) State() State {
	switch g.Phase {
	case v1alpha1.AsyncOperationPhaseCompleted:
		return StateSucceeded
	case v1alpha1.AsyncOperationPhaseFailed:
		return StateFailed
	case v1alpha1.AsyncOperationPhaseCancelled:
		return StateStopped
	case v1alpha1.AsyncOperationPhaseNew, v1alpha1.AsyncOperationPhaseInProgress, v1alpha1.AsyncOperationPhaseCancelling:
	}
	return StateRunning
}

// Times returns the first start and the last end of the operations. The end is nil if one of them runs.
func (g *OperationGroup) Times() (start time.Time, end *v1alpha1.MicroTime) {
	for i := range g.Operations {
		completion := g.Operations[i].Status.CompletionTimestamp
		if completion == nil {
			return operationStart(&g.Operations[0]), nil
		}
		if end == nil || end.Before(&completion.MicroTime) {
			end = completion
		}
	}
	return operationStart(&g.Operations[0]), end
}

// GroupOperations returns the operations in the order in which they started, each alone. If there are more than
// maxSingleOperations, only the first ones that failed are alone, before all others.
func GroupOperations(operations []v1alpha1.AsyncOperation) []OperationGroup {
	sorted := slices.SortedStableFunc(slices.Values(operations), func(a, b v1alpha1.AsyncOperation) int {
		return cmp.Or(operationStart(&a).Compare(operationStart(&b)), cmp.Compare(a.Name, b.Name))
	})
	many := len(sorted) > maxSingleOperations
	var failed, groups []OperationGroup
	for i := range sorted {
		o := &sorted[i]
		group := OperationGroup{
			Action: o.Spec.ActionName, Phase: cmp.Or(o.Status.Phase, v1alpha1.AsyncOperationPhaseNew), Operations: sorted[i : i+1 : i+1],
		}
		same := -1
		if many {
			same = slices.IndexFunc(groups, func(g OperationGroup) bool { return g.Action == group.Action && g.Phase == group.Phase })
		}
		switch {
		case many && group.State() == StateFailed && len(failed) < maxSingleOperations:
			failed = append(failed, group)
		case same >= 0:
			groups[same].Operations = append(groups[same].Operations, *o)
		default:
			groups = append(groups, group)
		}
	}
	return append(failed, groups...)
}

// operationStart returns when an operation started.
func operationStart(o *v1alpha1.AsyncOperation) time.Time {
	if o.Status.StartTimestamp != nil {
		return o.Status.StartTimestamp.Time
	}
	return o.CreationTimestamp.Time
}

// operationRows returns a row for each group of operations.
func operationRows(operations []v1alpha1.AsyncOperation) []Row {
	var rows []Row
	for _, group := range GroupOperations(operations) {
		state := group.State()
		start, end := group.Times()
		row := Row{Label: group.Label(), Detail: string(group.Phase), State: state, Spans: []Span{newSpan(start, end, state)}}
		if state == StateSucceeded && len(group.Operations) == 1 {
			row.Detail = "" // the mark says it
		}
		rows = append(rows, row)
	}
	return rows
}
