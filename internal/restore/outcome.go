// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/rawclient"
	"github.com/grapnel-dev/grapnel/internal/results"
)

// itemResult is the result for one object.
type itemResult struct {
	outcome Outcome
	// reason why it was skipped.
	reason string
	// warnings and err are for the results.
	warnings []string
	err      error
	// refusal is set instead of err for a reason that concerns many objects.
	refusal *refusal
	// deferredErrors are errors that did not prevent the object from being restored.
	deferredErrors []error
}

func failedResult(err error) itemResult             { return itemResult{outcome: Failed, err: err} }
func skippedResult(reason string) itemResult        { return itemResult{outcome: Skipped, reason: reason} }
func newItemResult(o Outcome, err error) itemResult { return itemResult{outcome: o, err: err} }
func (v itemResult) hasChanged() bool {
	return v.outcome == Created || v.outcome == Updated || v.outcome == Recreated
}

// isPresent reports whether the object is in the cluster: an object that was skipped
// without a reason was not changed.
func (v itemResult) isPresent() bool {
	return v.hasChanged() || v.outcome == Unchanged || v.outcome == Skipped && v.reason == ""
}

// listEntry identifies an object in the list of resources.
type listEntry struct {
	key             string // group/version/Kind
	namespace, name string // in the cluster
	// kind and status are those of an object of the archive.
	kind   *kind
	status *itemStatus
}

func (l listEntry) String() string {
	if l.namespace == "" {
		return l.name
	}
	return l.namespace + "/" + l.name
}

// outcomeCode is an Outcome in an itemStatus, 0 for none.
type outcomeCode uint8

var outcomesByCode = []Outcome{1: Created, Updated, Recreated, Unchanged, Skipped, Failed}

// outcomeTracker is the record of a run. It is safe for concurrent use.
type outcomeTracker struct {
	total, done atomic.Int64

	mu sync.Mutex
	// counts are the outcomes by the resource of the object in the archive.
	counts map[schema.GroupResource]map[Outcome]int
	// otherEntries are entries in the list of resources that cannot be derived from an
	// itemStatus: namespaces without an object in the archive, and objects of another
	// version or kind than the first one of their resource.
	otherEntries map[string][]string
	skipReasons  map[string]int
	refusals     map[refusal]int
}

// refusal is a reason for which many objects are not restored, reported once.
type refusal struct {
	resource schema.GroupResource
	// namespace of the objects, empty for all.
	namespace string
	reason    string
}

func (o *outcomeTracker) addOutcome(resource schema.GroupResource, what listEntry, v itemResult) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.countOutcome(resource, v.outcome, 1)
	if v.reason != "" {
		o.countSkipReason(v.reason, 1)
	}
	if k := what.kind; k != nil {
		if k.listKey == "" {
			k.listKey = what.key
		}
		if at := slices.Index(outcomesByCode, v.outcome); k.listKey == what.key && at > 0 {
			what.status.outcome = outcomeCode(at) //nolint:gosec // an index of 7 entries
			return
		}
	}
	if o.otherEntries == nil {
		o.otherEntries = map[string][]string{}
	}
	o.otherEntries[what.key] = append(o.otherEntries[what.key], formatListEntry(what, v.outcome))
}

// formatListEntry returns the entry of an object in the list of resources.
func formatListEntry(what listEntry, outcome Outcome) string {
	return what.String() + "(" + string(outcome) + ")"
}

func (o *outcomeTracker) countOutcome(resource schema.GroupResource, outcome Outcome, n int) {
	if o.counts == nil {
		o.counts = map[schema.GroupResource]map[Outcome]int{}
	}
	if o.counts[resource] == nil {
		o.counts[resource] = map[Outcome]int{}
	}
	o.counts[resource][outcome] += n
	o.done.Add(int64(n))
}

func (o *outcomeTracker) countSkipReason(reason string, n int) {
	if o.skipReasons == nil {
		o.skipReasons = map[string]int{}
	}
	o.skipReasons[reason] += n
}

// addSkippedObjects records objects of a kind of which none is restored.
func (o *outcomeTracker) addSkippedObjects(resource schema.GroupResource, reason string, n int) {
	if n == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.countOutcome(resource, Skipped, n)
	o.countSkipReason(reason, n)
}

// addRefusal records objects that fail for a common reason.
func (o *outcomeTracker) addRefusal(why refusal, n int) {
	if n == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.refusals == nil {
		o.refusals = map[refusal]int{}
	}
	o.refusals[why] += n
	o.countOutcome(why.resource, Failed, n)
}

