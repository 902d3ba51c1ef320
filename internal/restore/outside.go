// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/restore/compare"
	"github.com/grapnel-dev/grapnel/internal/restoreaction"
	"github.com/grapnel-dev/grapnel/internal/restoreaction/clean"
	"github.com/grapnel-dev/grapnel/internal/restoreaction/field"
)

// outside is an action of the request: its calls leave this program.
type outside struct {
	restoreaction.External
	// calls are the places of calls to it.
	calls                  chan struct{}
	called, skipped, wrong atomic.Int64
}

// concern is an action of the request that may concern the objects of one kind.
type concern struct {
	*outside
	// some says that it concerned one of them.
	some atomic.Bool
}

// chooseActions asks the actions of the request which objects concern them, all at
// once. Nothing has been written by then.
func (r *run) chooseActions(ctx context.Context, names itemaction.Names) error {
	errs := make([]error, len(r.req.Actions))
	var wg sync.WaitGroup
	for i, action := range r.req.Actions {
		wg.Go(func() { errs[i] = action.Choose(ctx, names) })
	}
	wg.Wait()
	var wrong []error
	for i, action := range r.req.Actions {
		leftOut := (*itemaction.LeftOutError)(nil)
		switch {
		case errors.As(errs[i], &leftOut):
			r.warnRun(leftOut.Reason)
		case errs[i] != nil:
			wrong = append(wrong, errs[i])
		default:
			r.outside = append(r.outside, &outside{External: action, calls: make(chan struct{}, r.engine.opts.ActionWorkers)})
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("no object was touched: %w", errors.Join(wrong...))
	}
	return nil
}

// outsideOf returns the actions of the request that may concern a resource. Velero's
// are not asked about Namespaces either, and what needs a namespace would wait for
// what the action wants to have in it.
func (r *run) outsideOf(resource schema.GroupResource) []*concern {
	if resource == namespacesResource {
		return nil
	}
	var all []*concern
	for _, action := range r.outside {
		if action.AppliesTo(resource) {
			all = append(all, &concern{outside: action})
		}
	}
	return all
}

// concerning returns the names of the actions of the request that an object
// concerns as it is.
func (r *run) concerning(it *item) []string {
	var names []string
	for _, action := range it.kind.outside {
		if action.Concerns(r.shown(it)) {
			action.some.Store(true)
			names = append(names, action.Name())
		}
	}
	return names
}

// mayConvert reports whether an action of the request may make something of an
// object that the cluster serves.
func (r *run) mayConvert(it *item) bool { return len(r.concerning(it)) > 0 && !r.req.DryRun }

// toBeAsked reports whether the actions of the request are asked about an object.
// What they do cannot be taken back, so one that exists is looked for first: this
// restore may have made it before it was interrupted, or may have to leave it alone.
func (r *run) toBeAsked(ctx context.Context, it *item) (bool, error) {
	names := r.concerning(it)
	if len(names) == 0 || r.req.DryRun {
		return false, nil
	}
	if err := r.lookFor(ctx, it); err != nil || it.found == nil {
		return err == nil, err
	}
	if r.stays(it) {
		it.unasked = names
		return false, nil
	}
	return true, nil
}

// lookFor looks for an object in the cluster, unless it is known whether it is there.
func (r *run) lookFor(ctx context.Context, it *item) error {
	known := it.kind.listed.Load() && it.entry.selected ||
		it.target.Namespace != "" && it.unserved == nil && r.namespace(ctx, it.target.Namespace).fresh
	if it.found != nil || it.unserved != nil || known {
		return nil
	}
	found, err := r.get(ctx, it)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	}
	it.found, it.foundIn = &found, it.target.Resource
	return nil
}

// stays reports whether an object that exists is not going to be changed.
func (r *run) stays(it *item) bool {
	if it.found.Deleting {
		return false
	}
	var existing struct {
		Metadata struct{ Annotations map[string]string }
	}
	// What cannot be decoded is told when it is met.
	if err := json.Unmarshal(it.found.JSON, &existing); err != nil {
		return true
	}
	if _, own := r.stampedAs(existing.Metadata.Annotations[compare.Restored]); own {
		return true
	}
	return r.req.Policy == ExistingNone && it.resource != schema.GroupResource{Resource: "serviceaccounts"}
}

