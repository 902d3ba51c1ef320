// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"github.com/grapnel-dev/grapnel/internal/itemaction"
)

// NewActions returns new instances of all built-in actions. They have state for one run, so
// every run needs its own.
func NewActions() []itemaction.BackupAction {
	return []itemaction.BackupAction{
		NewPVCAction(),
		NewPodAction(),
		NewServiceAccountAction(),
		NewCRDAction(),
	}
}
