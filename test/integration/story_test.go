// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
)

func cancelBackup(t testing.TB, b *v1alpha1.Backup) {
	t.Helper()
	world.Patch(t, b, `{"spec":{"desiredState":"Cancel"}}`)
}

// parameter sets a parameter of an action.
func parameter(b *v1alpha1.Backup, action, key, value string) {
	if b.Spec.Parameters == nil {
		b.Spec.Parameters = map[string]v1alpha1.ParameterSet{}
	}
	b.Spec.Parameters[action] = v1alpha1.ParameterSet{key: v1alpha1.ParameterValue(value)}
}

// apply creates a Backup. When the test ends, the rules are checked for it.
func (s site) apply(t testing.TB, b *v1alpha1.Backup) *v1alpha1.Backup {
	t.Helper()
	env.Create(t, world.Client, b)
	t.Cleanup(func() { checkRules(t, s, b) })
	return b
}

// ended waits until a Backup has ended, and what it owes is done. Its HookRuns, which
// are watched by themselves, have then ended as well and are let go.
func ended(t testing.TB, b *v1alpha1.Backup) *v1alpha1.Backup {
	t.Helper()
	b = await(t, b, "it has ended and owes nothing", isDone)
	eventually(t, func() string {
		for _, run := range runsOf(b) {
			_, gone, _ := world.watched.look(run.UID)
			if !gone && (run.Status.CompletionTimestamp == nil || len(run.Finalizers) > 0 || run.Status.ObservedGeneration != run.Generation) {
				return "a HookRun is left over: " + describe(run)
			}
		}
		return ""
	})
	return b
}

// isDone reports whether nothing is left to do for a Backup.
func isDone(b *v1alpha1.Backup) bool {
	return b.Status.CompletionTimestamp != nil && len(b.Finalizers) == 0 && b.Status.ObservedGeneration == b.Generation &&
		conditionOf(b, v1alpha1.ConditionReconciling) == metav1.ConditionFalse
}

// outcome waits for the end of a Backup and checks its phase, and that its message
// contains some texts.
func outcome(t testing.TB, b *v1alpha1.Backup, phase v1alpha1.RunPhase, texts ...string) *v1alpha1.Backup {
	t.Helper()
	b = ended(t, b)
	if b.Status.Phase != phase {
		t.Fatalf("the phase is %s, want %s: %s", b.Status.Phase, phase, b.Status.Message)
	}
	for _, text := range texts {
		if !strings.Contains(b.Status.Message, text) {
			t.Errorf("the message does not say %q: %s", text, b.Status.Message)
		}
	}
	return b
}

// undisturbed checks that another Backup completes meanwhile.
func (s site) undisturbed(t testing.TB, namespace string) {
	t.Helper()
	outcome(t, s.apply(t, s.NewBackup(namespace)), v1alpha1.RunPhaseCompleted)
}

// doing waits until a Backup does something, which the reason of its root condition
// tells.
func doing(t testing.TB, b *v1alpha1.Backup, reason string) *v1alpha1.Backup {
	t.Helper()
	return await(t, b, "it is "+reason, func(b *v1alpha1.Backup) bool {
		return reasonOf(b, v1alpha1.ConditionSucceeded) == reason || reasonOf(b, v1alpha1.ConditionReconciling) == reason
	})
}

// awaitEvent waits for an event about an object that begins with a text.
func awaitEvent(t testing.TB, object client.Object, text string) {
	t.Helper()
	eventually(t, func() string {
		events := eventsOf(object)
		if slices.ContainsFunc(events, func(event string) bool { return strings.HasPrefix(event, text) }) {
			return ""
		}
		return fmt.Sprintf("no event %q among %q", text, events)
	})
}

// awaitCall waits until an action was called.
func awaitCall(t testing.TB, b *v1alpha1.Backup, point v1alpha1.HookPoint, action string) *v1alpha1.HookRun {
	t.Helper()
	return await(t, runOf(t, b, point, action), "it was called", func(run *v1alpha1.HookRun) bool {
		return run.Status.StartTimestamp != nil
	})
}

// awaitPhase waits until the HookRun of an action is in a phase.
func awaitPhase(t testing.TB, b *v1alpha1.Backup, point v1alpha1.HookPoint, action string, phase v1alpha1.HookRunPhase) {
	t.Helper()
	await(t, runOf(t, b, point, action), "it is "+string(phase), func(run *v1alpha1.HookRun) bool {
		return run.Status.Phase == phase
	})
}

func conditionOf(object conditions.Object, name string) metav1.ConditionStatus {
	if c := conditions.Get(object, name); c != nil {
		return c.Status
	}
	return ""
}

func reasonOf(object conditions.Object, name string) string {
	if c := conditions.Get(object, name); c != nil {
		return c.Reason
	}
	return ""
}