// ask shows an object to the actions of the request, one after the other. The
// verdict has an outcome if that is the end of it.
func (r *run) ask(ctx context.Context, it *item) verdict {
	for _, action := range it.kind.outside {
		shown := r.shown(it)
		if !action.Concerns(shown) {
			continue
		}
		action.some.Store(true)
		action.called.Add(1)
		v := r.askOne(ctx, it, action.outside, shown)
		switch v.outcome {
		case "":
			continue
		case Skipped:
			action.skipped.Add(1)
		default:
			action.wrong.Add(1)
			v.err = fmt.Errorf("restore action %s: %w", action.Name(), v.err)
		}
		return v
	}
	return verdict{}
}

// askOne shows an object to one action, and restores what that wants to have first.
func (r *run) askOne(ctx context.Context, it *item, action *outside, shown *restoreaction.Item) verdict {
	var result restoreaction.Result
	err := action.call(ctx, func() (err error) {
		result, err = action.Execute(ctx, shown)
		return err
	})
	if err != nil {
		return failed(err)
	}
	it.notes = append(it.notes, result.Warnings...)
	if result.Skip != "" {
		r.record(ctx, it, action, result.Operation)
		return skipped(result.Skip)
	}
	it.object = shown.Object
	if err := r.settle(it); err != nil {
		return failed(refuse(ctx, result.Operation, err))
	}
	// From here on the operation counts, whatever becomes of the object.
	r.record(ctx, it, action, result.Operation)
	if it.found != nil && r.req.Policy != ExistingRecreate {
		r.restoreAdditional(ctx, it, result.Additional)
		return verdict{} // it exists, and needs nothing first
	}
	there := r.restoreAdditional(ctx, it, result.Additional)
	if err := r.awaitReady(ctx, it, action, result, there); err != nil {
		it.late = append(it.late, fmt.Errorf("restore action %s: %w", action.Name(), err))
	}
	return verdict{}
}

// call makes a call to an action when there is a place for it.
func (o *outside) call(ctx context.Context, make func() error) error {
	select {
	case o.calls <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-o.calls }()
	return make()
}

// settle makes sure that an object which an action returned is that of its item.
func (r *run) settle(it *item) error {
	if err := clean.Again(it.object, it.archived, r.labels); err != nil {
		return fmt.Errorf("returned an object whose %w", err)
	}
	it.object.SetName(it.target.Name)
	if it.target.Namespace != "" {
		it.object.SetNamespace(it.target.Namespace)
	}
	field.Prune(it.object.Object, []string{"metadata", "annotations"}, compare.Restored)
	return r.follow(it)
}

// askedActions returns the names of the actions that objects of a kind concerned.
func (k *kind) askedActions() []string {
	var names []string
	if k.asked.Load() {
		for _, action := range k.actions {
			names = append(names, action.Name())
		}
	}
	for _, action := range k.outside {
		if action.some.Load() {
			names = append(names, action.Name())
		}
	}
	return names
}

// warnUncalled says which actions a dry run did not call, because what they would do
// is not foretold.
func (r *run) warnUncalled() {
	if !r.req.DryRun {
		return
	}
	for _, action := range r.outside {
		if slices.ContainsFunc(slices.Collect(maps.Values(r.kinds)), func(k *kind) bool {
			return slices.Contains(k.askedActions(), action.Name())
		}) {
			r.warnRun(fmt.Sprintf("restore action %s of plugin %s is not called in a dry run: what it would change is not foretold",
				action.Name(), action.Plugin()))
		}
	}
}

// tellActions adds to a Result what the actions of the request did.
func (r *run) tellActions(out *Result) {
	for _, action := range r.outside {
		out.Called = append(out.Called, Called{
			Name: action.Name(), Plugin: action.Plugin(),
			Calls: int(action.called.Load()), Skipped: int(action.skipped.Load()), Failed: int(action.wrong.Load()),
		})
	}
	out.Operations = r.operations.sorted()
}
