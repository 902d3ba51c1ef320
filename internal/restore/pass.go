// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/grapnel-dev/grapnel/internal/discovery"
	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/podhook"
	"github.com/grapnel-dev/grapnel/internal/rawclient"
	"github.com/grapnel-dev/grapnel/internal/restore/action"
	"github.com/grapnel-dev/grapnel/internal/restore/version"
	"github.com/grapnel-dev/grapnel/internal/results"
	"github.com/grapnel-dev/grapnel/internal/selection"
)

// errUnreachable ends a run whose API server is unreachable. Otherwise the remaining
// objects would fail one by one, and hide the real errors.
var errUnreachable = errors.New("the API server no longer answers")

// enginePass is one restore in progress.
type enginePass struct {
	engine   *Engine
	cluster  Cluster
	req      Request
	labels   action.RestoreNames
	cancel   context.CancelCauseFunc
	results  results.Collector
	outcomes outcomeTracker

	// workerSlots are the slots of workers, and waitingSlots those of objects that wait for
	// others without one; see workerSlot.
	workerSlots, waitingSlots chan struct{}
	// listSlots are the slots of LISTs, whose handlers wait for workers. The GETs of
	// workers must not wait for these in turn.
	listSlots *rawclient.Slots
	// unansweredCount counts consecutive objects without an answer.
	unansweredCount atomic.Int64

	// These are set by the plan, and not changed while objects are restored.
	served    *discovery.Resources
	selection *selection.Selection
	kinds     map[schema.GroupResource]*kind
	choices   map[string]version.Choice
	// namespaceMapping maps the namespaces of the archive to those of the cluster.
	namespaceMapping namespaceMapping
	// dryRunCRDVersions has the versions that the definitions would serve that a dry run
	// would create.
	dryRunCRDVersions map[schema.GroupResource][]string
	// writtenCRDs are those that this run created.
	writtenCRDs writtenCRDList

	// allPlanned reports that all kinds are planned, and not only the
	// CustomResourceDefinitions.
	allPlanned bool

	namespaces   namespaceTracker
	dependencies dependencyTracker
	// converted has the targets of objects that were converted from other resources.
	converted sync.Map

	// actions are called for the objects to restore, with the context actionRun.
	// normalizers are those that are also applied to existing objects before the
	// comparison: built-in ones, which only read their input.
	actions     []itemaction.RestoreAction
	normalizers []itemaction.RestoreAction
	actionRun   *itemaction.RestoreContext
	// pluginActions are the actions of the request that were not skipped.
	pluginActions []*pluginAction
	operations    operationList
	backupLabels  backupLabels
	// storageClasses has the names of those that are known to exist.
	storageClasses sync.Map
	// disabledPods are created pods whose hooks do not run.
	disabledPods podhook.DisabledPods
	// modifierMatches counts the objects that each rule of the request's modifiers matched.
	modifierMatches []atomic.Int64

	progressMu sync.Mutex
}

func newEnginePass(e *Engine, req Request, cancel context.CancelCauseFunc) *enginePass {
	if req.Policy == "" {
		req.Policy = ExistingNone
	}
	r := &enginePass{
		engine:            e,
		cluster:           e.cluster,
		req:               req,
		labels:            action.RestoreNames{Backup: req.BackupName, Restore: req.RestoreName},
		cancel:            cancel,
		workerSlots:       make(chan struct{}, e.opts.Workers),
		waitingSlots:      make(chan struct{}, waitersPerWorker*e.opts.Workers),
		listSlots:         rawclient.NewSlots(0, 0),
		kinds:             map[schema.GroupResource]*kind{},
		choices:           map[string]version.Choice{},
		dryRunCRDVersions: map[schema.GroupResource][]string{},
		actions:           e.opts.Actions(),
		normalizers:       action.NewActions(),
	}
	if len(req.StorageClasses.Names) > 0 {
		r.actions = append(r.actions, action.NewStorageClassAction(req.StorageClasses, r.hasStorageClass))
	}
	if len(req.Images) > 0 {
		r.actions = append(r.actions, action.NewImageNameAction(req.Images))
	}
	if req.Modifiers != nil {
		r.modifierMatches = make([]atomic.Int64, req.Modifiers.Len())
	}
	r.dependencies.initWaits()
	r.actionRun = &itemaction.RestoreContext{
		BackupName:         req.BackupName,
		RestoreName:        req.RestoreName,
		NamespaceMapping:   req.NamespaceMapping,
		PreserveNodePorts:  req.PreserveNodePorts,
		HasUnquiesceAction: req.StartsQuiesced,
		TakeOver:           req.TakeOver,
		IsArchived:         r.isArchived,
		ReadArchived:       r.readArchived,
		HasVolumeData: func(namespace, claim string) bool {
			return req.CapturedClaims[types.NamespacedName{Namespace: namespace, Name: claim}] != ""
		},
	}
	return r
}

