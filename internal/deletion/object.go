// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package deletion

import (
	"errors"

	"github.com/go-json-experiment/json"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/archive"
)

// archivedItem is one object of an archive while it is passed to actions.
type archivedItem struct {
	entry    archive.Entry
	resource schema.GroupResource

	validated     bool
	metadata      metadata
	invalidReason error
}

// metadata is the part of an object that is read.
type metadata struct {
	Namespace string            `json:"namespace"`
	Name      string            `json:"name"`
	Labels    map[string]string `json:"labels"`
}

// itemDisplayName returns the name of the object for people, such as "pods shop/web".
func (a *archivedItem) itemDisplayName() string {
	id := a.entry.Object
	if id.Namespace == "" {
		return a.resource.String() + " " + id.Name
	}
	return a.resource.String() + " " + id.Namespace + "/" + id.Name
}

// validateContent parses the object, once. The error says why no action may receive it: the
// object was selected by its path.
func (a *archivedItem) validateContent() error {
	if a.validated {
		return a.invalidReason
	}
	a.validated = true
	var content struct {
		Metadata metadata `json:"metadata"`
	}
	id := a.entry.Object
	switch err := json.Unmarshal(a.entry.Content, &content); {
	case err != nil:
		a.invalidReason = errors.New("is not a Kubernetes object")
	case content.Metadata.Name != id.Name || content.Metadata.Namespace != id.Namespace:
		a.invalidReason = errors.New("is a different object than its path in the archive names")
	}
	a.metadata = content.Metadata
	return a.invalidReason
}

func (a *archivedItem) itemLabels() map[string]string { return a.metadata.Labels }
