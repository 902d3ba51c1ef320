// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"github.com/grapnel-dev/grapnel/internal/restoreaction"
	"github.com/grapnel-dev/grapnel/internal/restoreaction/builtin/apiservice"
	"github.com/grapnel-dev/grapnel/internal/restoreaction/builtin/crd"
	"github.com/grapnel-dev/grapnel/internal/restoreaction/builtin/endpoints"
	"github.com/grapnel-dev/grapnel/internal/restoreaction/builtin/job"
	"github.com/grapnel-dev/grapnel/internal/restoreaction/builtin/namespace"
	"github.com/grapnel-dev/grapnel/internal/restoreaction/builtin/platform"
	"github.com/grapnel-dev/grapnel/internal/restoreaction/builtin/pod"
	"github.com/grapnel-dev/grapnel/internal/restoreaction/builtin/pv"
	"github.com/grapnel-dev/grapnel/internal/restoreaction/builtin/pvc"
	"github.com/grapnel-dev/grapnel/internal/restoreaction/builtin/quiesced"
	"github.com/grapnel-dev/grapnel/internal/restoreaction/builtin/rolebinding"
	"github.com/grapnel-dev/grapnel/internal/restoreaction/builtin/secret"
	"github.com/grapnel-dev/grapnel/internal/restoreaction/builtin/service"
	"github.com/grapnel-dev/grapnel/internal/restoreaction/builtin/serviceaccount"
	"github.com/grapnel-dev/grapnel/internal/restoreaction/builtin/standby"
	"github.com/grapnel-dev/grapnel/internal/restoreaction/builtin/webhook"
)

// NewActions returns all built-in actions in the order in which they are called. They have
// no state.
func NewActions() []restoreaction.Action {
	return []restoreaction.Action{
		platform.New(),
		namespace.New(),
		apiservice.New(),
		crd.New(),
		endpoints.New(),
		job.New(),
		pod.New(),
		pv.New(),
		pvc.New(),
		quiesced.New(),
		rolebinding.New(),
		secret.New(),
		service.New(),
		serviceaccount.New(),
		standby.New(),
		webhook.New(),
	}
}
