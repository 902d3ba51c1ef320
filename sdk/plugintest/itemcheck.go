// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package plugintest

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/grapnel-dev/grapnel/sdk/item"
)

// itemAnswer is what an action of any kind made of an object.
type itemAnswer struct {
	Item *unstructured.Unstructured
	// Refs are the objects that it named, by what they are.
	Refs   map[string][]item.Ref
	Labels map[string]string
	// Left says that the object is left out.
	Left bool
	// Converts says that the object may come back in another apiVersion or kind.
	Converts bool
	// Operation is left out when answers are compared: each call starts its own.
	Operation string
	// Waits says that AreAdditionalItemsReady is asked next.
	Waits bool
}

// itemCheck is the check of one action on items.
type itemCheck struct {
	plugin   *Plugin
	contract Contract
	action   Action
	target   itemTarget
}

func (c *itemCheck) run(t *testing.T) {
	var selector item.Selector
	t.Run("says what it applies to", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), c.contract.Patience)
		defer cancel()
		var err error
		if selector, err = c.target.AppliesTo(ctx); err != nil {
			t.Fatalf("the action failed: %v", err)
		}
		report(t, selectorProblems(selector))
		if again, err := c.target.AppliesTo(ctx); err != nil || !reflect.DeepEqual(again, selector) {
			t.Errorf("the second answer is %v (%v), the first one was %v", again, err, selector)
		}
	})
	objects := c.objects(selector)
	if len(objects) == 0 {
		t.Errorf("none of the sample objects concerns the action: set Contract.Objects")
		return
	}
	for _, object := range objects {
		t.Run(fmt.Sprintf("%s %s", object.GetKind(), object.GetName()), func(t *testing.T) { c.shows(t, object) })
	}
	t.Run("returns when its time is over", func(t *testing.T) {
		returnsInTime(t, c.plugin, c.contract.Patience, func(ctx context.Context, callID string) {
			_, _ = c.target.execute(withCallID(c.with(ctx), callID), objects[0].DeepCopy())
		})
	})
	if target, ok := c.target.(operating); ok {
		t.Run("survives an operation that it does not know", func(t *testing.T) {
			ctx, cancel := context.WithTimeout(c.with(t.Context()), c.contract.Patience)
			defer cancel()
			report(t, unknownOperationProblems(ctx, target))
		})
	}
}

func report(t *testing.T, problems []string) {
	t.Helper()
	for _, problem := range problems {
		t.Error(problem)
	}
}

func (c *itemCheck) objects(selector item.Selector) []*unstructured.Unstructured {
	if c.contract.Objects != nil {
		return c.contract.Objects(c.action)
	}
	return samplesFor(selector)
}

// with adds the author's parameters.
func (c *itemCheck) with(ctx context.Context) context.Context {
	if c.contract.Parameters == nil {
		return ctx
	}
	return WithParameters(ctx, c.contract.Parameters(c.action))
}

// shows shows one object, several times at once, and follows what was started.
func (c *itemCheck) shows(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	ctx, cancel := context.WithTimeout(c.with(t.Context()), c.contract.Patience)
	defer cancel()
	first, err := c.target.execute(ctx, object.DeepCopy())
	if err != nil {
		t.Fatalf("the action failed: %v", err)
	}
	report(t, answerProblems(object, first))
	c.follows(t, ctx, first)
	var wg sync.WaitGroup
	for range parallel {
		wg.Go(func() {
			again, err := c.target.execute(ctx, object.DeepCopy())
			if err != nil {
				t.Errorf("one of several calls at once failed: %v", err)
				return
			}
			if !first.agrees(again) {
				t.Errorf("one of several calls at once answered %+v, the first one %+v", again, first)
			}
			c.follows(t, ctx, again)
		})
	}
	wg.Wait()
}

// agrees reports whether two answers say the same. Each call starts an operation of its
// own, whose ID the object and what is archived later may carry.
func (a *itemAnswer) agrees(other *itemAnswer) bool {
	return a.anonymous() == other.anonymous()
}

// shortestID is how long an ID is that is found in other texts only where it is meant.
const shortestID = 4

// anonymous returns what an answer says as text, without the ID of its operation.
func (a *itemAnswer) anonymous() string {
	said := map[string]any{"refs": a.Refs, "labels": a.Labels, "left": a.Left, "converts": a.Converts, "waits": a.Waits}
	if a.Item != nil {
		said["item"] = a.Item.Object
	}
	text := fmt.Sprint(said) // maps are printed in the order of their keys
	if len(a.Operation) < shortestID {
		return text
	}
	return strings.ReplaceAll(text, a.Operation, "the operation")
}

// follows asks what the operator asks after an answer, and ends what was started.
func (c *itemCheck) follows(t *testing.T, ctx context.Context, answer *itemAnswer) { //nolint:revive // the test comes first
	t.Helper()
	if target, ok := c.target.(waiting); ok && answer.Waits {
		if err := target.ready(ctx, answer.Refs[additional]); err != nil {
			t.Errorf("AreAdditionalItemsReady failed: %v", err)
		}
	}
	target, ok := c.target.(operating)
	if !ok || answer.Operation == "" {
		return
	}
	report(t, operationProblems(ctx, target, answer.Operation))
}
