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

// itemAnswer is the response of an action of any kind for one object.
type itemAnswer struct {
	Item *unstructured.Unstructured
	// Refs are the objects that it named, by their role.
	Refs   map[string][]item.Ref
	Labels map[string]string
	// SkipRestore means that the object is not restored.
	SkipRestore bool
	// Converts means that the object may be returned with another apiVersion or kind.
	Converts bool
	// OperationID is ignored when responses are compared: each call starts its own
	// operation.
	OperationID string
	// WaitForAdditionalItems means that AreAdditionalItemsReady is called next.
	WaitForAdditionalItems bool
}

// itemCheck is the check of one action on items.
type itemCheck struct {
	plugin   *Plugin
	contract Contract
	action   Action
	target   itemTarget
}

func (c *itemCheck) runSubtests(t *testing.T) {
	var selector item.Selector
	t.Run("selects items", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), c.contract.Patience)
		defer cancel()
		var err error
		if selector, err = c.target.AppliesTo(ctx); err != nil {
			t.Fatalf("the action failed: %v", err)
		}
		reportProblems(t, selectorProblems(selector))
		if again, err := c.target.AppliesTo(ctx); err != nil || !reflect.DeepEqual(again, selector) {
			t.Errorf("the second response is %v (%v), the first one was %v", again, err, selector)
		}
	})
	objects := c.objectsToCheck(selector)
	if len(objects) == 0 {
		t.Errorf("the action applies to none of the sample objects: set Contract.Objects")
		return
	}
	for _, object := range objects {
		t.Run(fmt.Sprintf("%s %s", object.GetKind(), object.GetName()), func(t *testing.T) { c.checkAnswersForObject(t, object) })
	}
	t.Run("returns when its time is over", func(t *testing.T) {
		checkReturnsInTime(t, c.plugin, c.contract.Patience, func(ctx context.Context, callID string) {
			_, _ = c.target.executeActionOnItem(withCallID(c.withParameters(ctx), callID), objects[0].DeepCopy())
		})
	})
	if target, ok := c.target.(operationTarget); ok {
		t.Run("handles an unknown operation", func(t *testing.T) {
			ctx, cancel := context.WithTimeout(c.withParameters(t.Context()), c.contract.Patience)
			defer cancel()
			reportProblems(t, unknownOperationProblems(ctx, target))
		})
	}
}

func reportProblems(t *testing.T, problems []string) {
	t.Helper()
	for _, problem := range problems {
		t.Error(problem)
	}
}

func (c *itemCheck) objectsToCheck(selector item.Selector) []*unstructured.Unstructured {
	if c.contract.Objects != nil {
		return c.contract.Objects(c.action)
	}
	return samplesMatching(selector)
}

// withParameters adds the author's parameters.
func (c *itemCheck) withParameters(ctx context.Context) context.Context {
	if c.contract.Parameters == nil {
		return ctx
	}
	return WithParameters(ctx, c.contract.Parameters(c.action))
}

// checkAnswersForObject calls the action several times concurrently for one object, and checks
// the operations that were started.
func (c *itemCheck) checkAnswersForObject(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	ctx, cancel := context.WithTimeout(c.withParameters(t.Context()), c.contract.Patience)
	defer cancel()
	first, err := c.target.executeActionOnItem(ctx, object.DeepCopy())
	if err != nil {
		t.Fatalf("the action failed: %v", err)
	}
	reportProblems(t, answerProblems(object, first))
	c.checkFollowUpCalls(t, ctx, first)
	var wg sync.WaitGroup
	for range parallelRuns {
		wg.Go(func() {
			again, err := c.target.executeActionOnItem(ctx, object.DeepCopy())
			if err != nil {
				t.Errorf("one of several concurrent calls failed: %v", err)
				return
			}
			if !first.isEquivalentTo(again) {
				t.Errorf("one of several concurrent calls returned %+v, the first one %+v", again, first)
			}
			c.checkFollowUpCalls(t, ctx, again)
		})
	}
	wg.Wait()
}

// isEquivalentTo reports whether two responses are equivalent. Each call starts its own
// operation. The object and the post-operation items may contain its ID.
func (a *itemAnswer) isEquivalentTo(other *itemAnswer) bool {
	return a.textWithoutOperationID() == other.textWithoutOperationID()
}

// minReplacedIDLength is the minimum length of an ID that is replaced: shorter IDs occur in
// other texts by chance.
const minReplacedIDLength = 4

// textWithoutOperationID returns a response as text, without the ID of its operation.
func (a *itemAnswer) textWithoutOperationID() string {
	said := map[string]any{"refs": a.Refs, "labels": a.Labels, "left": a.SkipRestore, "converts": a.Converts, "waits": a.WaitForAdditionalItems}
	if a.Item != nil {
		said["item"] = a.Item.Object
	}
	text := fmt.Sprint(said) // maps are printed in the order of their keys
	if len(a.OperationID) < minReplacedIDLength {
		return text
	}
	return strings.ReplaceAll(text, a.OperationID, "the operation")
}

// checkFollowUpCalls makes the calls that the operator makes after a response, and cancels
// the operation.
func (c *itemCheck) checkFollowUpCalls(t *testing.T, ctx context.Context, answer *itemAnswer) { //nolint:revive // the test comes first
	t.Helper()
	if target, ok := c.target.(readinessTarget); ok && answer.WaitForAdditionalItems {
		if err := target.checkItemsReady(ctx, answer.Refs[additionalRefs]); err != nil {
			t.Errorf("AreAdditionalItemsReady failed: %v", err)
		}
	}
	target, ok := c.target.(operationTarget)
	if !ok || answer.OperationID == "" {
		return
	}
	reportProblems(t, operationProblems(ctx, target, answer.OperationID))
}
