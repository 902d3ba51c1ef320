// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restoreaction

import (
	"fmt"

	"github.com/grapnel-dev/grapnel/internal/restoreaction/field"
)

// MapServiceNamespace applies the namespace mapping to a reference to a Service in the API
// server's own configuration, such as webhooks and APIServices. It returns a warning if
// that changed something, and otherwise an empty string.
func (r *RestoreContext) MapServiceNamespace(service map[string]any) string {
	original := field.Get[string](service, "namespace")
	mapped := r.MapNamespace(original)
	if service == nil || mapped == original {
		return ""
	}
	service["namespace"] = mapped
	name := field.Get[string](service, "name")
	return fmt.Sprintf("Service %[1]s/%[3]s is now called as %[2]s/%[3]s: its certificate must be valid for %[3]s.%[2]s.svc",
		original, mapped, name)
}
