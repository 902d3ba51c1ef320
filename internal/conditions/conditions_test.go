// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package conditions_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
)

const (
	yes = metav1.ConditionTrue
	no  = metav1.ConditionFalse
)

func TestSetSummary(t *testing.T) {
	for name, tc := range map[string]struct {
		state                       conditions.State
		ready, reconciling, stalled metav1.ConditionStatus
	}{
		"in progress":      {state: conditions.InProgress, ready: no, reconciling: yes, stalled: no},
		"current":          {state: conditions.Current, ready: yes, reconciling: no, stalled: no},
		"stalled":          {state: conditions.Stalled, ready: no, reconciling: no, stalled: yes},
		"stalled retrying": {state: conditions.StalledRetrying, ready: no, reconciling: no, stalled: yes},
	} {
		t.Run(name, func(t *testing.T) {
			obj := &v1alpha1.Backup{}
			obj.Generation = 7
			// An earlier state must not affect the result.
			for _, earlier := range []conditions.State{conditions.Current, conditions.Stalled, conditions.InProgress} {
				conditions.SetSummary(obj, earlier, "Earlier", "earlier")
			}
			conditions.SetSummary(obj, tc.state, "Because", "it is so")

			want := map[string]metav1.Condition{}
			for conditionType, status := range map[string]metav1.ConditionStatus{
				v1alpha1.ConditionReady: tc.ready, v1alpha1.ConditionReconciling: tc.reconciling, v1alpha1.ConditionStalled: tc.stalled,
			} {
				want[conditionType] = metav1.Condition{
					Type: conditionType, Status: status, Reason: "Because", Message: "it is so", ObservedGeneration: 7,
				}
			}
			got := map[string]metav1.Condition{}
			for _, c := range obj.GetConditions() {
				if c.LastTransitionTime.IsZero() {
					t.Errorf("%s has no lastTransitionTime", c.Type)
				}
				c.LastTransitionTime = metav1.Time{}
				got[c.Type] = c
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSet_LongMessage(t *testing.T) {
	const limit = 32768 // maxLength of metav1.Condition's message.
	for name, tc := range map[string]struct{ message, want string }{
		"empty":            {},
		"at the limit":     {message: strings.Repeat("x", limit), want: strings.Repeat("x", limit)},
		"over the limit":   {message: strings.Repeat("x", limit+1), want: strings.Repeat("x", limit-3) + "…"},
		"after characters": {message: strings.Repeat("é", limit), want: strings.Repeat("é", limit/2-2) + "…"},
		"invalid UTF-8":    {message: "x\xff", want: "x\uFFFD"},
	} {
		t.Run(name, func(t *testing.T) {
			obj := &v1alpha1.Backup{}
			conditions.Set(obj, "Example", yes, "Because", tc.message)
			got := conditions.Get(obj, "Example").Message
			if got != tc.want {
				t.Errorf("message of %d bytes, want %d", len(got), len(tc.want))
			}
			if !utf8.ValidString(got) {
				t.Error("the message is not valid UTF-8")
			}
		})
	}
}

func TestSet_Replace(t *testing.T) {
	obj := &v1alpha1.Backup{}
	if conditions.Get(obj, "Example") != nil || conditions.IsTrue(obj, "Example") {
		t.Fatal("an object without conditions has one")
	}
	conditions.Set(obj, "Example", yes, "First", "first")
	conditions.Set(obj, "Other", no, "Other", "other")
	if !conditions.IsTrue(obj, "Example") {
		t.Error("Example is not true after it was set")
	}
	obj.Generation = 2
	conditions.Set(obj, "Example", no, "Second", "second")
	if conditions.IsTrue(obj, "Example") {
		t.Error("Example is still true")
	}
	got := conditions.Get(obj, "Example")
	if got.Reason != "Second" || got.Message != "second" || got.ObservedGeneration != 2 {
		t.Errorf("got %+v, want the second one", got)
	}
	if n := len(obj.GetConditions()); n != 2 {
		t.Errorf("%d conditions, want 2", n)
	}
}
