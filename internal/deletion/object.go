// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package deletion

import (
	"errors"

	"github.com/go-json-experiment/json"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/archive"
)

// archived is one object of an archive while it is shown.
type archived struct {
	entry    archive.Entry
	resource schema.GroupResource

	read     bool
	metadata metadata
	problem  error
}

// metadata is the part of an object that is looked at.
type metadata struct {
	Namespace string            `json:"namespace"`
	Name      string            `json:"name"`
	Labels    map[string]string `json:"labels"`
}

// about names the object for people, as "pods shop/web".
func (a *archived) about() string {
	id := a.entry.Object
	if id.Namespace == "" {
		return a.resource.String() + " " + id.Name
	}
	return a.resource.String() + " " + id.Namespace + "/" + id.Name
}

// check looks into the object, once. The error says why no action may see it: what is
// shown was chosen by its path.
func (a *archived) check() error {
	if a.read {
		return a.problem
	}
	a.read = true
	var content struct {
		Metadata metadata `json:"metadata"`
	}
	id := a.entry.Object
	switch err := json.Unmarshal(a.entry.Content, &content); {
	case err != nil:
		a.problem = errors.New("is no object of Kubernetes")
	case content.Metadata.Name != id.Name || content.Metadata.Namespace != id.Namespace:
		a.problem = errors.New("is another object than its place in the archive says")
	}
	a.metadata = content.Metadata
	return a.problem
}

func (a *archived) labels() map[string]string { return a.metadata.Labels }
