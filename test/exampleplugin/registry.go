// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/grapnel-dev/grapnel/sdk"
	"github.com/grapnel-dev/grapnel/sdk/item"
)

// annotationSkip with the value "true" excludes an object from restores.
const annotationSkip = "example.io/skip-restore"

// registry is a RestoreItemAction: it makes Pods pull their images from another registry,
// which the parameter registry names.
type registry struct{}

// AppliesTo selects pods.
func (registry) AppliesTo(context.Context) (item.Selector, error) {
	return item.Selector{IncludedResources: []string{"pods"}}, nil
}

// Execute changes the images of one pod.
func (registry) Execute(ctx context.Context, req *item.RestoreRequest) (*item.RestoreResponse, error) {
	if req.Item.GetAnnotations()[annotationSkip] == "true" {
		return &item.RestoreResponse{SkipRestore: true}, nil
	}
	target := sdk.Parameters(ctx)["registry"]
	if target == "" {
		return nil, nil //nolint:nilnil // nothing to change
	}
	for _, list := range []string{"initContainers", "containers"} {
		containers, found, err := unstructured.NestedSlice(req.Item.Object, "spec", list)
		if err != nil {
			return nil, fmt.Errorf("reading the %s of the pod: %w", list, err)
		}
		if !found {
			continue
		}
		for _, container := range containers {
			if fields, ok := container.(map[string]any); ok {
				fields["image"] = imageInRegistry(fields["image"], target)
			}
		}
		if err := unstructured.SetNestedSlice(req.Item.Object, containers, "spec", list); err != nil {
			return nil, fmt.Errorf("changing the %s of the pod: %w", list, err)
		}
	}
	return &item.RestoreResponse{Item: req.Item}, nil
}

// imageInRegistry returns the name of an image in another registry. The first part of a name is a
// registry if it looks like a host.
func imageInRegistry(image any, target string) any {
	name, ok := image.(string)
	if !ok {
		return image
	}
	if host, rest, found := strings.Cut(name, "/"); found && (strings.ContainsAny(host, ".:") || host == "localhost") {
		name = rest
	}
	return target + "/" + name
}
