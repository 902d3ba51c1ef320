// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"github.com/grapnel-dev/grapnel/internal/itemaction"
)

// NewActions returns all built-in actions in the order in which they are called. They have
// no state.
func NewActions() []itemaction.RestoreAction {
	return []itemaction.RestoreAction{
		NewPlatformAction(),
		NewNamespaceAction(),
		NewAPIServiceAction(),
		NewCRDAction(),
		NewEndpointsAction(),
		NewJobAction(),
		NewPodAction(),
		NewPVAction(),
		NewPVCAction(),
		NewQuiescedAction(),
		NewRoleBindingAction(),
		NewSecretAction(),
		NewServiceAction(),
		NewServiceAccountAction(),
		NewStandbyAction(),
		NewWebhookAction(),
	}
}
