// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"fmt"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
)

// mapServiceNamespace makes a reference from the API server's own configuration to a Service, as
// webhooks and APIServices have, follow the mapping of namespaces. It returns a warning if that
// changed the reference, and otherwise an empty string.
func mapServiceNamespace(r *itemaction.RestoreContext, service map[string]any) string {
	original := Get[string](service, "namespace")
	mapped := r.MapNamespace(original)
	if service == nil || mapped == original {
		return ""
	}
	service["namespace"] = mapped
	return fmt.Sprintf("Service %[1]s/%[3]s is now called as %[2]s/%[3]s: its certificate must be valid for %[3]s.%[2]s.svc",
		original, mapped, Get[string](service, "name"))
}
