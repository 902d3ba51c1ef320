// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/go-logr/logr"

	"github.com/grapnel-dev/grapnel/internal/archive"
	"github.com/grapnel-dev/grapnel/internal/discovery"
	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/itemaction/builtin"
	"github.com/grapnel-dev/grapnel/internal/kube/list"
	"github.com/grapnel-dev/grapnel/internal/kube/request"
	"github.com/grapnel-dev/grapnel/internal/results"
	"github.com/grapnel-dev/grapnel/internal/selection"
)

// Cluster is what the engine reads. NewCluster makes one of an API server.
type Cluster interface {
	// Discover returns what the cluster serves now.
	Discover(ctx context.Context) (*discovery.Resources, error)
	// List reads a kind; see list.Client.List.
	List(ctx context.Context, req list.Request, handler list.Handler) (list.Summary, error)
	// Get reads one object; see list.Client.Get.
	Get(ctx context.Context, kind list.ResourceKind, namespace, name string) (list.Item, error)
}

// Options of an Engine. A zero field means its default.
type Options struct {
	// Actions returns the item actions of one run, by default the built-in
	// ones. They are asked in this order.
	Actions func() []itemaction.Action
	// ActionWorkers is how many objects of each run are shown to external item
	// actions at a time, by default DefaultActionWorkers.
	ActionWorkers int
	// InFlight bounds the open requests of each run, by default
	// list.DefaultInFlight.
	InFlight int
	// Readers bounds the responses that each run reads at a time, and with
	// them its memory, by default list.DefaultReaders.
	Readers int
	// Level of compression, by default archive.DefaultLevel.
	Level int
	// Log takes what people who run the operator should know and those who read the log of
	// a backup should not: the stacks of panics.
	Log logr.Logger
	// Sleep waits for d or until ctx is done, whose error it returns then. It is replaced
	// in tests.
	Sleep func(ctx context.Context, d time.Duration) error
	// Limits of archives, those of whoever restores them.
	Limits archive.Limits
}

// DefaultActionWorkers is enough for calls to overlap, and few enough for plugins
// that never met a second one.
const DefaultActionWorkers = 4

// Engine makes backups of one cluster. It is safe for concurrent use.
type Engine struct {
	cluster Cluster
	opts    Options
}

// New returns an Engine.
func New(cluster Cluster, opts Options) *Engine {
	if opts.Actions == nil {
		opts.Actions = builtin.NewActions
	}
	if opts.ActionWorkers <= 0 {
		opts.ActionWorkers = DefaultActionWorkers
	}
	if opts.Sleep == nil {
		opts.Sleep = request.Sleep
	}
	return &Engine{cluster: cluster, opts: opts}
}

// ArchiveRequest says what to back up.
type ArchiveRequest struct {
	// Selection of objects. OptedOutNamespaces is filled in by the engine.
	Selection selection.Spec
	// AllVersions archives every object in every version that its group
	// serves (the feature EnableAPIGroupVersions), not only in the preferred.
	AllVersions bool
	// Actions are asked after those of the Options, in this order. They are this
	// run's own.
	Actions []itemaction.Action
	// OnOperationStarted, if set, is told of each operation at the moment that an action said it was
	// started, by many goroutines at a time. The context does not end with the run, which
	// may have ended meanwhile, but after 30 seconds. Once it returned nil, somebody sees
	// to the operation. One that it returns an error for, or that it is not there for, is
	// canceled, which is an error of the object; the object is archived all the same.
	OnOperationStarted func(ctx context.Context, op Operation) error
	// OnlyItems, if not empty, archives nothing but these objects, as if they were named with
	// Always, and what actions name beside them: for when operations have ended. One that
	// does not exist is a warning. Operations that actions start then are not told to
	// Started: there is an end to it.
	OnlyItems []itemaction.RelatedItem
	// StartTime is the modification time of the files in the archive.
	StartTime time.Time
	// Progress, if set, is told after each batch how many objects there are,
	// as far as is known by then, and how many are archived. It is called in
	// the goroutine of Run and must return quickly.
	Progress func(total, done int)
}

// ArchiveResult is what became of a backup.
type ArchiveResult struct {
	// Items is how many objects were archived; each version counts.
	Items int
	// Results has the warnings and errors of single objects, kinds and groups.
	Results results.Results
	// MissingNamespaces were included by name and do not exist, which is an error.
	MissingNamespaces []string
	// ResourceList has the archived objects, "namespace/name" or "name" and
	// sorted, by "group/version/Kind" ("v1/Pod" for the core group).
	ResourceList map[string][]string
	// Volumes are the PersistentVolumeClaims in the archive, sorted. Their data
	// is not in it.
	Volumes []Volume
	// Actions has the names of the item actions that objects were shown to, in their
	// order, by resource ("deployments.apps").
	Actions map[string][]string
	// Labels are what item actions want to be added to the Backup.
	Labels map[string]string
	// Operations are what item actions started and Request.Started recorded, sorted by
	// object.
	Operations []Operation
}

// Volume is a PersistentVolumeClaim whose data was not captured, as far as is known: no
// action started an operation on it.
type Volume struct {
	// Namespace of the claim.
	Namespace string
	// ClaimName is its name.
	ClaimName string
	// VolumeName is the PersistentVolume it is bound to, empty if it is not.
	VolumeName string
}

// WriteArchive makes one backup and writes its archive to w. A Result is returned with
// an error too, with what was known by then; the archive is useless then.
func (e *Engine) WriteArchive(ctx context.Context, req ArchiveRequest, w io.Writer) (ArchiveResult, error) {
	writer, err := archive.NewWriter(w, archive.WriterOptions{Level: e.opts.Level, ModTime: req.StartTime, Limits: e.opts.Limits})
	if err != nil {
		return ArchiveResult{}, err
	}
	// The goroutines of the run end with it, whichever side fails.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r := newEnginePass(e, req, writer)
	collected := make(chan error, 1)
	go func() {
		defer close(r.batches)
		err := r.collectAllObjects(ctx)
		if err != nil {
			cancel(err)
		}
		collected <- err
	}()
	writeErr := r.writeBatches()
	if writeErr != nil {
		cancel(writeErr)
		r.discardBatches()
	}
	collectErr := <-collected
	r.logPanicStack(errors.Join(collectErr, writeErr))
	if writeErr == nil && collectErr == nil && !req.hasOnlyItems() {
		r.warnIfEmpty()
	}
	result := r.buildArchiveResult()
	switch {
	case writeErr != nil:
		return result, writeErr
	case collectErr != nil:
		return result, collectErr
	}
	if err := recoverPanic(writer.Close); err != nil {
		r.logPanicStack(err)
		return result, err
	}
	if err := context.Cause(ctx); err != nil {
		return result, fmt.Errorf("backing up: %w", err)
	}
	return result, nil
}
