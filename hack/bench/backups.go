// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/operator"
)

// patience is how long Backups may take before the benchmark gives up.
const patience = 10 * time.Minute

// newBackup returns a Backup of namespaces, all of them if none is named.
func newBackup(name string, namespaces ...string) *v1alpha1.Backup {
	backup := &v1alpha1.Backup{
		ObjectMeta: metav1.ObjectMeta{Namespace: operator.Namespace, Name: name},
		Spec:       v1alpha1.BackupSpec{StorageLocation: locationName},
	}
	for _, n := range namespaces {
		backup.Spec.IncludedNamespaces = append(backup.Spec.IncludedNamespaces, v1alpha1.NamePattern(n))
	}
	return backup
}

// observation is what a client saw of one Backup.
type observation struct {
	// posted is when the client began to create it.
	posted time.Time
	// completed is when the client saw that it is Completed.
	completed time.Time
	// writes is how many changes of the Backup and of its HookRuns the client
	// saw, without the creation of the Backup.
	writes int
	// backup is its last state.
	backup *v1alpha1.Backup
}

// latency is the time from creation to completion as the client sees it.
func (o *observation) latency() time.Duration { return o.completed.Sub(o.posted) }

// watcher follows Backups that it has created.
type watcher struct {
	client client.WithWatch
	seen   map[string]*observation
	open   int
}

// runBackups creates Backups, all at once, and watches them until the operator
// has nothing left to do for any of them. One that is not Completed is an error.
func runBackups(ctx context.Context, c client.WithWatch, backups ...*v1alpha1.Backup) ([]*observation, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errors.New("the Backups take too long"))
	defer cancel()
	w := &watcher{client: c, seen: map[string]*observation{}, open: len(backups)}
	events, err := c.Watch(ctx, &v1alpha1.BackupList{}, client.InNamespace(operator.Namespace))
	if err != nil {
		return nil, fmt.Errorf("watching Backups: %w", err)
	}
	defer events.Stop()
	hookEvents, err := c.Watch(ctx, &v1alpha1.HookRunList{}, client.InNamespace(operator.Namespace))
	if err != nil {
		return nil, fmt.Errorf("watching HookRuns: %w", err)
	}
	defer hookEvents.Stop()

	observations := make([]*observation, len(backups))
	group, groupCtx := errgroup.WithContext(ctx)
	for i, backup := range backups {
		observations[i] = &observation{}
		w.seen[backup.Name] = observations[i]
		group.Go(func() error {
			observations[i].posted = time.Now()
			return c.Create(groupCtx, backup)
		})
	}
	group.Go(func() error { return w.follow(groupCtx, events, hookEvents) })
	if err := group.Wait(); err != nil {
		return nil, fmt.Errorf("running Backups: %w", err)
	}
	return observations, nil
}

// follow reads events until all Backups have come to their end.
func (w *watcher) follow(ctx context.Context, backups, hookRuns watch.Interface) error {
	for w.open > 0 {
		var event watch.Event
		var ok bool
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case event, ok = <-backups.ResultChan():
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
func (w *watcher) take(event watch.Event) error {
	switch o := event.Object.(type) {
	case *v1alpha1.HookRun:
		if seen := w.seen[o.Spec.Subject.Name]; seen != nil && event.Type != watch.Deleted {
			seen.writes++
		}
		return nil
	case *v1alpha1.Backup:
		if seen := w.seen[o.Name]; seen != nil {
			return w.takeBackup(seen, event.Type, o)
		}
		return nil
	}
	return fmt.Errorf("the API server ended a watch: %v", event.Object)
}

func (w *watcher) takeBackup(seen *observation, change watch.EventType, backup *v1alpha1.Backup) error {
	if change == watch.Modified {
		seen.writes++
	}
	if seen.completed.IsZero() && backup.Status.Phase == v1alpha1.BackupPhaseCompleted {
		seen.completed = time.Now()
	}
	wasOpen := seen.backup == nil || !ended(seen.backup)
	seen.backup = backup
	if !wasOpen || !ended(backup) {
		return nil
	}
	w.open--
	if seen.completed.IsZero() {
		return fmt.Errorf("the Backup %s ended as %s: %s %s %v", backup.Name, backup.Status.Phase,
			backup.Status.Message, backup.Status.FailureReason, backup.Status.ValidationErrors)
	}
	return nil
}

// ended says whether the operator has nothing left to do for a Backup.
func ended(backup *v1alpha1.Backup) bool {
	conditions := backup.Status.Conditions
	return meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionReady) ||
		meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionStalled)
}
