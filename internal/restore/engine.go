// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"

	"github.com/grapnel-dev/grapnel/internal/discovery"
	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/rawclient"
	"github.com/grapnel-dev/grapnel/internal/restore/action"
)

// Reader is the read access of the engine to a cluster.
type Reader interface {
	// Discover returns the resources that the cluster currently serves.
	Discover(ctx context.Context) (*discovery.Resources, error)
	// List reads a kind; see rawclient.Lister.List.
	List(ctx context.Context, req rawclient.ListRequest, handler rawclient.Handler) (rawclient.Summary, error)
	// Get reads one object; see rawclient.Lister.Get.
	Get(ctx context.Context, kind rawclient.ResourceKind, namespace, name string) (rawclient.Item, error)
}

// Writer is the write access of the engine to a cluster; see rawclient.Writer.
type Writer interface {
	Create(ctx context.Context, t rawclient.Target, object []byte) error
	CreateDryRun(ctx context.Context, t rawclient.Target, object []byte) error
	Patch(ctx context.Context, t rawclient.Target, subresource string, patch []byte) error
	Replace(ctx context.Context, t rawclient.Target, object []byte) error
	Delete(ctx context.Context, t rawclient.Target, uid string) error
	// Wait waits for a state of one object.
	Wait(ctx context.Context, t rawclient.Target, ready func(object []byte) (bool, error)) error
}

// Cluster is the target of a restore. NewCluster creates one for an API server.
type Cluster interface {
	Reader
	Writer
}

const (
	// DefaultWorkers is how many objects are restored at a time: as many as the API server
	// of a small cluster can use (measured).
	DefaultWorkers       = 32
	defaultActionWorkers = 4
	defaultWaitTimeout   = 2 * time.Minute
	defaultReadyTimeout  = 10 * time.Minute
	defaultGracePeriod   = 30 * time.Second
)

// Options of an Engine. A zero field means its default.
type Options struct {
	// Actions returns the restore actions of every run, by default the built-in ones. They
	// are called in this order, and before those of the Request.
	Actions func() []itemaction.RestoreAction
	// ActionWorkers is the maximum number of concurrent calls to one action of a Request,
	// by default 4.
	ActionWorkers int
	// ReadyTimeout is how long an object waits for its related items to be ready, unless
	// its action sets a timeout; by default ten minutes.
	ReadyTimeout time.Duration
	// Workers is how many objects are restored at a time, by default
	// DefaultWorkers.
	Workers int
	// Order of the resources, by default DefaultOrder.
	Order *Order
	// WaitTimeout is how long a run waits for a single condition, by default two minutes:
	// that a definition is established, or that an object that is being deleted is gone.
	WaitTimeout time.Duration
	// GracePeriod is how long an ending run may continue with an object that it deleted and
	// has not recreated yet; by default 30 seconds.
	GracePeriod time.Duration
	// Log receives the stacks of panics, and must be that of the operator: the logs of
	// runs, which are in the context, are stored beside the backups.
	Log logr.Logger
	// Sleep waits for d or until ctx is done, in which case it returns the error of ctx.
	// Tests replace it.
	Sleep func(ctx context.Context, d time.Duration) error
}

func (o Options) withDefaults() Options {
	if o.Actions == nil {
		o.Actions = action.NewActions
	}
	if o.Workers <= 0 {
		o.Workers = DefaultWorkers
	}
	if o.ActionWorkers <= 0 {
		o.ActionWorkers = defaultActionWorkers
	}
	if o.ReadyTimeout <= 0 {
		o.ReadyTimeout = defaultReadyTimeout
	}
	if o.Order == nil {
		order := DefaultOrder()
		o.Order = &order
	}
	if o.WaitTimeout <= 0 {
		o.WaitTimeout = defaultWaitTimeout
	}
	if o.GracePeriod <= 0 {
		o.GracePeriod = defaultGracePeriod
	}
	if o.Sleep == nil {
		o.Sleep = rawclient.Sleep
	}
	return o
}

// Engine restores to one cluster. It is safe for concurrent use.
type Engine struct {
	cluster Cluster
	opts    Options
}

// New returns an Engine.
func New(cluster Cluster, opts Options) *Engine {
	return &Engine{cluster: cluster, opts: opts.withDefaults()}
}

// RestoreObjects runs one restore. With an error, it also returns the result so far.
// Another run of the same Request continues from there.
func (e *Engine) RestoreObjects(ctx context.Context, req Request) (Result, error) {
	if errs := Validate(req); len(errs) > 0 {
		return Result{}, fmt.Errorf("validating the restore: %w", errors.Join(errs...))
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r := newEnginePass(e, req, cancel)
	err := recoverPanic(func() error { return r.restoreArchive(ctx) })
	if ctx.Err() != nil {
		err = fmt.Errorf("restoring: %w", context.Cause(ctx)) // regardless of later errors
	}
	return r.buildResult(), err
}
