// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
)

const preserveUnknownFieldsKey = "x-kubernetes-preserve-unknown-fields"

// CRDAction makes CustomResourceDefinitions of older clusters acceptable.
//
// apiextensions.k8s.io/v1 rejects definitions with preserveUnknownFields, which v1beta1
// allowed and a stored definition may still have. It becomes
// x-kubernetes-preserve-unknown-fields in the schema of every version, which has the same
// meaning. A version without a schema, which v1 also rejects, gets one that accepts
// anything.
//
// A conversion webhook is kept, and the namespace mapping is applied to its Service. Until
// that Service answers, the API server rejects custom resources in any version other than
// the stored one. The list of stored versions is part of the status: the cluster starts a
// new one.
//
// Grapnel's own definitions are skipped: its installation includes those for the running
// operator.
type CRDAction struct{}

var _ itemaction.RestoreAction = CRDAction{}

// NewCRDAction returns the action.
func NewCRDAction() CRDAction { return CRDAction{} }

// Name implements itemaction.RestoreAction.
func (CRDAction) Name() string { return "grapnel.dev/crd" }

// AppliesTo implements itemaction.RestoreAction.
func (CRDAction) AppliesTo(resource schema.GroupResource) bool {
	return resource == schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}
}

// Execute implements itemaction.RestoreAction.
func (CRDAction) Execute(_ context.Context, item *itemaction.RestoreItem) (itemaction.Result, error) {
	spec := GetMap(item.Object.Object, "spec")
	if Get[string](spec, "group") == "grapnel.dev" {
		return itemaction.Result{Skip: "the installation of Grapnel includes its own definitions"}, nil
	}
	if item.Resource.Version == "v1" {
		convertSpecToV1(spec)
	}
	var result itemaction.Result
	service := GetMap(spec, "conversion", "webhook", "clientConfig", "service")
	if warning := mapServiceNamespace(item.Restore, service); warning != "" {
		result.Warnings = append(result.Warnings, warning)
	}
	return result, nil
}

// convertSpecToV1 replaces what v1 rejects.
func convertSpecToV1(spec map[string]any) {
	keepUnknown := Get[bool](spec, "preserveUnknownFields")
	delete(spec, "preserveUnknownFields") // false is the default
	for version := range EachMap(spec, "versions") {
		root := GetMap(version, "schema", "openAPIV3Schema")
		switch {
		case root != nil && keepUnknown:
			root[preserveUnknownFieldsKey] = true
		case !Has(version, "schema"):
			version["schema"] = map[string]any{
				"openAPIV3Schema": map[string]any{"type": "object", preserveUnknownFieldsKey: true},
			}
		}
	}
}
