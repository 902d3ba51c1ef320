// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"

	"google.golang.org/grpc"

	"github.com/grapnel-dev/grapnel/internal/executor"
	postrestorepb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/postrestoreaction/v1"
)

// postRestoreActionV1 calls version 1 of PostRestoreAction.
func postRestoreActionV1(
	ctx context.Context, conn grpc.ClientConnInterface, callID string, call executor.Call,
) (executor.Answer, error) {
	return callHookV1(ctx, postrestorepb.NewPostRestoreActionClient(conn).Execute, callID, call)
}
