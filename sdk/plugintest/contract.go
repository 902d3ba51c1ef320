// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package plugintest

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/grapnel-dev/grapnel/sdk"
	deletev1 "github.com/grapnel-dev/grapnel/sdk/deleteaction/v1"
	"github.com/grapnel-dev/grapnel/sdk/hook"
)

const (
	defaultPatience = 10 * time.Second
	// maxCallsPerRun limits how often an action may ask to be called again.
	maxCallsPerRun = 100
	// parallelRuns is the number of concurrent runs.
	parallelRuns = 4
	// shortTimeout is the time an action gets to begin its work before its ctx ends.
	shortTimeout = 10 * time.Millisecond
)

// sampleBackup is the Backup of NewRequest, sampleRestore the Restore of NewRestoreRequest.
const (
	sampleBackup = `{"apiVersion":"grapnel.dev/v1alpha1","kind":"Backup",
	"metadata":{"name":"nightly","namespace":"grapnel-system","uid":"4d7c7e3e-0000-4000-8000-000000000001"},
	"spec":{"includedNamespaces":["shop"],"storageLocation":"default"},"status":{"phase":"Completed"}}`
	sampleRestore = `{"apiVersion":"grapnel.dev/v1alpha1","kind":"Restore",
	"metadata":{"name":"nightly-again","namespace":"grapnel-system","uid":"4d7c7e3e-0000-4000-8000-000000000002"},
	"spec":{"backupName":"nightly","includedNamespaces":["shop"],"namespaceMapping":{"shop":"shop-restored"}},
	"status":{"phase":"Completed"}}`
)

// Contract configures the check of a plugin.
type Contract struct {
	// Request returns a request with which the action succeeds: a request for a Restore if
	// the action's kind is one for Restores. The default is NewRequest or
	// NewRestoreRequest. The check sets key, attempt and action name, and adds the outputs
	// of actions that were checked before.
	Request func(action Action) *hook.Request
	// Delete returns a request with which a DeleteAction succeeds. The default is
	// NewDeleteRequest. The check sets key, attempt and action name, and adds the outputs
	// of the plugin's PreBackup actions.
	Delete func(action Action) *deletev1.DeleteRequest
	// Objects returns objects that an action on items can be called for, in their
	// namespaces in the cluster of the backup. The default is the SampleObjects that the
	// action applies to.
	Objects func(action Action) []*unstructured.Unstructured
	// Parameters returns the parameters that sdk.Parameters returns to an action on items;
	// none by default.
	Parameters func(action Action) map[string]string
	// Store returns the configuration with which an ObjectStore is initialized. The check
	// writes to the bucket named by the key "bucket", by default "contract", below the
	// prefix "plugintest/", and removes what it wrote.
	Store func(action Action) map[string]string
	// Patience is how long an action may take to respond, and to return after its ctx has
	// ended; 10 seconds by default.
	Patience time.Duration
}

// NewRequest returns a request for a sample Backup, for PreBackup and PostBackup actions.
func NewRequest() *hook.Request {
	req := newEmptyRequest()
	req.Backup = mustParse(hook.ParseBackup([]byte(sampleBackup)))
	return req
}

// NewRestoreRequest returns a request for a sample Restore into another namespace, for
// PreRestore and PostRestore actions.
func NewRestoreRequest() *hook.Request {
	req := newEmptyRequest()
	req.Restore = mustParse(hook.ParseRestore([]byte(sampleRestore)))
	return req
}

func newEmptyRequest() *hook.Request {
	return &hook.Request{
		IdempotencyKey: "key", Attempt: 1, Parameters: map[string]string{},
		Outputs: map[string]map[string]string{}, BackupOutputs: map[string]map[string]string{},
	}
}

