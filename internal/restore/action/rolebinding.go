// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
)

const (
	userPrefix  = "system:serviceaccount:"
	groupPrefix = "system:serviceaccounts:"
)

// RoleBindingAction applies the namespace mapping to the subjects of RoleBindings and
// ClusterRoleBindings: ServiceAccounts, and the users and groups that represent them.
// Otherwise a mapped workload would have no permissions, and a later owner of the old
// namespace would have them.
type RoleBindingAction struct{}

var _ itemaction.RestoreAction = RoleBindingAction{}

// NewRoleBindingAction returns the action.
func NewRoleBindingAction() RoleBindingAction { return RoleBindingAction{} }

// Name implements itemaction.RestoreAction.
func (RoleBindingAction) Name() string { return "grapnel.dev/role-binding" }

// AppliesTo implements itemaction.RestoreAction.
func (RoleBindingAction) AppliesTo(resource schema.GroupResource) bool {
	return resource.Group == "rbac.authorization.k8s.io" &&
		(resource.Resource == "rolebindings" || resource.Resource == "clusterrolebindings")
}

// Execute implements itemaction.RestoreAction.
func (RoleBindingAction) Execute(_ context.Context, item *itemaction.RestoreItem) (itemaction.Result, error) {
	for subject := range EachMap(item.Object.Object, "subjects") {
		mapSubjectNamespace(subject, item.Restore)
	}
	return itemaction.Result{}, nil
}

func mapSubjectNamespace(subject map[string]any, run *itemaction.RestoreContext) {
	name := Get[string](subject, "name")
	switch Get[string](subject, "kind") {
	case "ServiceAccount":
		if namespace := Get[string](subject, "namespace"); namespace != "" {
			subject["namespace"] = run.MapNamespace(namespace)
		}
	case "User":
		rest, isAccount := strings.CutPrefix(name, userPrefix)
		namespace, account, complete := strings.Cut(rest, ":")
		if isAccount && complete {
			subject["name"] = userPrefix + run.MapNamespace(namespace) + ":" + account
		}
	case "Group":
		if namespace, ok := strings.CutPrefix(name, groupPrefix); ok {
			subject["name"] = groupPrefix + run.MapNamespace(namespace)
		}
	}
}
