// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"

	"google.golang.org/grpc"

	"github.com/grapnel-dev/grapnel/internal/executor"
	prerestorepb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/prerestoreaction/v1"
)

// preRestoreActionV1 calls version 1 of PreRestoreAction.
func preRestoreActionV1(
	ctx context.Context, conn grpc.ClientConnInterface, callID string, call executor.Call,
) (executor.Answer, error) {
	return callHookV1(ctx, prerestorepb.NewPreRestoreActionClient(conn).Execute, callID, call)
}
