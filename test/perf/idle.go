// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/operator"
	"github.com/grapnel-dev/grapnel/test/perf/cpu"
	"github.com/grapnel-dev/grapnel/test/perf/memory"
	"github.com/grapnel-dev/grapnel/test/perf/raw"
)

const (
	// The targets: seconds until the operator is ready, percent of a core, and MiB.
	startTarget      = 3
	idleCPUTarget    = 1
	idleMemoryTarget = 90
	// After idleSettling, the location was checked and synced once. idleInterval has two more
	// syncs with the default flags.
	idleSettling = 30 * time.Second
	idleInterval = 2 * time.Minute
)

// idleOperator is what an operator takes that has nothing to do.
type idleOperator struct {
	// backups are those that the cluster has, start is how long the operator took to be ready in
	// seconds, and limit how long the API server takes to list them.
	backups      int
	start, limit float64
	// cpu is in percent of a core, memory in bytes.
	cpu, memory float64
}

// measureIdle starts an operator with default flags where count Backups have finished.
func measureIdle(ctx context.Context, e *environment, count int) (idleOperator, error) {
	o := idleOperator{backups: count}
	var listing raw.Listing
	path := fmt.Sprintf("/apis/%s/namespaces/%s/backups", v1alpha1.GroupVersion, operator.Namespace)
	if err := e.askLimit(ctx, nil, &listing, "list", path); err != nil {
		return o, err
	}
	o.limit = listing.Seconds
	began := time.Now()
	return o, e.withOperator(ctx, func(op *operator.Operator) error {
		o.start = time.Since(began).Seconds()
		if err := pause(ctx, idleSettling); err != nil {
			return err
		}
		process := cpu.Process(op.PID())
		before, err := process.Time()
		if err != nil {
			return err
		}
		if err := pause(ctx, idleInterval); err != nil {
			return err
		}
		after, err := process.Time()
		if err != nil {
			return err
		}
		resident, err := memory.Process(op.PID()).Resident()
		o.cpu, o.memory = 100*(after-before).Seconds()/idleInterval.Seconds(), float64(resident)
		e.note("With %d Backups, ready after %.2f s; idle: %.2f %% of a core, %.0f MiB", count, o.start, o.cpu, o.memory/mebibyte)
		return err
	})
}

func (o idleOperator) figures() []figure {
	return []figure{
		newFigure(fmt.Sprintf("start to ready, %d Backups", o.backups), "s", o.start, o.limit, startTarget),
		newFigure(fmt.Sprintf("processor time when idle, %d Backups", o.backups), "%", o.cpu, 0, idleCPUTarget),
		newFigure(fmt.Sprintf("resident memory when idle, %d Backups", o.backups), "MiB", o.memory/mebibyte, 0, idleMemoryTarget),
	}
}
