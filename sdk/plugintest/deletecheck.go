// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package plugintest

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/grapnel-dev/grapnel/sdk"
	deletev1 "github.com/grapnel-dev/grapnel/sdk/deleteaction/v1"
)

// deleteCheck is the check of one DeleteAction.
type deleteCheck struct {
	plugin   *Plugin
	contract Contract
	action   Action
	target   deletev1.DeleteAction
	// kept is what the plugin's PreBackup actions returned.
	kept outputs
}

// deleteTargets are the DeleteActions that can be checked, by version: every version that
// package serve registers has its own.
func deleteTargets() map[string]func(p *Plugin, name string) deletev1.DeleteAction {
	return map[string]func(p *Plugin, name string) deletev1.DeleteAction{sdk.V1: (*Plugin).DeleteActionV1}
}

// checkDeletes checks the DeleteActions. They come last: they remove what other actions made.
func checkDeletes(t *testing.T, p *Plugin, c Contract, kept outputs) {
	t.Helper()
	for _, action := range p.actions {
		if action.Kind != sdk.KindDeleteAction {
			continue
		}
		check := &deleteCheck{
			plugin: p, contract: c, action: action, target: deleteTargets()[action.Version](p, action.Name), kept: kept,
		}
		t.Run(fmt.Sprintf("%s %s %s", action.Kind, action.Version, action.Name), check.run)
	}
}

func (c *deleteCheck) run(t *testing.T) {
	t.Run("says which Backups concern it", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(c.with(t.Context()), c.contract.Patience)
		defer cancel()
		report(t, backupSelectorProblems(ctx, c.target))
	})
	for _, attempt := range c.attempts() {
		t.Run(attempt.name, func(t *testing.T) { c.succeeds(t, attempt.req) })
	}
	t.Run("serves several deletions at once", func(t *testing.T) {
		var wg sync.WaitGroup
		for i := range parallel {
			req := c.request(fmt.Sprintf("contract-parallel-%d", i), 1)
			wg.Go(func() { c.succeeds(t, req) })
		}
		wg.Wait()
	})
	t.Run("returns when its time is over", func(t *testing.T) {
		returnsInTime(t, c.plugin, c.contract.Patience, func(ctx context.Context, callID string) {
			_, _ = c.target.AppliesTo(withCallID(c.with(ctx), callID))
		})
		returnsInTime(t, c.plugin, c.contract.Patience, func(ctx context.Context, callID string) {
			_ = c.target.Execute(withCallID(ctx, callID), c.request("contract-short", 1))
		})
	})
}

// deleteAttempt is one call of Execute, which has to succeed whatever those before it did.
type deleteAttempt struct {
	name string
	req  *deletev1.DeleteRequest
}

// attempts are made one after another.
func (c *deleteCheck) attempts() []deleteAttempt {
	alone := c.request("contract-no-outputs", 1)
	alone.BackupOutputs = outputs{}
	return []deleteAttempt{
		{name: "succeeds", req: c.request("contract-first", 1)},
		{name: "succeeds when all is gone", req: c.request("contract-first", 2)},
		{name: "succeeds in another deletion", req: c.request("contract-second", 1)},
		{name: "succeeds without outputs", req: alone},
	}
}

// with adds the author's parameters, which AppliesTo gets too.
func (c *deleteCheck) with(ctx context.Context) context.Context {
	return WithParameters(ctx, c.request("", 1).Parameters)
}

// request returns the author's request, completed.
func (c *deleteCheck) request(key string, attempt int32) *deletev1.DeleteRequest {
	req := *NewDeleteRequest()
	if c.contract.Delete != nil {
		req = *c.contract.Delete(c.action)
	}
	req.IdempotencyKey, req.Attempt = key, attempt
	req.BackupOutputs = merge(req.BackupOutputs, c.kept)
	return &req
}

func (c *deleteCheck) succeeds(t *testing.T, req *deletev1.DeleteRequest) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), c.contract.Patience)
	defer cancel()
	report(t, deletionProblems(ctx, c.target, req))
}

// backupSelectorProblems asks twice. What the operator would not understand is an error of
// the call.
func backupSelectorProblems(ctx context.Context, target deletev1.DeleteAction) []string {
	first, err := target.AppliesTo(ctx)
	if err != nil {
		return []string{fmt.Sprintf("AppliesTo failed: %v", err)}
	}
	again, err := target.AppliesTo(ctx)
	if err != nil {
		return []string{fmt.Sprintf("AppliesTo failed when asked again: %v", err)}
	}
	if again != first {
		return []string{fmt.Sprintf("AppliesTo answered %q at first and %q when asked again: it has to stay the same",
			first.LabelSelector, again.LabelSelector)}
	}
	return nil
}

func deletionProblems(ctx context.Context, target deletev1.DeleteAction, req *deletev1.DeleteRequest) []string {
	err := target.Execute(ctx, req)
	switch {
	case err == nil:
		return nil
	case status.Code(err) == codes.Unknown:
		return []string{fmt.Sprintf("Execute failed: %v (what is gone, or never was there, is no error)", err)}
	default:
		return []string{fmt.Sprintf("Execute failed: %v", err)}
	}
}
