// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/grapnel-dev/grapnel/sdk"
	"github.com/grapnel-dev/grapnel/sdk/hook"
)

// The outputs of the freeze action, which the thaw action reads, and the actions of
// a restore.
const (
	outputMarker   = "marker"
	outputReplicas = "replicas"
)

// freeze is the first half of both pairs: it records what is frozen. A real action would
// stop the writers of a database here.
type freeze struct{ state *state }

// Execute freezes once per idempotency key.
func (f *freeze) Execute(ctx context.Context, req *hook.Request) (*hook.Response, error) {
	log := sdk.Logger(ctx)
	if resp, err := applyDemoParameters(ctx, f.state, req); resp != nil || err != nil {
		return resp, err
	}
	replicas, err := parseReplicas(req)
	if err != nil {
		return nil, err
	}
	fresh, err := f.state.setFrozenMarker(req)
	if err != nil {
		return nil, err
	}
	s := runInfoFromRequest(req)
	if fresh {
		log.Info("Froze the application", s.kind, s.name, "namespaces", s.namespaces)
	} else {
		log.Info("Found the application frozen by an earlier attempt", s.kind, s.name, "attempt", req.Attempt)
	}
	return hook.Done().
		WithOutput(outputMarker, req.IdempotencyKey).
		WithOutput(outputReplicas, strconv.Itoa(replicas)).
		WithMessage("froze namespaces " + s.namespaces), nil
}

// parseReplicas returns the number of replicas of the application before the backup. If
// there is no such output, because this call precedes the backup or the backup was made
// without this plugin, the parameter is used.
func parseReplicas(req *hook.Request) (int, error) {
	source, text := "the output replicas that was stored with the backup", req.BackupOutputs[nameFreeze][outputReplicas]
	if text == "" {
		source, text = "the parameter replicas", req.Parameters["replicas"]
	}
	if text == "" {
		return 1, nil
	}
	replicas, err := strconv.Atoi(text)
	if err != nil || replicas < 0 {
		return 0, fmt.Errorf("%s must be a number like 3, it is %q", source, text)
	}
	return replicas, nil
}

// thaw is the second half of both pairs: it runs whenever freeze was started, even if
// freeze failed half-way, so it does not rely on its outputs.
type thaw struct{ state *state }

// Execute cleans up after freeze, whether or not freeze finished.
func (t *thaw) Execute(ctx context.Context, req *hook.Request) (*hook.Response, error) {
	log := sdk.Logger(ctx)
	if resp, err := applyDemoParameters(ctx, t.state, req); resp != nil || err != nil {
		return resp, err
	}
	removed, err := t.state.removeFrozenMarkers(req)
	if err != nil {
		return nil, err
	}
	s, outputs := runInfoFromRequest(req), req.Outputs[nameFreeze]
	log.Info("Thawed the application", s.kind, s.name, "phase", s.phase,
		"marker", outputs[outputMarker], "replicas", outputs[outputReplicas], "removedMarkers", removed)
	message := fmt.Sprintf("thawed after a %s that ended as %s", s.kind, s.phase)
	if before := req.BackupOutputs[nameFreeze][outputReplicas]; before != "" {
		message += ", replicas before the backup: " + before
	}
	return hook.Done().WithMessage(message), nil
}
