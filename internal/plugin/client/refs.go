// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/sdk/item"
)

// maxNameBytes is the maximum size of a part of a reference: that of a name in Kubernetes.
const maxNameBytes = 253

// maxOperationIDBytes is the longest ID of an operation, in bytes. It is stored with the
// run.
const maxOperationIDBytes = 1024

// MaxPostOperationItems is the maximum number of objects to archive when one operation has
// ended. They are stored with the run.
const MaxPostOperationItems = 1000

// ValidatePostOperationItems checks the objects to archive when an operation has ended.
func ValidatePostOperationItems(refs []item.Ref) error {
	if len(refs) > MaxPostOperationItems {
		return fmt.Errorf("named %d objects to be archived after its operation; at most %d are allowed: "+
			"name one object that has the others as additional items", len(refs), MaxPostOperationItems)
	}
	return ValidateItemRefs("item for after the operation", refs)
}

// ValidateOperationID checks the ID of an operation that an action started.
func ValidateOperationID(id string) error {
	if len(id) > maxOperationIDBytes {
		return fmt.Errorf("returned an operation ID of %d bytes; at most %d are allowed", len(id), maxOperationIDBytes)
	}
	return nil
}

// ValidateItemRefs checks the objects that an answer names: at most item.MaxRefs, each with
// the parts of a valid name. What describes them, as in "additional item". An error names
// the invalid entry.
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

// invalidRefReason returns why such an object cannot exist.
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

// ResolveResource returns the resource of a reference: the one to which the cluster
// resolves it, since plugins also return "pod" or "Pod", or the name in the reference.
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
