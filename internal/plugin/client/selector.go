// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/grapnel-dev/grapnel/internal/plugin/process"
	"github.com/grapnel-dev/grapnel/internal/redact"
)

// SelectorRequest is a request for the selector of one action.
type SelectorRequest struct {
	// Action is its registered name, and Key the UID of the DeletionRun.
	Action, Key string
	// Parameters are what the user configured for it.
	Parameters map[string]string
}

// RequestSelector calls an action once for the label selector of the Backups that it applies
// to. The error is a *CallError, whose text can be shown. The logger of ctx receives the log
// lines of the plugin.
func RequestSelector(ctx context.Context, resolve ResolveFunc[DeleteAction], redactor *redact.Redactor, q SelectorRequest) (labels.Selector, error) {
	log := logr.FromContextOrDiscard(ctx)
	var selector labels.Selector
	err := NewCaller(resolve, redactor).Do(ctx, process.Call{Key: q.Key, Log: log, RunLog: log},
		func(ctx context.Context, conn grpc.ClientConnInterface, callID string, action DeleteAction) (err error) {
			selector, err = action.AppliesTo(ctx, conn, ItemCall{Action: q.Action, CallID: callID, Key: q.Key, Parameters: q.Parameters})
			return err
		})
	return selector, err
}
