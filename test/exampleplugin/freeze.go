// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"strconv"
	"strings"

	"github.com/grapnel-dev/grapnel/sdk"
	"github.com/grapnel-dev/grapnel/sdk/hook"
)

// The outputs of the freeze action, which the thaw action reads.
const (
	outputMarker   = "marker"
	outputReplicas = "replicas"
)

// freeze is the first half of the pair: it notes what is frozen. A real one would
// stop the writers of a database here.
type freeze struct{ state *state }

// Execute freezes once per idempotency key.
func (f *freeze) Execute(ctx context.Context, req *hook.Request) (*hook.Response, error) {
	log := sdk.Logger(ctx)
	if resp, err := obey(ctx, f.state, req); resp != nil || err != nil {
		return resp, err
	}
	scope := strings.Join(req.Backup.IncludedNamespaces, ",")
	if scope == "" {
		scope = "*"
	}
	fresh, err := f.state.mark(req)
	if err != nil {
		return nil, err
	}
	if fresh {
		log.Info("Froze the application", "backup", req.Backup.Name, "namespaces", scope)
	} else {
		log.Info("Found the application frozen by an earlier attempt", "backup", req.Backup.Name, "attempt", req.Attempt)
	}
	replicas := 1
	if text := req.Parameters["replicas"]; text != "" {
		if replicas, err = strconv.Atoi(text); err != nil {
			return nil, err
		}
	}
	return hook.Done().
		WithOutput(outputMarker, req.IdempotencyKey).
		WithOutput(outputReplicas, strconv.Itoa(replicas)).
		WithMessage("froze namespaces " + scope), nil
}

// thaw is the second half: it runs whenever freeze was started, also if that
// failed half-way, so it does not rely on the outputs being there.
type thaw struct{ state *state }

// Execute removes what freeze left, whether or not freeze finished.
func (t *thaw) Execute(ctx context.Context, req *hook.Request) (*hook.Response, error) {
	log := sdk.Logger(ctx)
	if resp, err := obey(ctx, t.state, req); resp != nil || err != nil {
		return resp, err
	}
	outputs := req.Outputs[nameFreeze]
	removed, err := t.state.unmark(req)
	if err != nil {
		return nil, err
	}
	log.Info("Thawed the application", "backup", req.Backup.Name, "phase", req.Backup.Phase,
		"marker", outputs[outputMarker], "replicas", outputs[outputReplicas], "removedMarkers", removed)
	return hook.Done().WithMessage("thawed after a backup that ended as " + req.Backup.Phase), nil
}
