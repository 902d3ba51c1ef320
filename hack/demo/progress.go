// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// startRun starts a run with a command; an empty name means the first run of its kind. It prints the
// progress of the run, its HookRuns and its AsyncOperations until all of them are done.
func (d *demo) startRun(ctx context.Context, kind, name, command string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("the %s is not done after %s", kind, timeout))
	defer cancel()
	events := make(chan watch.Event)
	for _, watched := range []string{kind, "HookRun", "AsyncOperation"} {
		if err := d.forwardEvents(ctx, watched, events); err != nil {
			return err
		}
	}
	if err := d.runCommands(ctx, command); err != nil {
		return err
	}
	fmt.Println()
	p := progress{kind: kind, name: name, start: time.Now(), lines: map[string]string{}, pending: map[string]bool{kind + "/" + name: true}}
	for len(p.pending) > 0 {
		select {
		case event := <-events:
			object, ok := event.Object.(*unstructured.Unstructured)
			if !ok {
				return fmt.Errorf("the API server ended a watch: %v", event.Object)
			}
			p.observe(object)
		case <-d.operator.Done():
			return d.operatorExited()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	d.progressLines = p.progressLines
	return nil
}

// forwardEvents watches a kind until the context ends.
func (d *demo) forwardEvents(ctx context.Context, kind string, events chan<- watch.Event) error {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind + "List"))
	watcher, err := d.client.Watch(ctx, list, client.InNamespace(namespace))
	if err != nil {
		return fmt.Errorf("watching %ss: %w", kind, err)
	}
	go func() {
		defer watcher.Stop()
		for {
			event := <-watcher.ResultChan() // the zero value, if the watch has ended
			select {
			case events <- event:
			case <-ctx.Done():
				return
			}
			if event.Object == nil {
				return
			}
		}
	}()
	return nil
}

// progress prints one line for each visible change of a run and of the objects that belong to it.
type progress struct {
	kind, name string
	start      time.Time
	// lines has the last line of each object.
	lines map[string]string
	// pending has the objects that are not done.
	pending map[string]bool
	// progressLines counts the lines that showed an operation in the middle of its work.
	progressLines int
}

func (p *progress) observe(object *unstructured.Unstructured) {
	field := func(path ...string) string {
		value, _, _ := unstructured.NestedFieldNoCopy(object.Object, path...)
		if value == nil {
			return ""
		}
		return fmt.Sprint(value)
	}
	what, name := object.GetKind(), object.GetName()
	switch {
	case what == p.kind && p.name == "":
		delete(p.pending, what+"/")
		p.name = name
	case what == p.kind && name == p.name:
	case field("spec", "parentRef", "kind") != p.kind || field("spec", "parentRef", "name") != p.name:
		return
	case what == "HookRun":
		what, name = field("spec", "hook"), field("spec", "actionName")
	default:
		name = field("spec", "item", "namespace") + "/" + field("spec", "item", "name")
	}
	key := object.GetKind() + "/" + object.GetName()
	delete(p.pending, key)
	done := isDone(object)
	if !done {
		p.pending[key] = true
	}
	line := fmt.Sprintf("%-14s  %-25s  %-26s  %s", what, name, cmp.Or(field("status", "phase"), "New"), field("status", "message"))
	if p.lines[key] == line {
		return
	}
	p.lines[key] = line
	printLine("%6.2f s  %s", time.Since(p.start).Seconds(), line)
	if completed := field("status", "progress", "completed"); !done && completed != "" && completed != "0" {
		p.progressLines++
	}
}

// isDone reports whether the operator has nothing left to do for an object.
func isDone(object *unstructured.Unstructured) bool {
	list, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, item := range list {
		condition, _ := item.(map[string]any)
		if (condition["type"] == v1alpha1.ConditionReady || condition["type"] == v1alpha1.ConditionStalled) && condition["status"] == "True" {
			return true
		}
	}
	return false
}
