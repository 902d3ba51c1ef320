// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"

	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/grapnel-dev/grapnel/internal/executor"
)

// DeleteAction calls a DeleteAction. Errors are errors of gRPC, or a *ContractError if the
// response is not allowed by the version.
type DeleteAction interface {
	// AppliesTo requests the label selector of the Backups that the action applies to.
	AppliesTo(ctx context.Context, call ItemCall) (labels.Selector, error)
	// Execute makes one attempt. The Subject of the call is the Backup as JSON, in the form of
	// velero.io/v1. Its Point, BackupName and Outputs are ignored.
	Execute(ctx context.Context, conn grpc.ClientConnInterface, callID string, call executor.Call) error
}
