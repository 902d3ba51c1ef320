// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/results"
)

// verdict is what became of one object.
type verdict struct {
	outcome Outcome
	// reason why it was skipped.
	reason string
	// warnings and err are for the results.
	warnings []string
	err      error
	// refused is set in the place of err for what concerns many objects.
	refused *refusal
	// late are errors that did not keep the object out.
	late []error
}

func failed(err error) verdict         { return verdict{outcome: Failed, err: err} }
func skipped(reason string) verdict    { return verdict{outcome: Skipped, reason: reason} }
func did(o Outcome, err error) verdict { return verdict{outcome: o, err: err} }
func (v verdict) wrote() bool {
	return v.outcome == Created || v.outcome == Updated || v.outcome == Recreated
}

// there reports whether the object is in the cluster: one that was skipped for no
// reason was left as it is.
func (v verdict) there() bool {
	return v.wrote() || v.outcome == Unchanged || v.outcome == Skipped && v.reason == ""
}

// listed is how an object is called in the list of resources.
type listed struct {
	key             string // group/version/Kind
	namespace, name string // in the cluster
	// kind and mark are those of an object of the archive.
	kind *kind
	mark *mark
}

func (l listed) String() string {
	if l.namespace == "" {
		return l.name
	}
	return l.namespace + "/" + l.name
}

// outcomeMark is an Outcome in a mark, 0 for none.
type outcomeMark uint8

var outcomeMarks = []Outcome{1: Created, Updated, Recreated, Unchanged, Skipped, Failed}

// outcomes is the record of a run. It is safe for concurrent use.
type outcomes struct {
	total, done atomic.Int64

	mu     sync.Mutex
	counts map[Outcome]int
	// others are those in the list of resources whose marks do not tell how they
	// are called there: namespaces that no object of the archive is behind, and
	// objects of another version or kind than the first one of their resource.
	others   map[string][]string
	reasons  map[string]int
	refusals map[refusal]int
}

// refusal is a reason for which many objects are not restored, told once.
type refusal struct {
	resource schema.GroupResource
	// namespace that the objects belong into, empty for all.
	namespace string
	reason    string
}

func (o *outcomes) add(what listed, v verdict) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.count(v.outcome, 1)
	if v.reason != "" {
		o.skip(v.reason, 1)
	}
	if k := what.kind; k != nil {
		if k.listedAs == "" {
			k.listedAs = what.key
		}
		if k.listedAs == what.key {
			what.mark.outcome = outcomeMark(slices.Index(outcomeMarks, v.outcome)) //nolint:gosec // below 7
			return
		}
	}
	if o.others == nil {
		o.others = map[string][]string{}
	}
	o.others[what.key] = append(o.others[what.key], told(what, v.outcome))
}

// told returns an object as it is in the list of resources.
func told(what listed, outcome Outcome) string { return what.String() + "(" + string(outcome) + ")" }

func (o *outcomes) count(outcome Outcome, n int) {
	if o.counts == nil {
		o.counts = map[Outcome]int{}
	}
	o.counts[outcome] += n
	o.done.Add(int64(n))
}

func (o *outcomes) skip(reason string, n int) {
	if o.reasons == nil {
		o.reasons = map[string]int{}
	}
	o.reasons[reason] += n
}

// skipAll records objects of a kind none of which is restored.
func (o *outcomes) skipAll(reason string, n int) {
	if n == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.count(Skipped, n)
	o.skip(reason, n)
}

// refuse records objects that fail for a reason that is not theirs.
func (o *outcomes) refuse(why refusal, n int) {
	if n == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.refusals == nil {
		o.refusals = map[refusal]int{}
	}
	o.refusals[why] += n
	o.count(Failed, n)
}

// reportRefusals records one error for each reason.
func (o *outcomes) reportRefusals(collector *results.Collector) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for why, n := range o.refusals {
		scope := results.Run()
		if why.namespace != "" {
			scope = results.Object(why.namespace)
		}
		collector.Error(scope, fmt.Errorf("%s not restored: %s", objects(n, why.resource), why.reason))
	}
}

// objects returns "3 objects of widgets.example.org are".
func objects(n int, resource schema.GroupResource) string {
	if n == 1 {
		return fmt.Sprintf("1 object of %s is", resource)
	}
	return fmt.Sprintf("%d objects of %s are", n, resource)
}

func (o *outcomes) result() Result {
	o.mu.Lock()
	defer o.mu.Unlock()
	return Result{Counts: maps.Clone(o.counts), SkipReasons: maps.Clone(o.reasons)}
}

// resourceList returns Result.ResourceList, when nothing is restored any more.
func (r *run) resourceList() iter.Seq2[string, []string] {
	kinds := map[string][]*kind{}
	for key := range r.log.others {
		kinds[key] = nil
	}
	for _, k := range r.kinds {
		if k.listedAs != "" {
			kinds[k.listedAs] = append(kinds[k.listedAs], k)
		}
	}
	return func(yield func(string, []string) bool) {
		for _, key := range slices.Sorted(maps.Keys(kinds)) {
			names := slices.Clone(r.log.others[key])
			for _, k := range kinds[key] {
				names = r.appendTold(names, k)
			}
			slices.Sort(names)
			if !yield(key, names) {
				return
			}
		}
	}
}

// appendTold appends the objects of a kind that are listed as all of them are.
func (r *run) appendTold(names []string, k *kind) []string {
	for e := range k.entries() {
		if e.outcome == 0 {
			continue
		}
		what := listed{}
		what.namespace, what.name = r.places.of(k, e.Spooled)
		names = append(names, told(what, outcomeMarks[e.outcome]))
	}
	return names
}

// conclude records what became of an object.
func (r *run) conclude(what listed, about string, v verdict) {
	r.log.add(what, v)
	r.warn(what, about, v.warnings)
	if v.err != nil {
		r.results.Error(results.Object(what.namespace), explain(about, v.err))
	}
	r.tellLate(what, about, v.late)
	r.progress(false)
}

func (r *run) tellLate(what listed, about string, late []error) {
	for _, err := range late {
		r.results.Error(results.Object(what.namespace), explain(about, err))
	}
}

func (r *run) warn(what listed, about string, warnings []string) {
	for _, warning := range warnings {
		r.results.Warn(results.Object(what.namespace), about+": "+warning)
	}
}

func (r *run) warnRun(message string) { r.results.Warn(results.Run(), message) }

// noteAnswer ends the run when the API server has gone.
func (r *run) noteAnswer(err error) {
	if err == nil || !broken(err) {
		r.lost.Store(0)
		return
	}
	if r.lost.Add(1) >= int64(2*cap(r.workers)) {
		r.cancel(errors.Join(errUnreachable, err))
	}
}
