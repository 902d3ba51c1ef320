// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
)

const (
	// cleanupGateTimeout is how long owed clean-up takes precedence after a start. Some clean-up
	// may stay impossible for days.
	cleanupGateTimeout = 30 * time.Second
	// cleanupGatePollInterval is the time between two checks whether the clean-up was attempted.
	cleanupGatePollInterval = 500 * time.Millisecond
)

// cleanupGate delays long steps after a start of the operator. It is safe for concurrent use;
// the zero gate is closed.
type cleanupGate struct {
	mu   sync.Mutex
	open bool
	// startedAt is when this process began to reconcile.
	startedAt time.Time
}

// shouldAwaitCleanup reports whether a long step has to wait, because owed clean-up was not
// attempted since the operator started. If the step crashed the operator first, the clean-up
// would never run.
func (d *Driver[T]) shouldAwaitCleanup(ctx context.Context) (waits bool, err error) {
	d.cleanupGate.mu.Lock()
	defer d.cleanupGate.mu.Unlock()
	if d.cleanupGate.open {
		return false, nil
	}
	if d.Now().Sub(d.cleanupGate.startedAt) < cleanupGateTimeout {
		if waits, err = d.hasUntriedCleanup(ctx, d.cleanupGate.startedAt); waits || err != nil {
			return waits, err
		}
	}
	d.cleanupGate.open = true
	return false, nil
}

// recordGateStart records when this process began to reconcile.
func (d *Driver[T]) recordGateStart() {
	d.cleanupGate.mu.Lock()
	defer d.cleanupGate.mu.Unlock()
	if d.cleanupGate.startedAt.IsZero() {
		d.cleanupGate.startedAt = d.Now()
	}
}

// hasUntriedCleanup reports whether a finished run owes clean-up that was not attempted since
// the given time.
func (d *Driver[T]) hasUntriedCleanup(ctx context.Context, since time.Time) (bool, error) {
	owing, err := d.listRunsOwingCleanup(ctx)
	if err != nil || len(owing) == 0 {
		return false, err
	}
	var runs v1alpha1.HookRunList
	if err := d.Client.List(ctx, &runs, client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("listing the HookRuns: %w", err)
	}
	for i := range runs.Items {
		run := &runs.Items[i]
		if run.Spec.Owed && !isHookRunFinished(run) && owing[types.UID(run.Labels[v1alpha1.LabelParentUID])] && !hasAttemptSince(run, since) {
			return true, nil
		}
	}
	return false, nil
}

// listRunsOwingCleanup returns the finished Backups and Restores that owe clean-up.
func (d *Driver[T]) listRunsOwingCleanup(ctx context.Context) (map[types.UID]bool, error) {
	owing := map[types.UID]bool{}
	note := func(o Object) {
		if IsFinished(o) && conditions.IsTrue(o, v1alpha1.ConditionCleanupOwed) {
			owing[o.GetUID()] = true
		}
	}
	var backups v1alpha1.BackupList
	if err := d.Client.List(ctx, &backups, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the Backups: %w", err)
	}
	for i := range backups.Items {
		note(&backups.Items[i])
	}
	var restores v1alpha1.RestoreList
	if err := d.Client.List(ctx, &restores, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the Restores: %w", err)
	}
	for i := range restores.Items {
		note(&restores.Items[i])
	}
	return owing, nil
}

// hasAttemptSince reports whether an attempt of a HookRun started at or after the given time.
// The API stores whole seconds.
func hasAttemptSince(run *v1alpha1.HookRun, since time.Time) bool {
	last := len(run.Status.Attempts) - 1
	return last >= 0 && !run.Status.Attempts[last].StartTimestamp.Time.Before(since.Truncate(time.Second))
}
