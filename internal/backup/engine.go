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
	"github.com/grapnel-dev/grapnel/internal/backup/action"
	"github.com/grapnel-dev/grapnel/internal/discovery"
	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/rawclient"
	"github.com/grapnel-dev/grapnel/internal/results"
	"github.com/grapnel-dev/grapnel/internal/selection"
)

// Cluster is what the engine reads. NewCluster creates one for an API server.
type Cluster interface {
	// Discover returns the resources that the cluster currently serves.
	Discover(ctx context.Context) (*discovery.Resources, error)
	// List reads a kind; see rawclient.Lister.List.
	List(ctx context.Context, req rawclient.ListRequest, handler rawclient.Handler) (rawclient.Summary, error)
	// Get reads one object; see rawclient.Lister.Get.
	Get(ctx context.Context, kind rawclient.ResourceKind, namespace, name string) (rawclient.Item, error)
}

// Options of an Engine. A zero field means its default.
type Options struct {
	// Actions returns the item actions of one run, by default the built-in ones. They are
	// called in this order.
	Actions func() []itemaction.BackupAction
	// ActionWorkers is for how many objects of each run the actions of plugins are called
	// at a time, by default DefaultActionWorkers.
	ActionWorkers int
	// InFlight bounds the open requests of each run, by default rawclient.DefaultInFlight.
	InFlight int
	// Readers bounds the responses that each run reads at a time, and thereby its memory,
	// by default rawclient.DefaultReaders.
	Readers int
	// Level of compression, by default archive.DefaultLevel.
	Level int
	// Log receives what administrators of the operator should see and readers of the log of
	// a backup should not: the stacks of panics.
	Log logr.Logger
	// Sleep waits for d or until ctx is done, in which case it returns the error of ctx.
	// Tests replace it.
	Sleep func(ctx context.Context, d time.Duration) error
	// Limits of archives, those of their readers.
	Limits archive.Limits
}

// DefaultActionWorkers is enough for calls to overlap, and few enough for plugins that were
// never called concurrently.
const DefaultActionWorkers = 4

// Engine writes backups of one cluster. It is safe for concurrent use.
type Engine struct {
	cluster Cluster
	opts    Options
}

// New returns an Engine.
func New(cluster Cluster, opts Options) *Engine {
	if opts.Actions == nil {
		opts.Actions = action.NewActions
	}
	if opts.ActionWorkers <= 0 {
		opts.ActionWorkers = DefaultActionWorkers
	}
	if opts.Sleep == nil {
		opts.Sleep = rawclient.Sleep
	}
	return &Engine{cluster: cluster, opts: opts}
}

// ArchiveRequest specifies what to back up.
type ArchiveRequest struct {
	// Selection of objects. The engine sets OptedOutNamespaces.
	Selection selection.Spec
	// AllVersions archives every object in every version that its group
	// serves (the feature EnableAPIGroupVersions), not only in the preferred.
	AllVersions bool
	// Actions are called after those of the Options, in this order. They are only for this
	// run.
	Actions []itemaction.BackupAction
	// OnOperationStarted, if set, is called for each operation as soon as an action has
	// returned it, concurrently. Its context does not end with the run, which may already
	// have ended, but after 30 seconds. If it returns nil, the operation is tracked from
	// then on. If it returns an error, or is not set, the operation is canceled, which is
	// an error of the object; the object is still archived.
	OnOperationStarted func(ctx context.Context, op itemaction.Operation) error
	// OnlyItems, if not empty, archives only these objects, as if they were named with
	// IgnoreSelection, and the related items that actions name: for the results of
	// operations. A missing object is a warning. Operations that actions start in this run
	// are not reported to OnOperationStarted, so that the backup ends.
	OnlyItems []itemaction.RelatedItem
	// ArchivedClaims are the claims, as "namespace/name" and sorted, that an earlier archive of the backup
	// has. They are not counted and not reported again.
	ArchivedClaims []string
	// OnlyClaims collects no resources but PersistentVolumeClaims and, for a label selector, the
	// pods that use them.
	OnlyClaims bool
	// RequireCaptured makes claims without data errors instead of warnings.
	RequireCaptured bool
	// RunsPodHooks reports that an action runs the commands that Velero's annotations on pods have.
	// Otherwise there is a warning about such pods.
	RunsPodHooks bool
	// StartTime is the modification time of the files in the archive.
	StartTime time.Time
	// Progress, if set, is called after each batch with the number of objects known so far,
	// and the number of archived ones. It is called in the goroutine of WriteArchive and
	// must return quickly.
	Progress func(total, done int)
}

// ArchiveResult is the result of a backup.
type ArchiveResult struct {
	// Items is the number of archived objects; each version counts.
	Items int
	// Results has the warnings and errors of single objects, kinds and groups.
	Results results.Results
	// MissingNamespaces are namespaces that were included by name and do not exist, which
	// is an error.
	MissingNamespaces []string
	// ResourceList lists the archived objects, "namespace/name" or "name" and sorted, by
	// "group/version/Kind" ("v1/Pod" for the core group).
	ResourceList map[string][]string
	// Volumes counts the PersistentVolumeClaims, apart from ArchivedClaims.
	Volumes VolumeCounts
	// Actions has the names of the item actions that were called, in order, by resource
	// ("deployments.apps").
	Actions map[string][]string
	// Labels are those that item actions add to the Backup.
	Labels map[string]string
	// Operations are those that item actions started and OnOperationStarted recorded,
	// sorted by object.
	Operations []itemaction.Operation
}

// WriteArchive writes the archive of one backup to w. With an error, it also returns the
// result so far; the archive is then unusable.
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
