// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
)

// follow watches Backups, Restores or DeletionRuns, HookRuns and AsyncOperations, starts a run with its
// name, and prints every change until there is nothing left to do.
func (d *demo) follow(ctx context.Context, kind lifecycle.KindTraits, name string, start func() error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("the %s is not done after %s", kind.Name, patience))
	defer cancel()
	subjects, err := d.client.Watch(ctx, listOf(kind), client.InNamespace(namespace))
	if err != nil {
		return fmt.Errorf("watching %ss: %w", kind.Name, err)
	}
	defer subjects.Stop()
	runs, err := d.client.Watch(ctx, &v1alpha1.HookRunList{}, client.InNamespace(namespace))
	if err != nil {
		return fmt.Errorf("watching HookRuns: %w", err)
	}
	defer runs.Stop()
	operations, err := d.client.Watch(ctx, &v1alpha1.AsyncOperationList{}, client.InNamespace(namespace))
	if err != nil {
		return fmt.Errorf("watching AsyncOperations: %w", err)
	}
	defer operations.Stop()
	if err := start(); err != nil {
		return err
	}
	d.gap()
	d.say("What `kubectl get %ss,hookruns,asyncoperations -n %s -w` sees, with the time since the start:", strings.ToLower(kind.Name), namespace)
	d.gap()
	s := story{kind: kind, name: name, print: d.storyLine, open: map[string]bool{}, said: map[string]change{}}
	for !s.over() {
		select {
		case event, ok := <-subjects.ResultChan():
			err = s.take(event, ok)
		case event, ok := <-runs.ResultChan():
			err = s.take(event, ok)
		case event, ok := <-operations.ResultChan():
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
	d.halfway[name] = s.halfway
	return nil
}

func listOf(kind lifecycle.KindTraits) client.ObjectList {
	switch kind {
	case lifecycle.RestoreKind:
		return &v1alpha1.RestoreList{}
	case lifecycle.DeletionRunKind:
		return &v1alpha1.DeletionRunList{}
	default:
		return &v1alpha1.BackupList{}
	}
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
	// kind and name are those of the run that it is about.
	kind  lifecycle.KindTraits
	name  string
	print func(change)
	began time.Time
	// settled says that the run has nothing left to do.
	settled bool
	// open are the HookRuns and AsyncOperations that have not ended.
	open map[string]bool
	// halfway is how many lines reported the progress of a running operation.
	halfway int
	said    map[string]change
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
	case lifecycle.Object:
		if object.GetName() != s.name {
			return nil
		}
		s.settled = isSettled(object)
		s.tell(s.name, change{what: s.kind.Name, name: s.name, phase: string(object.GetPhase()), text: subjectText(object)})
	case *v1alpha1.HookRun:
		if object.Spec.ParentRef.Kind != s.kind.Name || object.Spec.ParentRef.Name != s.name {
			return nil
		}
		s.opened("HookRun/"+object.Name, isFinal(object.Status.Phase))
		s.tell(object.Name, change{
			what: string(object.Spec.Hook), name: object.Spec.ActionName,
			phase: string(object.Status.Phase), text: cmp.Or(object.Status.Message, "planned"),
		})
	case *v1alpha1.AsyncOperation:
		s.takeOperation(object)
	default:
		return fmt.Errorf("the API server ended a watch: %v", event.Object)
	}
	return nil
}

// opened takes note of whether something has ended.
func (s *story) opened(key string, ended bool) {
	delete(s.open, key)
	if !ended {
		s.open[key] = true
	}
}

func (s *story) takeOperation(o *v1alpha1.AsyncOperation) {
	if o.Spec.ParentRef.Kind != s.kind.Name || o.Spec.ParentRef.Name != s.name {
		return
	}
	s.opened("AsyncOperation/"+o.Name, o.Ended())
	said := s.tell(o.Name, change{
		what: "operation", name: strings.TrimPrefix(o.Spec.Item.Namespace+"/"+o.Spec.Item.Name, "/"), phase: string(o.Status.Phase),
		text: cmp.Or(o.Status.Message, "started"),
	})
	if p := o.Status.Progress; said && !o.Ended() && p != nil && p.Completed > 0 && p.Completed < p.Total {
		s.halfway++
	}
}

// tell prints a change, unless it looks like the one before it, and reports whether it did.
func (s *story) tell(key string, c change) bool {
	key = c.what + "/" + key
	if last, found := s.said[key]; found && last == c {
		return false
	}
	s.said[key] = c
	c.since = time.Since(s.began)
	s.print(c)
	return true
}

func subjectText(s lifecycle.Object) string {
	if s.GetPhase() == "" {
		return "created"
	}
	if done, total, counted := progress(s); counted && s.GetPhase() == v1alpha1.RunPhaseInProgress {
		return fmt.Sprintf("%s (%d of %d objects)", s.Run().Message, done, total)
	}
	return s.Run().Message
}

// progress returns how many objects are done, if they are counted.
func progress(s lifecycle.Object) (done, total int64, counted bool) {
	switch s := s.(type) {
	case *v1alpha1.Backup:
		if p := s.Status.Progress; p != nil {
			return p.ItemsBackedUp, p.TotalItems, true
		}
	case *v1alpha1.Restore:
		if p := s.Status.Progress; p != nil {
			return p.ItemsRestored, p.TotalItems, true
		}
	}
	return 0, 0, false
}

// isSettled says that the operator will do nothing more for the run.
func isSettled(s lifecycle.Object) bool {
	return meta.IsStatusConditionTrue(s.GetConditions(), v1alpha1.ConditionReady) ||
		meta.IsStatusConditionTrue(s.GetConditions(), v1alpha1.ConditionStalled)
}

func isFinal(phase v1alpha1.HookRunPhase) bool {
	switch phase {
	case v1alpha1.HookRunPhaseCompleted, v1alpha1.HookRunPhaseFailed, v1alpha1.HookRunPhaseCancelled, v1alpha1.HookRunPhaseSkipped:
		return true
	default:
		return false
	}
}
