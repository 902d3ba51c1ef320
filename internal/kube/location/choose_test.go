// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package location

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

func TestPick(t *testing.T) {
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
		"by name":                    {named: "b", list: list{at("a", true), at("b", false)}, want: "b"},
		"the marked one":             {list: list{at("a", false), at("b", true), at("default", false)}, want: "b"},
		"the marked one, last":       {list: list{at("default", false), at("z", true)}, want: "z"},
		"the one called default":     {list: list{at("a", false), at("default", false)}, want: "default"},
		"none":                       {text: []string{"no BackupStorageLocation in this namespace", "create one"}},
		"none marked":                {list: list{at("a", false), at("b", false)}, text: []string{"spec.storageLocation", "a, b"}},
		"two marked":                 {list: list{at("a", true), at("b", true)}, text: []string{"several", "a, b", "mark one"}},
		"unknown name":               {named: "x", list: list{at("a", true)}, text: []string{`"x" does not exist`, "create it", "one of: a"}},
		"one that is being deleted":  {named: "gone", list: list{deleted, at("a", true)}, text: []string{`"gone" does not exist`}},
		"a marked one that is going": {list: list{deleted, at("a", true)}, want: "a"},
	} {
		t.Run(name, func(t *testing.T) {
			found, missing := pick(tc.named, tc.list)
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
