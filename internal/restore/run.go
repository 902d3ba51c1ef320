// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/discovery"
	"github.com/grapnel-dev/grapnel/internal/kube/list"
	"github.com/grapnel-dev/grapnel/internal/restore/version"
	"github.com/grapnel-dev/grapnel/internal/restoreaction"
	"github.com/grapnel-dev/grapnel/internal/restoreaction/builtin"
	"github.com/grapnel-dev/grapnel/internal/restoreaction/clean"
	"github.com/grapnel-dev/grapnel/internal/results"
	"github.com/grapnel-dev/grapnel/internal/selection"
)

// errUnreachable ends a run whose API server is gone. What is left would fail
// object by object otherwise, and could not be told from what is wrong.
var errUnreachable = errors.New("the API server does not answer any more")

// run is one restore under way.
type run struct {
	engine  *Engine
	cluster Cluster
	req     Request
	labels  clean.Names
	cancel  context.CancelCauseFunc
	results results.Collector
	log     outcomes

	// workers are the places of those who restore objects, and waiting those of
	// objects that wait for others without one; see place.
	workers, waiting chan struct{}
	// lists are the places of LISTs, whose handlers wait for workers. The GETs
	// of workers must not wait for these in turn.
	lists *list.Places
	// lost counts objects in a row that got no answer.
	lost atomic.Int64

	// What the plan sets, and nobody changes while objects are restored.
	served    *discovery.Resources
	selection *selection.Selection
	kinds     map[schema.GroupResource]*kind
	choices   map[string]version.Choice
	// places are the names the namespaces of the archive have in the cluster.
	places places
	// promised has the versions that the definitions would serve that a dry run
	// would create.
	promised map[schema.GroupResource][]string
	// definitions are those that this run created.
	definitions definitions

	// planned says that all kinds are planned, and not only the definitions.
	planned bool

	namespaces namespaceBook
	related    relatedItems
	// converted has the targets that objects of other resources were made into.
	converted sync.Map

	// actions are asked about the objects to restore, in the context of
	// actionRun, and normal are those that the same is done to existing objects
	// with before they are compared: built-in ones, which only look at what they
	// are given.
	actions   []restoreaction.Action
	normal    []restoreaction.Action
	actionRun *restoreaction.Run
	// outside are the actions of the request that were not left out.
	outside    []*outside
	operations operations

	progressing sync.Mutex
}

func newRun(e *Engine, req Request, cancel context.CancelCauseFunc) *run {
	if req.Policy == "" {
		req.Policy = ExistingNone
	}
	r := &run{
		engine:   e,
		cluster:  e.cluster,
		req:      req,
		labels:   clean.Names{Backup: req.BackupName, Restore: req.RestoreName},
		cancel:   cancel,
		workers:  make(chan struct{}, e.opts.Workers),
		waiting:  make(chan struct{}, waitingPerWorker*e.opts.Workers),
		lists:    list.NewPlaces(0, 0),
		kinds:    map[schema.GroupResource]*kind{},
		choices:  map[string]version.Choice{},
		promised: map[schema.GroupResource][]string{},
		actions:  e.opts.Actions(),
		normal:   builtin.Actions(),
	}
	r.related.init()
	r.actionRun = &restoreaction.Run{
		BackupName:        req.BackupName,
		RestoreName:       req.RestoreName,
		NamespaceMapping:  req.NamespaceMapping,
		PreserveNodePorts: req.PreserveNodePorts,
		StartsQuiesced:    req.StartsQuiesced,
		Archived:          r.archived,
		VolumeData:        func(string, string) bool { return false },
	}
	return r
}

// restore goes through the stages of a run.
func (r *run) restore(ctx context.Context) error {
	if err := r.discover(ctx); err != nil {
		return err
	}
	p, err := r.newPlanner()
	if err != nil {
		return err
	}
	if err := r.chooseActions(ctx, p.names); err != nil {
		return err
	}
	if err := r.restoreDefinitions(ctx, p); err != nil {
		return err
	}
	if err := r.makePlan(ctx); err != nil {
		return err
	}
	if err := r.openNamespaces(ctx); err != nil {
		return err
	}
	waves := r.waves()
	r.lookAhead(ctx, waves)
	for _, wave := range waves {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("restoring: %w", context.Cause(ctx))
		}
		r.restoreKinds(ctx, wave)
	}
	r.log.reportRefusals(&r.results)
	r.warnUncalled()
	r.progress(true)
	return nil
}

func (r *run) discover(ctx context.Context) error {
	served, err := r.cluster.Discover(ctx)
	if err != nil {
		return err
	}
	r.served = served
	return nil
}

// archived reports whether an object is in the archive, for actions.
func (r *run) archived(resource schema.GroupResource, namespace, name string) bool {
	k, ok := r.kinds[resource]
	if !ok {
		return false
	}
	_, found := k.find(namespace, name)
	return found
}

// enter takes the place of a worker, and returns false if the run has ended.
func (r *run) enter(ctx context.Context) bool {
	select {
	case r.workers <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (r *run) leave() { <-r.workers }

// progress tells the caller how far the run is, unless somebody is doing that
// already. The last word must be heard.
func (r *run) progress(last bool) {
	if r.req.Progress == nil {
		return
	}
	if last {
		r.progressing.Lock()
	} else if !r.progressing.TryLock() {
		return
	}
	defer r.progressing.Unlock()
	total, done := r.log.total.Load(), r.log.done.Load()
	r.req.Progress(int(max(total, done)), int(done))
}

// result is called when nothing is restored any more.
func (r *run) result() Result {
	out := r.log.result()
	out.ResourceList = r.resourceList()
	out.Results = r.results.Results()
	out.Choices = r.choices
	out.Actions = map[string][]string{}
	for gr, k := range r.kinds {
		if names := k.askedActions(); len(names) > 0 {
			out.Actions[gr.String()] = names
		}
	}
	r.tellActions(&out)
	return out
}

// kindOf returns what the list package calls a resource.
func kindOf(resource discovery.Resource) list.Kind {
	return list.Kind{Resource: resource.GVR, Kind: resource.Kind}
}

func logger(ctx context.Context) logr.Logger { return logr.FromContextOrDiscard(ctx) }
