// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/grapnel-dev/grapnel/sdk"
	"github.com/grapnel-dev/grapnel/sdk/item"
)

// annotationSecret on a Pod names a Secret in its namespace that the Pod reads from the API
// server.
const annotationSecret = "example.io/secret" //nolint:gosec // the name of an annotation

// labelSecrets marks Backups that contain such a Secret.
const labelSecrets = "example.io/with-secrets"

// secrets is a BackupItemAction: it archives the Secret that a Pod names with the Pod, even
// if the backup selects objects by labels that the Secret does not have.
type secrets struct{}

// AppliesTo selects pods.
func (secrets) AppliesTo(context.Context) (item.Selector, error) {
	return item.Selector{IncludedResources: []string{"pods"}}, nil
}

// Execute names the Secret. It leaves the Pod unchanged.
func (secrets) Execute(ctx context.Context, req *item.BackupRequest) (*item.BackupResponse, error) {
	name := req.Item.GetAnnotations()[annotationSecret]
	if name == "" {
		return nil, nil //nolint:nilnil // nothing to change
	}
	sdk.Logger(ctx).Info("Taking the Secret along", "secret", name, "of", req.Item.GetName())
	return &item.BackupResponse{
		AdditionalItems: []item.Ref{{Resource: "secrets", Namespace: req.Item.GetNamespace(), Name: name}},
		BackupLabels:    map[string]string{labelSecrets: "true"},
	}, nil
}