// mustParse is for constant texts.
func mustParse[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// actionOutputs are the outputs of actions, by name.
type actionOutputs = map[string]map[string]string

// hookSpec is one kind of hook. The specs are in the order in which the check calls them.
type hookSpec struct {
	kind sdk.Kind
	// pairedKind is the kind whose outputs the actions get, the other half of a pair.
	pairedKind sdk.Kind
	// backupKind is the kind whose outputs are stored with the backup.
	backupKind sdk.Kind
	// newRequest is the default of Contract.Request.
	newRequest func() *hook.Request
}

func orderedHookSpecs() []hookSpec {
	return []hookSpec{
		{kind: sdk.KindPreBackupAction, newRequest: NewRequest},
		{kind: sdk.KindPostBackupAction, pairedKind: sdk.KindPreBackupAction, newRequest: NewRequest},
		{kind: sdk.KindPreRestoreAction, backupKind: sdk.KindPreBackupAction, newRequest: NewRestoreRequest},
		{
			kind: sdk.KindPostRestoreAction, pairedKind: sdk.KindPreRestoreAction, backupKind: sdk.KindPreBackupAction,
			newRequest: NewRestoreRequest,
		},
	}
}

// CheckContract checks every action of the plugin in subtests.
//
// For a hook, it checks that the action succeeds, that a second call with the same
// idempotency key returns the same outputs, that runs do not disturb each other, and that a
// clean-up (the post action of a pair) works without the outputs of other actions. Restore
// actions get the outputs of the plugin's PreBackup actions.
//
// For an action on items, it checks that the selector is valid, that the action does not
// change the names of objects, that the names of additional items are well-formed, that
// concurrent calls return the same response, and that Progress works for operations that
// the action starts. The check cancels the operations that it starts.
//
// For an asynchronous action on items, it also checks that a completed operation stays
// completed, that an operation can be canceled twice and is still known after that, and
// that Progress of an unknown operation returns item.ErrUnknownOperation.
//
// For an ObjectStore, it checks that objects are read back unchanged, are replaced
// completely, listed and deleted, and that an interrupted upload leaves nothing behind.
//
// For a DeleteAction, it checks that the selector is valid and stays the same, and that the
// action succeeds: also a second time, in another deletion, without the outputs of other
// actions, and for several deletions concurrently. DeleteActions are checked after all
// others.
//
// For all kinds except an ObjectStore, it checks that a call returns when its ctx ends.
func CheckContract(t *testing.T, p *Plugin, c Contract) {
	t.Helper()
	if c.Patience <= 0 {
		c.Patience = defaultPatience
	}
	kept := checkHookActions(t, p, c)
	for _, action := range p.actions {
		name := fmt.Sprintf("%s %s %s", action.Kind, action.Version, action.Name)
		if action.Kind == sdk.KindObjectStore {
			t.Run(name, func(t *testing.T) { checkObjectStore(t, p, c, action) })
		} else if versions := itemTargetFactories()[action.Kind]; versions != nil {
			target := versions[action.Version](p, action.Name)
			t.Run(name, (&itemCheck{plugin: p, contract: c, action: action, target: target}).runSubtests)
		}
	}
	checkDeleteActions(t, p, c, kept)
}

// checkHookActions checks the run-once actions and returns the outputs of PreBackup actions, which
// are stored with the backup.
func checkHookActions(t *testing.T, p *Plugin, c Contract) actionOutputs {
	t.Helper()
	returned := map[sdk.Kind]actionOutputs{}
	for _, s := range orderedHookSpecs() {
		returned[s.kind] = actionOutputs{}
		for _, action := range p.actions {
			if action.Kind != s.kind {
				continue
			}
			check := &hookCheck{
				plugin: p, contract: c, action: action, spec: s, preOutputs: returned[s.pairedKind], backupOutputs: returned[s.backupKind],
			}
			t.Run(fmt.Sprintf("%s %s %s", action.Kind, action.Version, action.Name), func(t *testing.T) {
				returned[s.kind][action.Name] = check.runSubtests(t)
			})
		}
	}
	return returned[sdk.KindPreBackupAction]
}

// hookCheck is the check of one action.
type hookCheck struct {
	plugin   *Plugin
	contract Contract
	action   Action
	spec     hookSpec
	// preOutputs and backup are the outputs of the plugin's other actions.
	preOutputs, backupOutputs actionOutputs
}

// runSubtests returns the outputs of the action.
func (c *hookCheck) runSubtests(t *testing.T) map[string]string {
	t.Helper()
	var first map[string]string
	t.Run("succeeds", func(t *testing.T) {
		first = c.checkRunSucceeds(t, c.newHookRequest("contract-first", 1))
	})
	t.Run("is idempotent per key", func(t *testing.T) {
		again := c.checkRunSucceeds(t, c.newHookRequest("contract-first", 2))
		if !maps.Equal(first, again) {
			t.Errorf("the second attempt with the same idempotency key returned outputs %v, the first one %v", again, first)
		}
	})
	t.Run("serves several runs at once", func(t *testing.T) {
		var wg sync.WaitGroup
		for i := range parallelRuns {
			req := c.newHookRequest(fmt.Sprintf("contract-parallel-%d", i), 1)
			wg.Go(func() { c.checkRunSucceeds(t, req) })
		}
		wg.Wait()
	})
	t.Run("returns when its time is over", c.checkReturnsInTime)
	if _, pair := c.preOutputs[c.action.Name]; pair {
		t.Run("cleans up without outputs", func(t *testing.T) {
			req := c.newHookRequest("contract-no-outputs", 1)
			req.Outputs, req.BackupOutputs = actionOutputs{}, actionOutputs{}
			c.checkRunSucceeds(t, req)
		})
	}
	return first
}

// newHookRequest completes the author's request.
func (c *hookCheck) newHookRequest(key string, attempt int32) *hook.Request {
	var req hook.Request
	if c.contract.Request != nil {
		req = *c.contract.Request(c.action)
	} else {
		req = *c.spec.newRequest()
	}
	req.IdempotencyKey, req.Attempt = key, attempt
	req.Outputs = mergeOutputs(req.Outputs, c.preOutputs)
	req.BackupOutputs = mergeOutputs(req.BackupOutputs, c.backupOutputs)
	return &req
}

// mergeOutputs returns the union of both; more takes precedence.
func mergeOutputs(some, more actionOutputs) actionOutputs {
	both := actionOutputs{}
	maps.Copy(both, some)
	maps.Copy(both, more)
	return both
}

// checkRunSucceeds executes one run, with as many calls as the action asks for, and returns
// its outputs.
func (c *hookCheck) checkRunSucceeds(t *testing.T, req *hook.Request) map[string]string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), c.contract.Patience)
	defer cancel()
	for range maxCallsPerRun {
		resp, err := c.plugin.executeHookAction(ctx, c.action, req, c.plugin.nextCallID())
		if err != nil {
			t.Errorf("the action failed: %v", err)
			return nil
		}
		if resp.Again == 0 {
			return resp.Outputs
		}
	}
	t.Errorf("the action asked %d times to be called again", maxCallsPerRun)
	return nil
}

