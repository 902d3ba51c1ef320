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
		platform.NewPlatformAction(),
		namespace.NewNamespaceAction(),
		apiservice.NewAPIServiceAction(),
		crd.NewCRDAction(),
		endpoints.NewEndpointsAction(),
		job.NewJobAction(),
		pod.NewPodAction(),
		pv.NewPVAction(),
		pvc.NewPVCAction(),
		quiesced.NewQuiescedAction(),
		rolebinding.NewRoleBindingAction(),
		secret.NewSecretAction(),
		service.NewServiceAction(),
		serviceaccount.NewServiceAccountAction(),
		standby.NewStandbyAction(),
		webhook.NewWebhookAction(),
	}
}
