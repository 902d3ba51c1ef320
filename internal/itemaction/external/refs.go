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

// maxOperationID is the longest ID of an operation, in bytes. It is kept with the run.
const maxOperationID = 1024

// MaxPostItems is the largest number of objects that may be archived when one operation
// has ended. They are kept with the run.
const MaxPostItems = 1000

// CheckPostItems checks the objects that are to be archived when an operation has ended.
func CheckPostItems(refs []item.Ref) error {
	if len(refs) > MaxPostItems {
		return fmt.Errorf("named %d objects to be archived after its operation; at most %d are allowed: "+
			"it has to name one that has the others as additional items", len(refs), MaxPostItems)
	}
	return CheckRefs("item for after the operation", refs)
}

// CheckOperationID checks what an action calls an operation that it started.
func CheckOperationID(id string) error {
	if len(id) > maxOperationID {
		return fmt.Errorf("named its operation with %d bytes; at most %d are allowed", len(id), maxOperationID)
	}
	return nil
}

// CheckRefs checks the objects that an answer names: at most item.MaxRefs, each with
// what a name in Kubernetes needs. What says what they are, "additional item". An
// error names the entry that is wrong.
func CheckRefs(what string, refs []item.Ref) error {
	if len(refs) > item.MaxRefs {
		return fmt.Errorf("named %d %ss for one object; at most %d are allowed", len(refs), what, item.MaxRefs)
	}
	for i, ref := range refs {
		if reason := invalid(ref); reason != "" {
			return fmt.Errorf("named %s %d (resource %.60q, namespace %.60q, name %.60q), which cannot exist: it %s",
				what, i+1, schema.GroupResource{Group: ref.Group, Resource: ref.Resource}.String(), ref.Namespace, ref.Name, reason)
		}
	}
	return nil
}

// invalid returns why there can be no such object.
func invalid(ref item.Ref) string {
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

// ResourceOf returns the resource that a reference means: what the cluster resolves it
// to, since plugins also say "pod" or "Pod", or the reference's own words.
func ResourceOf(ref item.Ref, names itemaction.Names) schema.GroupResource {
	own := schema.GroupResource{Group: ref.Group, Resource: ref.Resource}
	if names == nil {
		return own
	}
	if gr, ok := names.Resolve(own.String()); ok && (ref.Group == "" || gr.Group == ref.Group) {
		return gr
	}
	return own
}
