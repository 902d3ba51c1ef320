// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"

	"google.golang.org/grpc"

	"github.com/grapnel-dev/grapnel/internal/executor"
	postbackuppb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/postbackupaction/v1"
)

// postBackupActionV1 calls version 1 of PostBackupAction.
func postBackupActionV1(
	ctx context.Context, conn grpc.ClientConnInterface, callID string, call executor.Call,
) (executor.Answer, error) {
	return callHookV1(ctx, postbackuppb.NewPostBackupActionClient(conn).Execute, callID, call)
}
