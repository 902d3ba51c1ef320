// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package location

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
)

func TestSelectLocation(t *testing.T) {
	at := func(name string, marked bool) v1alpha1.BackupStorageLocation {
		l := v1alpha1.BackupStorageLocation{}
		l.Name, l.Spec.Default = name, marked
		return l
	}
	deleted := at("gone", true)
	now := metav1.Now()
	deleted.DeletionTimestamp = &now
	type list = []v1alpha1.BackupStorageLocation
	for name, tc := range map[string]struct {
		named string
		list  list
		want  string
		text  []string
	}{
		"by name":                   {named: "b", list: list{at("a", true), at("b", false)}, want: "b"},
		"the marked one":            {list: list{at("a", false), at("b", true), at("default", false)}, want: "b"},
		"the marked one, last":      {list: list{at("default", false), at("z", true)}, want: "z"},
		"the one called default":    {list: list{at("a", false), at("default", false)}, want: "default"},
		"none":                      {text: []string{"no BackupStorageLocation in this namespace", "create one"}},
		"none marked":               {list: list{at("a", false), at("b", false)}, text: []string{"spec.storageLocation", "a, b"}},
		"two marked":                {list: list{at("a", true), at("b", true)}, text: []string{"several", "a, b", "mark only one"}},
		"unknown name":              {named: "x", list: list{at("a", true)}, text: []string{`"x" does not exist`, "create it", "one of: a"}},
		"one that is being deleted": {named: "gone", list: list{deleted, at("a", true)}, text: []string{`"gone" does not exist`}},
		"marked, being deleted":     {list: list{deleted, at("a", true)}, want: "a"},
	} {
		t.Run(name, func(t *testing.T) {
			found, missing := selectLocation(tc.named, tc.list)
			switch {
			case tc.want != "" && (found == nil || found.Name != tc.want):
				t.Errorf("picked %v (%s), want %s", found, missing, tc.want)
			case tc.want == "" && found != nil:
				t.Errorf("picked %s, want none", found.Name)
			}
			for _, part := range tc.text {
				if !strings.Contains(missing, part) {
					t.Errorf("message %q, want it to contain %q", missing, part)
				}
			}
		})
	}
}

func TestChoose(t *testing.T) {
	const all = "read, delete, write"
	for name, tc := range map[string]struct {
		available, writable *metav1.Condition
		mode                v1alpha1.AccessMode
		wantUses            string
		wantProblem         string
	}{
		"usable": {available: condition("Available", metav1.ConditionTrue, ""), writable: condition("Writable", metav1.ConditionTrue, ""), wantUses: all},
		"almost full": {
			available: condition("Available", metav1.ConditionTrue, ""), writable: condition("AlmostFull", metav1.ConditionTrue, "little"), wantUses: all,
		},
		"checked by an earlier operator": {available: condition("Available", metav1.ConditionTrue, ""), wantUses: all},
		"full": {
			available: condition("Available", metav1.ConditionTrue, ""), writable: condition("Full", metav1.ConditionFalse, "delete backups"),
			wantUses: "read, delete", wantProblem: "BackupStorageLocation main cannot be used: delete backups",
		},
		"read-only": {
			available: condition("Available", metav1.ConditionTrue, ""), writable: condition("ReadOnly", metav1.ConditionFalse, ""),
			mode: v1alpha1.AccessModeReadOnly, wantUses: "read", wantProblem: "is read-only",
		},
		"unavailable": {
			available: condition("Unavailable", metav1.ConditionFalse, "no route"), writable: condition("Unavailable", metav1.ConditionFalse, ""),
			wantProblem: "no route",
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := &v1alpha1.BackupStorageLocation{ObjectMeta: metav1.ObjectMeta{Namespace: "backups", Name: "main"}}
			l.Spec.AccessMode = tc.mode
			for kind, c := range map[string]*metav1.Condition{v1alpha1.ConditionAvailable: tc.available, v1alpha1.ConditionWritable: tc.writable} {
				if c != nil {
					conditions.Set(l, kind, c.Status, c.Reason, c.Message)
				}
			}
			scheme := runtime.NewScheme()
			if err := v1alpha1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(l).Build()
			var uses []string
			for use, word := range map[Use]string{ForReading: "read", ForDeleting: "delete", ForWriting: "write"} {
				choice, err := Choose(t.Context(), reader, "backups", "main", use)
				switch {
				case err != nil:
					t.Fatal(err)
				case choice.Location != nil:
					uses = append(uses, word)
				case !strings.Contains(choice.Problem, tc.wantProblem):
					t.Errorf("%s: problem %q, want %q", word, choice.Problem, tc.wantProblem)
				}
			}
			slices.SortFunc(uses, func(a, b string) int { return strings.Index(all, a) - strings.Index(all, b) })
			if got := strings.Join(uses, ", "); got != tc.wantUses {
				t.Errorf("the location can be used to %q, want %q", got, tc.wantUses)
			}
		})
	}
}

func condition(reason string, status metav1.ConditionStatus, message string) *metav1.Condition {
	return &metav1.Condition{Reason: reason, Status: status, Message: message}
}
