// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/internal/restore"
)

func TestOrder_Text(t *testing.T) {
	for text, want := range map[string]restore.Order{
		"":                      {},
		"-":                     {},
		"secrets":               {High: []string{"secrets"}},
		"secrets, pods,-,a.b.c": {High: []string{"secrets", "pods"}, Low: []string{"a.b.c"}},
		"-,services":            {Low: []string{"services"}},
	} {
		got := restore.DefaultOrder()
		if err := got.UnmarshalText([]byte(text)); err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
	for text, want := range map[string]string{
		"pods,": "empty entry", ",": "empty entry", "a,-,b,-,c": `"-" occurs twice`, "pods,-,pods": `"pods" occurs twice`,
	} {
		kept := restore.Order{High: []string{"kept"}}
		err := kept.UnmarshalText([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) || len(kept.High) != 1 {
			t.Errorf("%q: %v and %v, want %q and nothing changed", text, err, kept, want)
		}
	}
	usual := restore.DefaultOrder()
	text, err := usual.MarshalText()
	var again restore.Order
	if err != nil || again.UnmarshalText(text) != nil || !cmp.Equal(usual, again) {
		t.Errorf("the default order is %s as text, and then %v (%v)", text, again, err)
	}
}

// TestDefaultOrder_PoliciesLast: policies that may reject the operator's own requests come
// after everything else, and a policy before its binding.
func TestDefaultOrder_PoliciesLast(t *testing.T) {
	low := restore.DefaultOrder().Low
	const group = ".admissionregistration.k8s.io"
	want := []string{
		"validatingadmissionpolicies" + group, "mutatingadmissionpolicies" + group,
		"validatingadmissionpolicybindings" + group, "mutatingadmissionpolicybindings" + group,
		"mutatingwebhookconfigurations" + group, "validatingwebhookconfigurations" + group,
	}
	if diff := cmp.Diff(want, low[max(0, len(low)-len(want)):]); diff != "" {
		t.Errorf("the last kinds (-want +got):\n%s", diff)
	}
}
