// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/itemaction/builtin/crd"
	"github.com/grapnel-dev/grapnel/internal/itemaction/builtin/pod"
	"github.com/grapnel-dev/grapnel/internal/itemaction/builtin/pvc"
	"github.com/grapnel-dev/grapnel/internal/itemaction/builtin/serviceaccount"
)

// NewActions returns new instances of all built-in actions. They have state for one run, so
// every run needs its own.
func NewActions() []itemaction.Action {
	return []itemaction.Action{
		pvc.NewPVCAction(),
		pod.NewPodAction(),
		serviceaccount.NewServiceAccountAction(),
		crd.NewCRDAction(),
	}
}
