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
	// backupOutputs are the outputs of the plugin's PreBackup actions.
	backupOutputs actionOutputs
}

// deleteActionFactories create the DeleteActions to check, by version: every version that package
// serve registers has an entry.
func deleteActionFactories() map[string]func(p *Plugin, name string) deletev1.DeleteAction {
	return map[string]func(p *Plugin, name string) deletev1.DeleteAction{sdk.V1: (*Plugin).DeleteActionV1}
}

// checkDeleteActions checks the DeleteActions. They come last because they remove what other
// actions created.
func checkDeleteActions(t *testing.T, p *Plugin, c Contract, kept actionOutputs) {
	t.Helper()
	for _, action := range p.actions {
		if action.Kind != sdk.KindDeleteAction {
			continue
		}
		check := &deleteCheck{
			plugin: p, contract: c, action: action, target: deleteActionFactories()[action.Version](p, action.Name), backupOutputs: kept,
		}
		t.Run(fmt.Sprintf("%s %s %s", action.Kind, action.Version, action.Name), check.runSubtests)
	}
}

func (c *deleteCheck) runSubtests(t *testing.T) {
	t.Run("selects Backups", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(c.withParameters(t.Context()), c.contract.Patience)
		defer cancel()
		reportProblems(t, backupSelectorProblems(ctx, c.target))
	})
	for _, attempt := range c.executeAttempts() {
		t.Run(attempt.name, func(t *testing.T) { c.checkDeleteSucceeds(t, attempt.req) })
	}
	t.Run("serves several deletions at once", func(t *testing.T) {
		var wg sync.WaitGroup
		for i := range parallelRuns {
			req := c.newDeleteRequest(fmt.Sprintf("contract-parallel-%d", i), 1)
			wg.Go(func() { c.checkDeleteSucceeds(t, req) })
		}
		wg.Wait()
	})
	t.Run("returns when its time is over", func(t *testing.T) {
		checkReturnsInTime(t, c.plugin, c.contract.Patience, func(ctx context.Context, callID string) {
			_, _ = c.target.AppliesTo(withCallID(c.withParameters(ctx), callID))
		})
		checkReturnsInTime(t, c.plugin, c.contract.Patience, func(ctx context.Context, callID string) {
			_ = c.target.Execute(withCallID(ctx, callID), c.newDeleteRequest("contract-short", 1))
		})
	})
}

// deleteAttempt is one call of Execute, which must succeed regardless of the calls before
// it.
type deleteAttempt struct {
	name string
	req  *deletev1.DeleteRequest
}

// executeAttempts are executed one after another.
func (c *deleteCheck) executeAttempts() []deleteAttempt {
	alone := c.newDeleteRequest("contract-no-outputs", 1)
	alone.BackupOutputs = actionOutputs{}
	return []deleteAttempt{
		{name: "succeeds", req: c.newDeleteRequest("contract-first", 1)},
		{name: "succeeds when nothing is left", req: c.newDeleteRequest("contract-first", 2)},
		{name: "succeeds in another deletion", req: c.newDeleteRequest("contract-second", 1)},
		{name: "succeeds without outputs", req: alone},
	}
}

// withParameters adds the author's parameters, which AppliesTo also gets.
func (c *deleteCheck) withParameters(ctx context.Context) context.Context {
	return WithParameters(ctx, c.newDeleteRequest("", 1).Parameters)
}

// newDeleteRequest completes the author's request.
func (c *deleteCheck) newDeleteRequest(key string, attempt int32) *deletev1.DeleteRequest {
	req := *NewDeleteRequest()
	if c.contract.Delete != nil {
		req = *c.contract.Delete(c.action)
	}
	req.IdempotencyKey, req.Attempt = key, attempt
	req.BackupOutputs = mergeOutputs(req.BackupOutputs, c.backupOutputs)
	return &req
}

func (c *deleteCheck) checkDeleteSucceeds(t *testing.T, req *deletev1.DeleteRequest) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), c.contract.Patience)
	defer cancel()
	reportProblems(t, deletionProblems(ctx, c.target, req))
}

// backupSelectorProblems calls AppliesTo twice. A selector that the operator would reject
// is an error of the call.
func backupSelectorProblems(ctx context.Context, target deletev1.DeleteAction) []string {
	first, err := target.AppliesTo(ctx)
	if err != nil {
		return []string{fmt.Sprintf("AppliesTo failed: %v", err)}
	}
	again, err := target.AppliesTo(ctx)
	if err != nil {
		return []string{fmt.Sprintf("AppliesTo failed on the second call: %v", err)}
	}
	if again != first {
		return []string{fmt.Sprintf("AppliesTo returned %q first and %q on the second call: the selector must stay the same",
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
		return []string{fmt.Sprintf("Execute failed: %v (missing data, deleted or never created, must not be an error)", err)}
	default:
		return []string{fmt.Sprintf("Execute failed: %v", err)}
	}
}
