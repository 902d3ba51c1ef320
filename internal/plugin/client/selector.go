// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/grapnel-dev/grapnel/internal/plugin/host"
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
func RequestSelector(
	ctx context.Context, resolve ResolveFunc[DeleteAction], redactor *redact.Redactor, q SelectorRequest,
) (selector labels.Selector, err error) {
	log := logr.FromContextOrDiscard(ctx)
	call, err := NewCaller(resolve, redactor).Begin(ctx, host.Call{Key: q.Key, Log: log, RunLog: log})
	if err != nil {
		return nil, err
	}
	defer call.End(&err)
	return call.Action.AppliesTo(ctx, ItemCall{
		Conn: call.Conn(), Action: q.Action, CallID: call.ID(), Key: q.Key, Parameters: q.Parameters,
	})
}
