// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestServiceAccountAction_Execute(t *testing.T) {
	resource := schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}
	RunCases(t, NewServiceAccountAction(), map[string]Case{
		"generated tokens": {
			Resource: resource,
			Archived: `{"metadata":{"name":"robot","namespace":"a"},"secrets":[
				{"name":"robot-token-x7k2p"},{"name":"robot-token"},{"name":"other-token-x7k2p"}],"imagePullSecrets":[{"name":"hub"}]}`,
			Want: `{"metadata":{"name":"robot","namespace":"a"},"secrets":[
				{"name":"robot-token"},{"name":"other-token-x7k2p"}],"imagePullSecrets":[{"name":"hub"}]}`,
		},
		"no others": {
			Resource: resource,
			Archived: `{"metadata":{"name":"robot","namespace":"a"},"secrets":[{"name":"robot-token-x7k2p"}]}`,
			Want:     `{"metadata":{"name":"robot","namespace":"a"}}`,
		},
	})
}

func TestMergeAccount(t *testing.T) {
	const fresh = `{"metadata":{"name":"default","namespace":"a","uid":"u","resourceVersion":"7"}}`
	const full = `{"metadata":{"name":"default","resourceVersion":"7","labels":{"a":"mine"},"annotations":{"b":"mine"}},
		"secrets":[{"name":"s"}],"imagePullSecrets":[{"name":"hub"}],"automountServiceAccountToken":true}`
	for name, tc := range map[string]struct {
		existing, archived string
		want               string // empty: nothing to change
	}{
		"into a new account": {
			fresh,
			`{"metadata":{"name":"default","labels":{"a":"b"},"annotations":{"c":"d"}},"secrets":[{"name":"s"}],
				"imagePullSecrets":[{"name":"hub"}],"automountServiceAccountToken":false}`,
			`{"metadata":{"name":"default","namespace":"a","uid":"u","resourceVersion":"7","labels":{"a":"b"},"annotations":{"c":"d"}},
				"secrets":[{"name":"s"}],"imagePullSecrets":[{"name":"hub"}],"automountServiceAccountToken":false}`,
		},
		"the cluster is right": {
			full,
			`{"metadata":{"labels":{"a":"theirs"},"annotations":{"b":"theirs"}},"secrets":[{"name":"s"}],"automountServiceAccountToken":false}`,
			"",
		},
		"what is missing is added": {
			full,
			`{"metadata":{"labels":{"x.example.org/l":"1"},"annotations":{"y":"2"}},"secrets":[{"name":"s"},{"name":"t"},{"name":"t"},{},7],
				"imagePullSecrets":[{"name":"other"}]}`,
			`{"metadata":{"name":"default","resourceVersion":"7","labels":{"a":"mine","x.example.org/l":"1"},"annotations":{"b":"mine","y":"2"}},
				"secrets":[{"name":"s"},{"name":"t"}],"imagePullSecrets":[{"name":"hub"},{"name":"other"}],"automountServiceAccountToken":true}`,
		},
		"nothing to add": {fresh, `{"metadata":{"name":"default"}}`, ""},
		"the restore did not make it": {
			fresh, `{"metadata":{"labels":{"grapnel.dev/backup-name":"b","grapnel.dev/restore-name":"r"}}}`, "",
		},
		"archived nonsense": {fresh, `{"metadata":7,"secrets":{},"imagePullSecrets":"x","automountServiceAccountToken":"yes"}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			existing, archived := ParseObject(t, tc.existing), ParseObject(t, tc.archived)
			got, changed := MergeAccount(existing, archived)
			if changed != (tc.want != "") {
				t.Errorf("changed is %v, want %v", changed, tc.want != "")
			}
			want := tc.want
			if want == "" {
				want = tc.existing
			}
			if diff := cmp.Diff(ParseObject(t, want), got); diff != "" {
				t.Errorf("account (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(ParseObject(t, tc.existing), existing); diff != "" {
				t.Errorf("the existing account was changed (-before +after):\n%s", diff)
			}
			if diff := cmp.Diff(ParseObject(t, tc.archived), archived); diff != "" {
				t.Errorf("the archived account was changed (-before +after):\n%s", diff)
			}
		})
	}
}