// reportRefusals records one error for each reason.
func (o *outcomeTracker) reportRefusals(collector *results.Collector) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for why, n := range o.refusals {
		collector.Error(results.About(why.resource, why.namespace, ""), results.ReasonNotRestored, fmt.Errorf("%s not restored: %s", describeObjectCount(n, why.resource), why.reason))
	}
}

// describeObjectCount returns "3 objects of widgets.example.org are".
func describeObjectCount(n int, resource schema.GroupResource) string {
	if n == 1 {
		return fmt.Sprintf("1 object of %s is", resource)
	}
	return fmt.Sprintf("%d objects of %s are", n, resource)
}

func (o *outcomeTracker) toResult() Result {
	o.mu.Lock()
	defer o.mu.Unlock()
	sums := map[Outcome]int{}
	for _, counts := range o.counts {
		for outcome, n := range counts {
			sums[outcome] += n
		}
	}
	return Result{Counts: sums, SkipReasons: maps.Clone(o.skipReasons)}
}

// newResourceList returns Result.ResourceList after everything is restored.
func (r *enginePass) newResourceList() iter.Seq2[string, []string] {
	kinds := map[string][]*kind{}
	for key := range r.outcomes.otherEntries {
		kinds[key] = nil
	}
	for _, k := range r.kinds {
		if k.listKey != "" {
			kinds[k.listKey] = append(kinds[k.listKey], k)
		}
	}
	return func(yield func(string, []string) bool) {
		for _, key := range slices.Sorted(maps.Keys(kinds)) {
			names := slices.Clone(r.outcomes.otherEntries[key])
			for _, k := range kinds[key] {
				names = r.appendListEntries(names, k)
			}
			slices.Sort(names)
			if !yield(key, names) {
				return
			}
		}
	}
}

// summarizeResources returns what became of the objects of each resource, after everything is
// restored.
func (r *enginePass) summarizeResources() (summaries results.ResourceSummaries) {
	for resource, counts := range r.outcomes.counts {
		summary := results.ResourceSummary{Resource: resource.String(), Outcomes: map[string]int{}}
		for outcome, n := range counts {
			summary.Outcomes[string(outcome)] = n
			summary.Objects += n
		}
		if k := r.kinds[resource]; k != nil {
			summary.Seconds = results.RoundSeconds(time.Duration(k.workTime.Load()))
			for e := range k.entriesInScope() {
				if e.selected || e.outcome != 0 {
					summary.Bytes += e.Size()
				}
			}
		}
		summaries.Add(summary)
	}
	return summaries
}

// appendListEntries appends the objects of a kind that have its common list key.
func (r *enginePass) appendListEntries(names []string, k *kind) []string {
	for e := range k.entriesInScope() {
		if e.outcome == 0 {
			continue
		}
		what := listEntry{}
		what.namespace, what.name = r.namespaceMapping.targetNames(k, e.SpooledObject)
		names = append(names, formatListEntry(what, outcomesByCode[e.outcome]))
	}
	return names
}

// recordOutcome records the result of an object.
func (r *enginePass) recordOutcome(what listEntry, target rawclient.Target, v itemResult) {
	resource := target.Resource.GroupResource()
	if what.kind != nil {
		resource = what.kind.resource
	}
	r.outcomes.addOutcome(resource, what, v)
	reason := results.ReasonItemAdjusted
	if v.outcome == Skipped {
		reason = results.ReasonItemDiffers
	}
	r.recordWarnings(target, reason, v.warnings)
	if v.err != nil {
		r.recordErrors(target, v.err)
	}
	r.recordErrors(target, v.deferredErrors...)
	r.reportProgress(false)
}

func (r *enginePass) recordErrors(target rawclient.Target, errs ...error) {
	for _, err := range errs {
		reason := cmp.Or(string(apierrors.ReasonForError(err)), results.ReasonNotRestored)
		r.results.Error(subjectOfTarget(target), reason, explainError(target.String(), err))
	}
}

func (r *enginePass) recordWarnings(target rawclient.Target, reason string, warnings []string) {
	for _, warning := range warnings {
		r.results.Warn(subjectOfTarget(target), reason, target.String()+": "+warning)
	}
}

func subjectOfTarget(target rawclient.Target) results.Subject {
	return results.About(target.Resource.GroupResource(), target.Namespace, target.Name)
}

// recordRunWarning records a warning about the restore as a whole.
func (r *enginePass) recordRunWarning(reason, message string) {
	r.results.Warn(results.Subject{}, reason, message)
}

// trackUnanswered ends the run when the API server is unreachable.
func (r *enginePass) trackUnanswered(err error) {
	if err == nil || !hasNoResponse(err) {
		r.unansweredCount.Store(0)
		return
	}
	if r.unansweredCount.Add(1) >= int64(2*cap(r.workerSlots)) {
		r.cancel(errors.Join(errUnreachable, err))
	}
}
