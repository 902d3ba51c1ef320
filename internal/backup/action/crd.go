// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"context"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
)

var definitions = schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}

// CRDAction adds the CustomResourceDefinition of a custom resource.
type CRDAction struct {
	// namedDefinitions has the resources whose definition was already returned.
	namedDefinitions sync.Map
}

var _ itemaction.BackupAction = (*CRDAction)(nil)

// NewCRDAction returns the action. It returns the definition once per resource.
func NewCRDAction() *CRDAction { return &CRDAction{} }

// Name implements itemaction.BackupAction.
func (*CRDAction) Name() string { return "grapnel.dev/crd" }

// AppliesTo implements itemaction.BackupAction. Whether a resource is a custom one is only known
// after a lookup of its definition. This excludes the groups for which that is never the
// case.
func (*CRDAction) AppliesTo(resource schema.GroupResource) bool {
	return !isBuiltinGroup(resource.Group)
}

// RelatedResources implements itemaction.RelatedResourceLister.
func (*CRDAction) RelatedResources() []schema.GroupResource {
	return []schema.GroupResource{definitions}
}

// Execute implements itemaction.BackupAction.
func (a *CRDAction) Execute(_ context.Context, item itemaction.BackupItem) (itemaction.Result, error) {
	resource := item.Resource.GroupResource()
	if _, done := a.namedDefinitions.LoadOrStore(resource, true); done {
		return itemaction.Result{}, nil
	}
	return itemaction.Result{RelatedItems: []itemaction.RelatedItem{{
		Resource: definitions,
		Name:     resource.String(),
		Optional: true, // an aggregated API has none
	}}}, nil
}

// isBuiltinGroup reports whether kube-apiserver itself serves a group. Groups without a dot
// are reserved for it; *.k8s.io also has custom resources.
func isBuiltinGroup(group string) bool {
	if !strings.Contains(group, ".") {
		return true
	}
	switch group {
	case "admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io",
		"authentication.k8s.io", "authorization.k8s.io", "certificates.k8s.io",
		"coordination.k8s.io", "discovery.k8s.io", "events.k8s.io",
		"flowcontrol.apiserver.k8s.io", "internal.apiserver.k8s.io", "lifecycle.k8s.io", "networking.k8s.io",
		"node.k8s.io", "rbac.authorization.k8s.io", "resource.k8s.io",
		"scheduling.k8s.io", "storage.k8s.io", "storagemigration.k8s.io":
		return true
	}
	return false
}
