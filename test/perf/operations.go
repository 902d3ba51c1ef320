// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/operator"
	"github.com/grapnel-dev/grapnel/test/perf/cpu"
	"github.com/grapnel-dev/grapnel/test/perf/polls"
	"github.com/grapnel-dev/grapnel/test/perf/raw"
)

const (
	// The targets: percent of polls, cores, MiB and writes per second.
	lateTarget            = 5
	operationCPUTarget    = 1
	operationGrowthTarget = 150
	statusWriteTarget     = 100

	// operationInterval is how often each operation is polled, and lateAfter when a
	// question is late.
	operationInterval = 10 * time.Second
	lateAfter         = 2 * operationInterval
	// operationWindow is how long is measured, after settling.
	operationWindow = time.Minute
	settling        = 2 * operationInterval

	// progressBytes is about the size of a Backup as Velero knows it, which is sent with
	// each question.
	progressBytes = 1000
	// limitSeconds is for how long the limit asks as often as the operator has to.
	limitSeconds = 10
	limitWorkers = 50
)

// operations is how many there are, by how many plugins. One plugin hangs.
type operations struct{ count, plugins int }

// each is how many operations a plugin has.
func (o operations) each() int { return max(1, o.count/o.plugins) }

// all is how many there are of all plugins.
func (o operations) all() int { return o.each() * o.plugins }

// perSecond is how many questions have to be asked in a second.
func (o operations) perSecond() float64 { return float64(o.all()) / operationInterval.Seconds() }

// following is what it takes to follow running operations.
type following struct {
	operations
	// counts are the polls of each plugin that does not hang.
	counts []polls.Count
	// cores and writesPerSecond are those of the window; growth is bytes of resident
	// memory, from before the first operation to the peak up to the end of the window.
	cores, writesPerSecond, growth float64
	limit                          raw.CallTimes
	// started and cancelled are the seconds until all operations were started, and until all had
	// ended after the Backup was canceled.
	started, cancelled      float64
	startLimit, cancelLimit raw.SendTimes
}

// measureOperations has one Backup start operations, measures while they continue, and
// cancels the Backup. It is an error if not all of them end by that.
func (o operations) measureOperations(ctx context.Context, e *environment) (following, error) {
	f := following{operations: o}
	err := e.withNewPlane(ctx, func(op *operator.Operator) (err error) {
		if err := o.create(ctx, e); err != nil {
			return err
		}
		b := newBackup("operations", operationNamespace("*"))
		b.Labels = map[string]string{operationLabel: "yes"}
		var window polls.Window
		f.growth, err = growthDuring(op, func() error {
			if err := f.start(ctx, e, b); err != nil {
				return err
			}
			window, err = f.watch(ctx, e, op)
			return err
		})
		if err != nil {
			return err
		}
		e.note("They take %.2f cores, +%.0f MiB and %.1f status writes in a second", f.cores, f.growth/mebibyte, f.writesPerSecond)
		if err := o.checkOpen(ctx, e); err != nil {
			return err
		}
		if err := f.cancel(ctx, e, b); err != nil {
			return err
		}
		return f.read(e, window)
	})
	if err != nil {
		return f, err
	}
	if err := f.measureWrites(ctx, e); err != nil {
		return f, err
	}
	request := raw.CallRequest{
		Calls: int(limitSeconds * o.perSecond()), Workers: limitWorkers, Bytes: progressBytes, PerSecond: o.perSecond(),
	}
	return f, e.askLimit(ctx, request, &f.limit, "call")
}

// start creates the Backup and waits until all of its operations continue.
func (f *following) start(ctx context.Context, e *environment, b *v1alpha1.Backup) error {
	e.note("Backing up %d objects, on each of which an operation is started", f.all())
	begun := time.Now()
	if err := e.client.Create(ctx, b); err != nil {
		return fmt.Errorf("creating the Backup %s: %w", b.Name, err)
	}
	err := awaitBackup(ctx, e.client, b, func() bool {
		return string(b.Status.Phase) == v1alpha1.ReasonWaitingForOperations && b.Status.Operations != nil
	})
	if err != nil {
		return err
	}
	if counts := b.Status.Operations; int(counts.Attempted) != f.all() {
		return fmt.Errorf("the Backup %s should have started %d operations: %+v", b.Name, f.all(), counts)
	}
	f.started = time.Since(begun).Seconds()
	e.note("All of them were started after %.1f s", f.started)
	return nil
}

