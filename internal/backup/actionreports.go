// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
	pluginclient "github.com/grapnel-dev/grapnel/internal/plugin/client"
)

// actionReports has the results of actions that are about the run as a whole. It is safe
// for concurrent use.
type actionReports struct {
	mu              sync.Mutex
	labels          map[string]string
	warnedLabels    map[string]bool
	operations      []itemaction.Operation
	operationItems  map[itemKey]bool
	resourceActions []*resourceAction
}

// itemKey is the object of an operation.
type itemKey struct {
	resource        schema.GroupVersionResource
	namespace, name string
}

func (t *actionReports) addResourceActions(c actionChain) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.resourceActions = append(append(t.resourceActions, c.sequential...), c.concurrent...)
}

func (t *actionReports) addOperation(op itemaction.Operation) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.operations = append(t.operations, op)
	if t.operationItems == nil {
		t.operationItems = map[itemKey]bool{}
	}
	t.operationItems[itemKey{op.Resource, op.Namespace, op.Name}] = true
}

// hasOperation reports whether an action started an operation on an object.
func (t *actionReports) hasOperation(object itemKey) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.operationItems[object]
}

// addBackupLabels adds labels for the Backup: the first value of each key. It returns
// warnings about rejected labels, one for each key.
func (t *actionReports) addBackupLabels(labels map[string]string) []string {
	if len(labels) == 0 {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.labels == nil {
		t.labels, t.warnedLabels = map[string]string{}, map[string]bool{}
	}
	var warnings []string
	complain := func(about, warning string) {
		if !t.warnedLabels[about] {
			t.warnedLabels[about] = true
			warnings = append(warnings, warning)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		switch value, there := t.labels[key]; {
		case there && value != labels[key]:
			complain(key, fmt.Sprintf("the Backup gets the label %s=%s, which was requested first, and not the value %q", key, value, labels[key]))
		case !there && len(t.labels) >= pluginclient.MaxBackupLabels:
			// A label key is never empty.
			complain("", fmt.Sprintf("the Backup gets no label %s: it has %d labels of item actions already, which is the limit",
				key, pluginclient.MaxBackupLabels))
		case !there:
			t.labels[key] = labels[key]
		}
	}
	return warnings
}

// addReportsToResult adds the reports to a result.
func (t *actionReports) addReportsToResult(out *ArchiveResult) {
	t.mu.Lock()
	defer t.mu.Unlock()
	out.Labels = maps.Clone(t.labels)
	out.Operations = slices.SortedFunc(slices.Values(t.operations), func(a, b itemaction.Operation) int {
		return cmp.Or(cmp.Compare(a.Resource.String(), b.Resource.String()), cmp.Compare(a.Namespace, b.Namespace),
			cmp.Compare(a.Name, b.Name), cmp.Compare(a.Action, b.Action), cmp.Compare(a.ID, b.ID))
	})
	for _, s := range t.resourceActions {
		if s.executed.Load() == 0 {
			continue
		}
		if out.Actions == nil {
			out.Actions = map[string][]string{}
		}
		key := s.resource.String()
		if !slices.Contains(out.Actions[key], s.Name()) {
			out.Actions[key] = append(out.Actions[key], s.Name())
		}
	}
}

// actionCounts are the totals of one action.
type actionCounts struct {
	executed, changed, skipped, failed int64
	duration                           time.Duration
}

// logActionCounts logs how often each action was called. It includes actions of plugins
// without calls.
func (r *enginePass) logActionCounts(ctx context.Context) {
	r.reports.mu.Lock()
	defer r.reports.mu.Unlock()
	sums := map[*runnableAction]actionCounts{}
	for _, s := range r.reports.resourceActions {
		sum := sums[s.runnableAction]
		sum.executed += s.executed.Load()
		sum.changed += s.changed.Load()
		sum.skipped += s.skipped.Load()
		sum.failed += s.failed.Load()
		sum.duration += time.Duration(s.duration.Load())
		sums[s.runnableAction] = sum
	}
	log := logr.FromContextOrDiscard(ctx)
	for _, a := range r.actions {
		sum := sums[a]
		values := []any{"action", a.Name(), "items", sum.executed, "changed", sum.changed, "failed", sum.failed}
		level := 0
		switch {
		case a.failed:
			continue // it was already reported
		case a.external != nil:
			values = append(values, "plugin", a.external.Plugin(), "leftOut", sum.skipped, "duration", sum.duration.String())
		case sum.executed == 0:
			level = 1
		}
		log.V(level).Info("Called an item action", values...)
	}
}
