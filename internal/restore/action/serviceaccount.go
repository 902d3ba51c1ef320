// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
)

// ServiceAccountAction removes the generated Secrets with tokens from ServiceAccounts,
// and merges an archived account into an existing one: every namespace has an account named
// default before anything is restored into it.
type ServiceAccountAction struct{}

var _ itemaction.RestoreAction = ServiceAccountAction{}

// NewServiceAccountAction returns the action.
func NewServiceAccountAction() ServiceAccountAction { return ServiceAccountAction{} }

// Name implements itemaction.RestoreAction.
func (ServiceAccountAction) Name() string { return "grapnel.dev/service-account" }

// AppliesTo implements itemaction.RestoreAction.
func (ServiceAccountAction) AppliesTo(resource schema.GroupResource) bool {
	return resource == schema.GroupResource{Resource: "serviceaccounts"}
}

// Execute implements itemaction.RestoreAction.
func (ServiceAccountAction) Execute(_ context.Context, item *itemaction.RestoreItem) (itemaction.Result, error) {
	account := item.Archived.GetName()
	RemoveEntries(item.Object.Object, func(entry any) bool {
		reference, _ := entry.(map[string]any)
		return IsGeneratedToken(account, Get[string](reference, "name"))
	}, "secrets")
	return itemaction.Result{}, nil
}