// watch measures while all operations continue, and returns the time of that.
func (f *following) watch(ctx context.Context, e *environment, op *operator.Operator) (window polls.Window, err error) {
	if err := pause(ctx, settling); err != nil {
		return window, err
	}
	e.note("Measuring for %s", operationWindow)
	process := cpu.Process(op.PID())
	took, err := process.Time()
	if err != nil {
		return window, err
	}
	writes, err := statusWrites(ctx, e)
	if err != nil {
		return window, err
	}
	window = polls.Window{From: time.Now(), Late: lateAfter}
	if err := pause(ctx, operationWindow); err != nil {
		return window, err
	}
	window.To = time.Now()
	seconds := window.To.Sub(window.From).Seconds()
	tookThen, err := process.Time()
	if err != nil {
		return window, err
	}
	writesThen, err := statusWrites(ctx, e)
	f.cores, f.writesPerSecond = (tookThen-took).Seconds()/seconds, (writesThen-writes)/seconds
	return window, err
}

// cancel cancels the Backup and checks that no operation is running.
func (f *following) cancel(ctx context.Context, e *environment, b *v1alpha1.Backup) error {
	e.note("Canceling the Backup")
	begun := time.Now()
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"desiredState":"`+string(v1alpha1.DesiredStateCancel)+`"}}`))
	if err := e.client.Patch(ctx, b, patch); err != nil {
		return fmt.Errorf("canceling the Backup %s: %w", b.Name, err)
	}
	err := awaitBackup(ctx, e.client, b, func() bool {
		return b.Status.Phase == v1alpha1.RunPhaseCancelled && ended(b.GetConditions())
	})
	if err != nil {
		return err
	}
	phases, err := phasesOfOperations(ctx, e)
	if err != nil {
		return err
	}
	f.cancelled = time.Since(begun).Seconds()
	e.note("Cancelled after %.1f s: %v", f.cancelled, phases)
	if phases[v1alpha1.AsyncOperationPhaseCancelled] != f.all() {
		return fmt.Errorf("%d operations should be canceled: %v", f.all(), phases)
	}
	return nil
}

// read adds up what the plugins were asked. Each of the operations must have been
// canceled through its plugin.
func (f *following) read(e *environment, window polls.Window) error {
	for i := range f.plugins {
		events, err := polls.Read(callsOf(e, i))
		if err != nil {
			return err
		}
		if n := polls.Operations(events, polls.Cancel); n != f.each() {
			return fmt.Errorf("%s was asked to cancel %d operations of %d", operationPlugin(i), n, f.each())
		}
		if i != hanging {
			f.counts = append(f.counts, window.Count(events))
		}
	}
	return nil
}

// total adds up the polls of all plugins that do not hang.
func (f following) total() polls.Count {
	var sum polls.Count
	for _, c := range f.counts {
		sum = sum.Add(c)
	}
	return sum
}

// figures of operations.
func (f following) figures() []figure {
	var worst float64
	for _, c := range f.counts {
		worst = max(worst, c.LateShare())
	}
	late := fmt.Sprintf("polls later than %.0f s after the one before, ", lateAfter.Seconds())
	return []figure{
		newFigure(fmt.Sprintf("start of %d operations", f.all()), "s", f.started, f.startLimit.Seconds, operationWriteTarget*f.startLimit.Seconds),
		newFigure(fmt.Sprintf("cancellation of %d operations", f.all()), "s",
			f.cancelled, f.cancelLimit.Seconds, operationWriteTarget*f.cancelLimit.Seconds),
		newFigure(late+fmt.Sprintf("%d plugins", len(f.counts)), "%", f.total().LateShare(), 0, lateTarget),
		newFigure(late+"worst plugin", "%", worst, 0, lateTarget),
		newFigure(fmt.Sprintf("processor time, %d open operations", f.all()), "cores", f.cores, f.limit.Cores, operationCPUTarget),
		newFigure(fmt.Sprintf("memory growth, %d open operations", f.all()), "MiB", f.growth/mebibyte, 0, operationGrowthTarget),
		newFigure(fmt.Sprintf("status writes, %d open operations", f.all()), "1/s", f.writesPerSecond, 0, statusWriteTarget),
	}
}

// rates says in absolute numbers how the operations were followed.
func (f following) rates() string {
	gaps := f.total().Gaps
	slices.Sort(gaps)
	at := func(part float64) float64 {
		if len(gaps) == 0 {
			return 0
		}
		return gaps[int(part*float64(len(gaps)-1))].Seconds()
	}
	return fmt.Sprintf("polls of %d plugins: %.0f/s; time from one to the next of an operation: median %.1f s, 99 %% below %.1f s, longest %.1f s",
		len(f.counts), float64(len(gaps))/operationWindow.Seconds(), at(0.5), at(0.99), at(1))
}
