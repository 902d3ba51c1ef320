// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/rawclient"
)

const rbacGroup = "rbac.authorization.k8s.io"

var (
	accounts = schema.GroupResource{Resource: "serviceaccounts"}
	bindings = schema.GroupResource{Group: rbacGroup, Resource: "clusterrolebindings"}
	roles    = schema.GroupResource{Group: rbacGroup, Resource: "clusterroles"}
)

// ServiceAccountAction adds the objects that grant cluster-wide permissions to a
// ServiceAccount: the ClusterRoleBindings that name it, and their ClusterRoles.
type ServiceAccountAction struct {
	// relatedByAccount has the related items of each ServiceAccount by "namespace/name".
	// Prepare fills it; then it is only read.
	relatedByAccount map[string][]itemaction.RelatedItem
}

var _ itemaction.Preparer = (*ServiceAccountAction)(nil)

// NewServiceAccountAction returns the action.
func NewServiceAccountAction() *ServiceAccountAction {
	return &ServiceAccountAction{relatedByAccount: map[string][]itemaction.RelatedItem{}}
}

// Name implements itemaction.BackupAction.
func (*ServiceAccountAction) Name() string { return "grapnel.dev/service-account" }

// AppliesTo implements itemaction.BackupAction.
func (*ServiceAccountAction) AppliesTo(resource schema.GroupResource) bool {
	return resource == accounts
}

// RelatedResources implements itemaction.RelatedResourceLister.
func (*ServiceAccountAction) RelatedResources() []schema.GroupResource {
	return []schema.GroupResource{bindings, roles}
}

// Prepare implements itemaction.Preparer: it reads all ClusterRoleBindings
// once and indexes them by the ServiceAccounts that they name.
func (a *ServiceAccountAction) Prepare(ctx context.Context, reader itemaction.Reader) error {
	items, err := reader.ListAll(ctx, bindings)
	if err != nil {
		return err
	}
	for i := range items {
		if err := a.indexBinding(&items[i]); err != nil {
			return err
		}
	}
	return nil
}

// clusterRoleBinding is the part of a ClusterRoleBinding that names other objects.
type clusterRoleBinding struct {
	Subjects []struct {
		Kind      string `json:"kind"`
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"subjects"`
	RoleRef struct {
		Kind string `json:"kind"`
		Name string `json:"name"`
	} `json:"roleRef"`
}

func (a *ServiceAccountAction) indexBinding(item *rawclient.Item) error {
	var b clusterRoleBinding
	if err := json.Unmarshal(item.JSON, &b); err != nil {
		return fmt.Errorf("decoding ClusterRoleBinding %q: %w", item.Name, err)
	}
	refs := []itemaction.RelatedItem{{Resource: bindings, Name: item.Name, Item: item}}
	if b.RoleRef.Kind == "ClusterRole" {
		refs = append(refs, itemaction.RelatedItem{Resource: roles, Name: b.RoleRef.Name, Optional: true})
	}
	for _, subject := range b.Subjects {
		if subject.Kind == "ServiceAccount" {
			key := subject.Namespace + "/" + subject.Name
			a.relatedByAccount[key] = append(a.relatedByAccount[key], refs...)
		}
	}
	return nil
}

// Execute implements itemaction.BackupAction.
func (a *ServiceAccountAction) Execute(_ context.Context, item itemaction.BackupItem) (itemaction.Result, error) {
	return itemaction.Result{RelatedItems: a.relatedByAccount[item.Namespace+"/"+item.Name]}, nil
}
