// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// follow watches Backups and HookRuns, starts the backup, and prints every change
// until there is nothing left to do.
func (d *demo) follow(ctx context.Context, start func() error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("the backup is not done after %s", patience))
	defer cancel()
	backups, err := d.client.Watch(ctx, &v1alpha1.BackupList{}, client.InNamespace(namespace))
	if err != nil {
		return fmt.Errorf("watching Backups: %w", err)
	}
	defer backups.Stop()
	runs, err := d.client.Watch(ctx, &v1alpha1.HookRunList{}, client.InNamespace(namespace))
	if err != nil {
		return fmt.Errorf("watching HookRuns: %w", err)
	}
	defer runs.Stop()
	if err := start(); err != nil {
		return err
	}
	d.gap()
	d.say("What `kubectl get backups,hookruns -n %s -w` sees, with the time since the start:", namespace)
	d.gap()
	s := story{print: d.storyLine, open: map[string]bool{}, said: map[string]change{}}
	for !s.over() {
		select {
		case event, ok := <-backups.ResultChan():
			err = s.take(event, ok)
		case event, ok := <-runs.ResultChan():
			err = s.take(event, ok)
		case <-d.operator.Done():
			err = d.died()
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// change is one line of the story.
type change struct {
	since                   time.Duration
	what, name, phase, text string
}

func (d *demo) storyLine(c change) {
	d.say("%7.2f s  %-11s %-20s %-11s %s", c.since.Seconds(), c.what, c.name, c.phase, c.text)
}

// story turns events into lines: one for each change that a person can see.
type story struct {
	print func(change)
	began time.Time
	// settled says that the Backup has nothing left to do.
	settled bool
	// open are the HookRuns that have not ended.
	open map[string]bool
	said map[string]change
}

func (s *story) over() bool { return s.settled && len(s.open) == 0 }

func (s *story) take(event watch.Event, ok bool) error {
	if !ok {
		return errors.New("the API server ended a watch")
	}
	if s.began.IsZero() {
		s.began = time.Now()
	}
	switch object := event.Object.(type) {
	case *v1alpha1.Backup:
		s.settled = isSettled(object)
		s.tell(object.Name, change{what: "Backup", name: object.Name, phase: string(object.Status.Phase), text: backupText(object)})
	case *v1alpha1.HookRun:
		delete(s.open, object.Name)
		if !isFinal(object.Status.Phase) {
			s.open[object.Name] = true
		}
		s.tell(object.Name, change{
			what: string(object.Spec.Hook), name: object.Spec.PluginName,
			phase: string(object.Status.Phase), text: cmp.Or(object.Status.Message, "planned"),
		})
	default:
		return fmt.Errorf("the API server ended a watch: %v", event.Object)
	}
	return nil
}

// tell prints a change, unless it looks like the one before it.
func (s *story) tell(key string, c change) {
	key = c.what + "/" + key
	if last, found := s.said[key]; found && last == c {
		return
	}
	s.said[key] = c
	c.since = time.Since(s.began)
	s.print(c)
}

func backupText(b *v1alpha1.Backup) string {
	if b.Status.Phase == "" {
		return "created"
	}
	if p := b.Status.Progress; p != nil && b.Status.Phase == v1alpha1.BackupPhaseInProgress {
		return fmt.Sprintf("%s (%d of %d objects)", b.Status.Message, p.ItemsBackedUp, p.TotalItems)
	}
	return b.Status.Message
}

// isSettled says that the operator will do nothing more for the Backup.
func isSettled(b *v1alpha1.Backup) bool {
	return meta.IsStatusConditionTrue(b.Status.Conditions, v1alpha1.ConditionReady) ||
		meta.IsStatusConditionTrue(b.Status.Conditions, v1alpha1.ConditionStalled)
}

func isFinal(phase v1alpha1.HookRunPhase) bool {
	switch phase {
	case v1alpha1.HookRunPhaseCompleted, v1alpha1.HookRunPhaseFailed, v1alpha1.HookRunPhaseCancelled, v1alpha1.HookRunPhaseSkipped:
		return true
	default:
		return false
	}
}
