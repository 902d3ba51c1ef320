// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"

	"google.golang.org/grpc"

	"github.com/grapnel-dev/grapnel/internal/executor"
	prebackuppb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/prebackupaction/v1"
)

// preBackupActionV1 calls version 1 of PreBackupAction.
func preBackupActionV1(
	ctx context.Context, conn grpc.ClientConnInterface, callID string, call executor.Call,
) (executor.Answer, error) {
	return callHookV1(ctx, prebackuppb.NewPreBackupActionClient(conn).Execute, callID, call)
}
