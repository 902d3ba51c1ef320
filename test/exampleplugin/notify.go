// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/grapnel-dev/grapnel/sdk"
	"github.com/grapnel-dev/grapnel/sdk/hook"
)

// notify reports how a backup ended; it does not belong to a pair. A real action would send
// a message.
type notify struct{ state *state }

// Execute logs the outcome.
func (n *notify) Execute(ctx context.Context, req *hook.Request) (*hook.Response, error) {
	if resp, err := applyDemoParameters(ctx, n.state, req); resp != nil || err != nil {
		return resp, err
	}
	sdk.Logger(ctx).Info("Backup ended", "backup", req.Backup.Namespace+"/"+req.Backup.Name, "phase", req.Backup.Phase)
	return hook.Done().WithMessage("logged the outcome"), nil
}
