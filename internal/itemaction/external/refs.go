// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package external

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/sdk/item"
)

// maxNameBytes is the largest size of a part of a reference: that of a name in
// Kubernetes.
const maxNameBytes = 253

// maxOperationIDBytes is the longest ID of an operation, in bytes. It is kept with the run.
const maxOperationIDBytes = 1024

// MaxPostOperationItems is the largest number of objects that may be archived when one operation
// has ended. They are kept with the run.
const MaxPostOperationItems = 1000

// ValidatePostOperationItems checks the objects that are to be archived when an operation has ended.
func ValidatePostOperationItems(refs []item.Ref) error {
	if len(refs) > MaxPostOperationItems {
		return fmt.Errorf("named %d objects to be archived after its operation; at most %d are allowed: "+
			"it has to name one that has the others as additional items", len(refs), MaxPostOperationItems)
	}
	return ValidateItemRefs("item for after the operation", refs)
}

// ValidateOperationID checks what an action calls an operation that it started.
func ValidateOperationID(id string) error {
	if len(id) > maxOperationIDBytes {
		return fmt.Errorf("named its operation with %d bytes; at most %d are allowed", len(id), maxOperationIDBytes)
	}
	return nil
}

// ValidateItemRefs checks the objects that an answer names: at most item.MaxRefs, each with
// what a name in Kubernetes needs. What says what they are, "additional item". An
// error names the entry that is wrong.
func ValidateItemRefs(what string, refs []item.Ref) error {
	if len(refs) > item.MaxRefs {
		return fmt.Errorf("named %d %ss for one object; at most %d are allowed", len(refs), what, item.MaxRefs)
	}
	for i, ref := range refs {
		if reason := invalidRefReason(ref); reason != "" {
			return fmt.Errorf("named %s %d (resource %.60q, namespace %.60q, name %.60q), which cannot exist: it %s",
				what, i+1, schema.GroupResource{Group: ref.Group, Resource: ref.Resource}.String(), ref.Namespace, ref.Name, reason)
		}
	}
	return nil
}

// invalidRefReason returns why there can be no such object.
func invalidRefReason(ref item.Ref) string {
	switch {
	case ref.Resource == "":
		return "has no resource"
	case ref.Name == "":
		return "has no name"
	}
	for _, part := range []string{ref.Group, ref.Resource, ref.Namespace, ref.Name} {
		switch {
		case strings.ContainsAny(part, "/%\x00") || part == "." || part == "..":
			return "has a part with a character that names cannot have"
		case len(part) > maxNameBytes:
			return "has a part that is longer than a name can be"
		}
	}
	return ""
}

// ResolveResource returns the resource that a reference means: what the cluster resolves it
// to, since plugins also say "pod" or "Pod", or the reference's own words.
func ResolveResource(ref item.Ref, names itemaction.ResourceResolver) schema.GroupResource {
	own := schema.GroupResource{Group: ref.Group, Resource: ref.Resource}
	if names == nil {
		return own
	}
	if gr, ok := names.Resolve(own.String()); ok && (ref.Group == "" || gr.Group == ref.Group) {
		return gr
	}
	return own
}
