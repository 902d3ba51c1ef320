// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	toolswatch "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/operator"
)

// patience is how long runs may take before the benchmark gives up.
const patience = 30 * time.Minute

// subject is a Backup or a Restore.
type subject interface {
	client.Object
	GetPhase() v1alpha1.RunPhase
	GetConditions() []metav1.Condition
	Run() *v1alpha1.RunStatus
}

// observation is what a client saw of one run.
type observation[T subject] struct {
	// posted is when the client began to create it.
	posted time.Time
	// completed is when the client saw that it is Completed.
	completed time.Time
	// writes is how many changes of the run and of its HookRuns the client saw,
	// without its creation.
	writes int
	// ended says that the operator has nothing left to do for it.
	ended bool
	// last is its last state.
	last T
}

// latency is the time from creation to completion as the client sees it.
func (o *observation[T]) latency() time.Duration { return o.completed.Sub(o.posted) }

// watcher follows runs that it has created.
type watcher[T subject] struct {
	seen map[string]*observation[T]
	open int
}

// runAll creates Backups or Restores, all at once, and watches them until the
// operator has nothing left to do for any of them. One that is not Completed is
// an error.
func runAll[T subject](ctx context.Context, c client.WithWatch, list client.ObjectList, subjects ...T) ([]*observation[T], error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errors.New("the runs take too long"))
	defer cancel()
	w := &watcher[T]{seen: map[string]*observation[T]{}, open: len(subjects)}
	events, err := watchFromNow(ctx, c, list, client.InNamespace(operator.Namespace))
	if err != nil {
		return nil, err
	}
	defer events.Stop()
	hookEvents, err := watchFromNow(ctx, c, &v1alpha1.HookRunList{}, client.InNamespace(operator.Namespace))
	if err != nil {
		return nil, err
	}
	defer hookEvents.Stop()

	observations := make([]*observation[T], len(subjects))
	group, groupCtx := errgroup.WithContext(ctx)
	for i, s := range subjects {
		observations[i] = &observation[T]{}
		w.seen[s.GetName()] = observations[i]
		group.Go(func() error {
			observations[i].posted = time.Now()
			return c.Create(groupCtx, s)
		})
	}
	group.Go(func() error { return w.follow(groupCtx, events, hookEvents) })
	if err := group.Wait(); err != nil {
		return nil, fmt.Errorf("running %T: %w", subjects[0], err)
	}
	return observations, nil
}

// watchFromNow reads the objects that there are into the list, and watches from then on. The
// API server may end a watch at any time, and does so if a client is too slow; it continues
// then where it was, so that no change is left out.
func watchFromNow(ctx context.Context, c client.WithWatch, list client.ObjectList, of ...client.ListOption) (watch.Interface, error) {
	if err := c.List(ctx, list, of...); err != nil {
		return nil, fmt.Errorf("reading %T before watching: %w", list, err)
	}
	watches := &cache.ListWatch{WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
		return c.Watch(ctx, list, append(slices.Clone(of), &client.ListOptions{Raw: &options})...)
	}}
	events, err := toolswatch.NewRetryWatcherWithContext(ctx, list.GetResourceVersion(), watches)
	if err != nil {
		return nil, fmt.Errorf("watching %T: %w", list, err)
	}
	return events, nil
}

// await waits until an object is as wanted, one of those that there are or that come. The
// error is that of wanted, or why ctx has ended.
func await[T client.Object](
	ctx context.Context, c client.WithWatch, list client.ObjectList, wanted func(T) (bool, error), of ...client.ListOption,
) error {
	events, err := watchFromNow(ctx, c, list, of...)
	if err != nil {
		return err
	}
	defer events.Stop()
	there, err := meta.ExtractList(list)
	if err != nil {
		return fmt.Errorf("reading %T: %w", list, err)
	}
	for _, object := range there {
		if o, ok := object.(T); ok {
			if is, err := wanted(o); is || err != nil {
				return err
			}
		}
	}
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case event := <-events.ResultChan():
			o, ok := event.Object.(T)
			if !ok {
				return errors.Join(context.Cause(ctx), fmt.Errorf("the API server ended a watch: %v", event.Object))
			}
			if is, err := wanted(o); is || err != nil {
				return err
			}
		}
	}
}

// follow reads events until all runs have come to their end.
func (w *watcher[T]) follow(ctx context.Context, subjects, hookRuns watch.Interface) error {
	for w.open > 0 {
		var event watch.Event
		var ok bool
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case event, ok = <-subjects.ResultChan():
		case event, ok = <-hookRuns.ResultChan():
		}
		if !ok {
			return errors.New("the API server ended a watch")
		}
		if err := w.take(event); err != nil {
			return err
		}
	}
	return nil
}

// take notes one event.
func (w *watcher[T]) take(event watch.Event) error {
	switch o := event.Object.(type) {
	case *v1alpha1.HookRun:
		if seen := w.seen[o.Spec.ParentRef.Name]; seen != nil && event.Type != watch.Deleted {
			seen.writes++
		}
		return nil
	case T:
		if seen := w.seen[o.GetName()]; seen != nil {
			return w.takeRun(seen, event.Type, o)
		}
		return nil
	}
	return fmt.Errorf("the API server ended a watch: %v", event.Object)
}

func (w *watcher[T]) takeRun(seen *observation[T], change watch.EventType, run T) error {
	if change == watch.Modified {
		seen.writes++
	}
	if seen.completed.IsZero() && run.GetPhase() == v1alpha1.RunPhaseCompleted {
		seen.completed = time.Now()
	}
	seen.last = run
	if seen.ended || !ended(run.GetConditions()) {
		return nil
	}
	seen.ended = true
	w.open--
	if seen.completed.IsZero() {
		status := run.Run()
		return fmt.Errorf("%s ended as %s: %s %s %v", run.GetName(), run.GetPhase(),
			status.Message, status.FailureReason, status.ValidationErrors)
	}
	return nil
}

// ended reports whether the operator has nothing left to do for a run.
func ended(conditions []metav1.Condition) bool {
	return meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionReady) ||
		meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionStalled)
}
