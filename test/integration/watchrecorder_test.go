// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// watchRecorder keeps every version of every object of some kinds, as the API server
// reported them. It is safe for concurrent use; what it returns must not be changed.
type watchRecorder struct {
	mu       sync.Mutex
	versions map[types.UID][]client.Object
	gone     map[types.UID]bool
	// changed is closed, and replaced, whenever something comes in.
	changed chan struct{}
}

func newWatchRecorder() *watchRecorder {
	return &watchRecorder{versions: map[types.UID][]client.Object{}, gone: map[types.UID]bool{}, changed: make(chan struct{})}
}

// record watches kinds until ctx ends.
func (c *watchRecorder) record(ctx context.Context, from client.WithWatch, lists ...client.ObjectList) error {
	for _, list := range lists {
		watching, err := from.Watch(ctx, list)
		if err != nil {
			return fmt.Errorf("watching %T: %w", list, err)
		}
		go func() {
			last := ""
			for ctx.Err() == nil {
				if watching != nil {
					last = c.follow(watching, last)
				}
				// A busy API server ends the watches of those that do not keep up.
				again := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: last}}
				if watching, err = from.Watch(ctx, list, again); err != nil {
					watching, last = nil, ""
				}
			}
		}()
	}
	return nil
}

// follow adds the events of a watch until it ends, and returns the last version.
func (c *watchRecorder) follow(watching watch.Interface, last string) string {
	defer watching.Stop()
	for event := range watching.ResultChan() {
		if event.Type == watch.Error {
			return "" // the version is too old: it begins with what there is
		}
		if object, ok := event.Object.(client.Object); ok {
			c.add(object, event.Type == watch.Deleted)
			last = object.GetResourceVersion()
		}
	}
	return last
}

func (c *watchRecorder) add(object client.Object, deleted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	uid := object.GetUID()
	for _, known := range c.versions[uid] {
		if known.GetResourceVersion() == object.GetResourceVersion() {
			return // a watch that restarted reports it again
		}
	}
	c.versions[uid] = append(c.versions[uid], object)
	c.gone[uid] = deleted
	close(c.changed)
	c.changed = make(chan struct{})
}

// look returns all versions of an object, whether it was deleted, and what is closed
// when there is something new.
func (c *watchRecorder) look(uid types.UID) (versions []client.Object, gone bool, changed <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.versions[uid]), c.gone[uid], c.changed
}

// all returns the last version of every object of a type, including deleted ones.
func all[T client.Object](c *watchRecorder) []T {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []T
	for _, versions := range c.versions {
		if object, ok := versions[len(versions)-1].(T); ok {
			list = append(list, object)
		}
	}
	return list
}

// history returns all versions of an object.
func history[T client.Object](object T) []T {
	versions, _, _ := world.watched.look(object.GetUID())
	list := make([]T, len(versions))
	for i, version := range versions {
		list[i] = version.(T)
	}
	return list
}

// latest returns the last version of an object.
func latest[T client.Object](object T) T {
	versions := history(object)
	if len(versions) == 0 {
		return object
	}
	return versions[len(versions)-1]
}

// await waits until there was a version of the object as a test wants it, and
// returns the first such version.
func await[T client.Object](t testing.TB, object T, what string, right func(T) bool) T {
	t.Helper()
	var found T
	eventually(t, func() string {
		for _, version := range history(object) {
			if right(version) {
				found = version
				return ""
			}
		}
		return fmt.Sprintf("%s %s never was so: %s\n%s", kindOf(object), object.GetName(), what, describe(object))
	})
	return found
}

// awaitGone waits until an object is no more.
func awaitGone(t testing.TB, object client.Object) {
	t.Helper()
	eventually(t, func() string {
		if _, gone, _ := world.watched.look(object.GetUID()); gone {
			return ""
		}
		return fmt.Sprintf("%s %s is still there\n%s", kindOf(object), object.GetName(), describe(object))
	})
}

// eventually waits until wrong returns "", looking again whenever something changed.
// It also works in the clean-up of a test.
func eventually(t testing.TB, wrong func() string) {
	t.Helper()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		_, _, changed := world.watched.look("")
		last := wrong()
		if last == "" {
			return
		}
		select {
		case <-changed:
		case <-timeout.C:
			t.Fatalf("waited in vain: %s", last)
		}
	}
}

// describe returns everything about the last version of an object, for failures.
func describe[T client.Object](object T) string {
	last := latest(object).DeepCopyObject().(client.Object)
	last.SetManagedFields(nil)
	text, err := json.MarshalIndent(last, "", " ")
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func kindOf(object client.Object) string {
	switch object.(type) {
	case *v1alpha1.Backup:
		return "Backup"
	case *v1alpha1.HookRun:
		return "HookRun"
	default:
		return fmt.Sprintf("%T", object)
	}
}

// eventsOf returns the events about an object as "Type Reason: note".
func eventsOf(object client.Object) []string {
	var texts []string
	for _, event := range all[*eventsv1.Event](world.watched) {
		if event.Regarding.UID == object.GetUID() {
			texts = append(texts, fmt.Sprintf("%s %s: %s", event.Type, event.Reason, event.Note))
		}
	}
	return texts
}

// runsOf returns the last versions of the HookRuns of a Backup, in no order.
func runsOf(b *v1alpha1.Backup) []*v1alpha1.HookRun {
	return slices.DeleteFunc(all[*v1alpha1.HookRun](world.watched), func(run *v1alpha1.HookRun) bool {
		return run.Spec.ParentRef.UID != string(b.UID)
	})
}

// runOf waits for the HookRun of an action and returns its last version.
func runOf(t testing.TB, b *v1alpha1.Backup, point v1alpha1.HookPoint, action string) *v1alpha1.HookRun {
	t.Helper()
	var found *v1alpha1.HookRun
	eventually(t, func() string {
		for _, run := range runsOf(b) {
			if run.Spec.Hook == point && run.Spec.ActionName == action {
				found = run
				return ""
			}
		}
		return fmt.Sprintf("there is no HookRun of %s %s\n%s", point, action, describe(b))
	})
	return found
}
