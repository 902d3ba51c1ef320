// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
)

func TestRoleBindingAction_Execute(t *testing.T) {
	const group = "rbac.authorization.k8s.io"
	bindings := schema.GroupVersionResource{Group: group, Version: "v1", Resource: "rolebindings"}
	clusterBindings := schema.GroupVersionResource{Group: group, Version: "v1", Resource: "clusterrolebindings"}
	run := itemaction.RestoreContext{NamespaceMapping: map[string]string{"a": "b", "b": "c"}}
	const subjects = `[
		{"kind":"ServiceAccount","namespace":"a","name":"app"},
		{"kind":"ServiceAccount","namespace":"b","name":"app"},
		{"kind":"ServiceAccount","namespace":"other","name":"app"},
		{"kind":"ServiceAccount","name":"in-the-namespace-of-the-binding"},
		{"kind":"User","name":"system:serviceaccount:a:app"},
		{"kind":"User","name":"system:serviceaccount:a"},
		{"kind":"User","name":"a"},
		{"kind":"Group","name":"system:serviceaccounts:a"},
		{"kind":"Group","name":"system:serviceaccounts"},
		{"kind":"Group","name":"a"}]`
	const mapped = `[
		{"kind":"ServiceAccount","namespace":"b","name":"app"},
		{"kind":"ServiceAccount","namespace":"c","name":"app"},
		{"kind":"ServiceAccount","namespace":"other","name":"app"},
		{"kind":"ServiceAccount","name":"in-the-namespace-of-the-binding"},
		{"kind":"User","name":"system:serviceaccount:b:app"},
		{"kind":"User","name":"system:serviceaccount:a"},
		{"kind":"User","name":"a"},
		{"kind":"Group","name":"system:serviceaccounts:b"},
		{"kind":"Group","name":"system:serviceaccounts"},
		{"kind":"Group","name":"a"}]`
	RunCases(t, NewRoleBindingAction(), map[string]Case{
		"RoleBinding": {
			Resource: bindings, Restore: run,
			Archived: `{"metadata":{"name":"x","namespace":"a"},"roleRef":{"kind":"Role","name":"r"},"subjects":` + subjects + `}`,
			Want:     `{"metadata":{"name":"x","namespace":"b"},"roleRef":{"kind":"Role","name":"r"},"subjects":` + mapped + `}`,
		},
		"ClusterRoleBinding": {
			Resource: clusterBindings, Restore: run,
			Archived: `{"metadata":{"name":"x"},"subjects":` + subjects + `}`,
			Want:     `{"metadata":{"name":"x"},"subjects":` + mapped + `}`,
		},
		"nothing mapped": {
			Resource: clusterBindings,
			Archived: `{"metadata":{"name":"x"},"subjects":` + subjects + `}`,
			Want:     `{"metadata":{"name":"x"},"subjects":` + subjects + `}`,
		},
	})
}
