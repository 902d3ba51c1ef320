// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restoreaction

import (
	"fmt"

	"github.com/grapnel-dev/grapnel/internal/restoreaction/field"
)

// MapServiceNamespace makes a reference from the API server's own configuration to a
// Service, as webhooks and APIServices have, follow the mapping of namespaces.
// It returns a warning if that changed something, and else an empty string.
func (r *RestoreContext) MapServiceNamespace(service map[string]any) string {
	original := field.Get[string](service, "namespace")
	mapped := r.MapNamespace(original)
	if service == nil || mapped == original {
		return ""
	}
	service["namespace"] = mapped
	name := field.Get[string](service, "name")
	return fmt.Sprintf("Service %[1]s/%[3]s is called as %[2]s/%[3]s now: its certificate must be valid for %[3]s.%[2]s.svc",
		original, mapped, name)
}