func (c *hookCheck) checkReturnsInTime(t *testing.T) {
	checkReturnsInTime(t, c.plugin, c.contract.Patience, func(ctx context.Context, callID string) {
		_, _ = c.plugin.executeHookAction(ctx, c.action, c.newHookRequest("contract-short", 1), callID)
	})
}

// checkReturnsInTime makes a call with a ctx that ends soon. The call may succeed or fail,
// but it must not keep running.
func checkReturnsInTime(t *testing.T, p *Plugin, patience time.Duration, execute func(ctx context.Context, callID string)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	callID := p.nextCallID()
	call := p.calls.trackUpcomingCall(callID)
	var wg sync.WaitGroup
	wg.Go(func() { execute(ctx, callID) })
	defer func() {
		cancel()
		wg.Wait()
	}()
	// The ctx ends only after the call has begun: a call that is abandoned on its way never
	// begins and never ends.
	if !waitWithTimeout(patience, call.begun) {
		t.Errorf("the call did not reach the action within %s", patience)
		return
	}
	if waitWithTimeout(shortTimeout, call.ended) {
		return
	}
	cancel()
	if !waitWithTimeout(patience, call.ended) {
		t.Errorf("the action was still running %s after its ctx ended: watch ctx.Done()", patience)
	}
}

// waitWithTimeout waits until done is closed, at most for d.
func waitWithTimeout(d time.Duration, done <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}
