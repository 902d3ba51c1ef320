// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/names"
)

// maxChildNameLength leaves room for the names of objects that are derived from a HookRun.
const maxChildNameLength = 52

// hookRunName returns a deterministic name for an action of a run, so that creating the HookRun
// twice is harmless.
func (k KindTraits) hookRunName(o metav1.Object, point v1alpha1.HookPoint, action string) string {
	_, name, _ := strings.Cut("/"+action, "/")
	name = name[strings.LastIndex(name, "/")+1:]
	head := o.GetName() + "-" + strings.TrimSuffix(string(point), k.Name) + "-" + name
	return names.ChildName(head, maxChildNameLength, string(o.GetUID()), string(point), action)
}