// restoreArchive runs the stages of a run.
func (r *enginePass) restoreArchive(ctx context.Context) error {
	if err := r.discoverResources(ctx); err != nil {
		return err
	}
	p, err := r.newPlanner()
	if err != nil {
		return err
	}
	if err := r.resolveActionSelectors(ctx, p.resolver); err != nil {
		return err
	}
	if err := r.restoreCRDs(ctx, p); err != nil {
		return err
	}
	if err := r.makePlan(ctx); err != nil {
		return err
	}
	if err := r.restoreNamespaces(ctx); err != nil {
		return err
	}
	waves := r.orderedWaves()
	r.compareExisting(ctx, waves)
	for _, wave := range waves {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("restoring: %w", context.Cause(ctx))
		}
		r.restoreKinds(ctx, wave)
	}
	r.outcomes.reportRefusals(&r.results)
	r.warnAboutUncalledActions()
	r.warnAboutUnmatchedModifiers()
	r.warnAboutDisabledPods()
	r.reportProgress(true)
	return nil
}

func (r *enginePass) discoverResources(ctx context.Context) error {
	served, err := r.cluster.Discover(ctx)
	if err != nil {
		return err
	}
	r.served = served
	return nil
}

// isArchived reports whether an object is in the archive, for actions.
func (r *enginePass) isArchived(resource schema.GroupResource, namespace, name string) bool {
	k, ok := r.kinds[resource]
	if !ok {
		return false
	}
	_, found := k.findEntry(namespace, name)
	return found
}

// readArchived returns an object of the archive, for actions; nil if there is none that can be read.
func (r *enginePass) readArchived(resource schema.GroupResource, namespace, name string) map[string]any {
	k, ok := r.kinds[resource]
	if !ok {
		return nil
	}
	e, found := k.findEntry(namespace, name)
	if !found {
		return nil
	}
	raw, err := r.req.Archive.Read(e.SpooledObject, nil)
	object := map[string]any{}
	if err != nil || json.Unmarshal(raw, &object) != nil {
		return nil // its own restore reports that
	}
	return object
}

// acquireWorkerSlot acquires the slot of a worker, and returns false if the run has ended.
func (r *enginePass) acquireWorkerSlot(ctx context.Context) bool {
	select {
	case r.workerSlots <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (r *enginePass) releaseWorkerSlot() { <-r.workerSlots }

// reportProgress reports the progress to the caller, unless another goroutine is doing
// that. The last report is always delivered.
func (r *enginePass) reportProgress(last bool) {
	if r.req.Progress == nil {
		return
	}
	if last {
		r.progressMu.Lock()
	} else if !r.progressMu.TryLock() {
		return
	}
	defer r.progressMu.Unlock()
	total, done := r.outcomes.total.Load(), r.outcomes.done.Load()
	r.req.Progress(int(max(total, done)), int(done))
}

// buildResult must be called after everything is restored.
func (r *enginePass) buildResult() Result {
	out := r.outcomes.toResult()
	out.ResourceList = r.newResourceList()
	out.Results = r.results.Results()
	out.Results.Objects = r.summarizeResources()
	out.Choices = r.choices
	out.Actions = map[string][]string{}
	for gr, k := range r.kinds {
		if names := k.matchedActionNames(); len(names) > 0 {
			out.Actions[gr.String()] = names
		}
	}
	r.addActionReports(&out)
	return out
}

// toListKind converts a resource to a kind of package rawclient.
func toListKind(resource discovery.Resource) rawclient.ResourceKind {
	return rawclient.ResourceKind{Resource: resource.GVR, Kind: resource.Kind}
}

func loggerFrom(ctx context.Context) logr.Logger { return logr.FromContextOrDiscard(ctx) }
