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
	// SkipRestore says that the object is left out.
	SkipRestore bool
	// Converts says that the object may come back in another apiVersion or kind.
	Converts bool
	// OperationID is left out when answers are compared: each call starts its own.
	OperationID string
	// WaitForAdditionalItems says that AreAdditionalItemsReady is asked next.
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
	t.Run("says what it applies to", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), c.contract.Patience)
		defer cancel()
		var err error
		if selector, err = c.target.AppliesTo(ctx); err != nil {
			t.Fatalf("the action failed: %v", err)
		}
		reportProblems(t, selectorProblems(selector))
		if again, err := c.target.AppliesTo(ctx); err != nil || !reflect.DeepEqual(again, selector) {
			t.Errorf("the second answer is %v (%v), the first one was %v", again, err, selector)
		}
	})
	objects := c.objectsToCheck(selector)
	if len(objects) == 0 {
		t.Errorf("none of the sample objects concerns the action: set Contract.Objects")
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
		t.Run("survives an operation that it does not know", func(t *testing.T) {
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

// checkAnswersForObject shows one object, several times at once, and follows what was started.
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
				t.Errorf("one of several calls at once failed: %v", err)
				return
			}
			if !first.isEquivalentTo(again) {
				t.Errorf("one of several calls at once answered %+v, the first one %+v", again, first)
			}
			c.checkFollowUpCalls(t, ctx, again)
		})
	}
	wg.Wait()
}

// isEquivalentTo reports whether two answers say the same. Each call starts an operation of its
// own, whose ID the object and what is archived later may carry.
func (a *itemAnswer) isEquivalentTo(other *itemAnswer) bool {
	return a.textWithoutOperationID() == other.textWithoutOperationID()
}

// minReplacedIDLength is how long an ID is that is found in other texts only where it is meant.
const minReplacedIDLength = 4

// textWithoutOperationID returns what an answer says as text, without the ID of its operation.
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

// checkFollowUpCalls asks what the operator asks after an answer, and ends what was started.
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
