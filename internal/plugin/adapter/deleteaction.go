// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package adapter

import (
	"context"

	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/grapnel-dev/grapnel/internal/executor"
)

// DeleteAction calls a DeleteAction. Errors are those of gRPC, or a *ContractError if the
// answer is not one that the version allows.
type DeleteAction interface {
	// AppliesTo asks which Backups concern the action, by their labels.
	AppliesTo(ctx context.Context, conn grpc.ClientConnInterface, call ItemCall) (labels.Selector, error)
	// Execute makes one attempt. The Subject of the call is the Backup as JSON, in the form of
	// velero.io/v1. Its Point, BackupName and Outputs mean nothing.
	Execute(ctx context.Context, conn grpc.ClientConnInterface, callID string, call executor.Call) error
}
