// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
)

// WebhookAction makes admission webhook configurations of older clusters acceptable.
// admissionregistration.k8s.io/v1 accepts only webhooks that declare no side effects, or
// none in dry runs. v1beta1 accepted others, and such a configuration may still be stored.
// The action changes it to None, with a warning. The namespace mapping is applied to the
// called Service. CA bundles are kept.
type WebhookAction struct{}

var _ itemaction.RestoreAction = WebhookAction{}

// NewWebhookAction returns the action.
func NewWebhookAction() WebhookAction { return WebhookAction{} }

// Name implements itemaction.RestoreAction.
func (WebhookAction) Name() string { return "grapnel.dev/admission-webhook-configuration" }

// AppliesTo implements itemaction.RestoreAction.
func (WebhookAction) AppliesTo(resource schema.GroupResource) bool {
	return resource.Group == "admissionregistration.k8s.io" &&
		(resource.Resource == "mutatingwebhookconfigurations" || resource.Resource == "validatingwebhookconfigurations")
}

// Execute implements itemaction.RestoreAction.
func (WebhookAction) Execute(_ context.Context, item *itemaction.RestoreItem) (itemaction.Result, error) {
	var result itemaction.Result
	for hook := range EachMap(item.Object.Object, "webhooks") {
		name := Get[string](hook, "name")
		declared := Get[string](hook, "sideEffects")
		if item.Resource.Version == "v1" && declared != "None" && declared != "NoneOnDryRun" {
			hook["sideEffects"] = "None"
			result.Warnings = append(result.Warnings, fmt.Sprintf(
				"webhook %q declared side effects %q, which v1 does not accept: they are None now", name, declared))
		}
		if warning := mapServiceNamespace(item.Restore, GetMap(hook, "clientConfig", "service")); warning != "" {
			result.Warnings = append(result.Warnings, fmt.Sprintf("webhook %q: %s", name, warning))
		}
	}
	return result, nil
}
