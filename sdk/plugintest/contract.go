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
	// maxCallsPerRun bounds how often an action may ask to be called again.
	maxCallsPerRun = 100
	// parallelRuns is how many runs are made at once.
	parallelRuns = 4
	// shortTimeout is what an action gets to begin its work before its time is over.
	shortTimeout = 10 * time.Millisecond
)

// sampleBackup is what NewRequest is about, sampleRestore what NewRestoreRequest is.
const (
	sampleBackup = `{"apiVersion":"grapnel.dev/v1alpha1","kind":"Backup",
	"metadata":{"name":"nightly","namespace":"grapnel-system","uid":"4d7c7e3e-0000-4000-8000-000000000001"},
	"spec":{"includedNamespaces":["shop"],"storageLocation":"default"},"status":{"phase":"Completed"}}`
	sampleRestore = `{"apiVersion":"grapnel.dev/v1alpha1","kind":"Restore",
	"metadata":{"name":"nightly-again","namespace":"grapnel-system","uid":"4d7c7e3e-0000-4000-8000-000000000002"},
	"spec":{"backupName":"nightly","includedNamespaces":["shop"],"namespaceMapping":{"shop":"shop-restored"}},
	"status":{"phase":"Completed"}}`
)

// Contract says how to check a plugin.
type Contract struct {
	// Request returns a request with which the action succeeds: one for a Restore if
	// the action's kind is one of a Restore. By default it is NewRequest or
	// NewRestoreRequest. Key, attempt and action name are filled in by the check, and
	// the outputs of actions that were checked before are added.
	Request func(action Action) *hook.Request
	// Delete returns a request with which a DeleteAction succeeds; by default it is
	// NewDeleteRequest. Key, attempt and action name are filled in by the check, and the
	// outputs of the plugin's PreBackup actions are added.
	Delete func(action Action) *deletev1.DeleteRequest
	// Objects returns objects that an action on items can be shown, in the namespaces
	// that they have in the cluster of the backup. By default they are those of
	// SampleObjects that the action applies to.
	Objects func(action Action) []*unstructured.Unstructured
	// Parameters returns what sdk.Parameters returns to an action on items; none by
	// default.
	Parameters func(action Action) map[string]string
	// Store returns the configuration that an ObjectStore is initialised with. The
	// check writes to the bucket that the key "bucket" names, by default "contract",
	// below the prefix "plugintest/", and removes what it wrote.
	Store func(action Action) map[string]string
	// Patience is how long an action may take to answer, and to return after its
	// time is over; 10 seconds by default.
	Patience time.Duration
}

// NewRequest returns a request for an invented Backup, for PreBackup and PostBackup
// actions.
func NewRequest() *hook.Request {
	req := newEmptyRequest()
	req.Backup = mustParse(hook.ParseBackup([]byte(sampleBackup)))
	return req
}

// NewRestoreRequest returns a request for an invented Restore into another
// namespace, for PreRestore and PostRestore actions.
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

// mustParse is for texts that are constants.
func mustParse[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// actionOutputs are those of actions, by name.
type actionOutputs = map[string]map[string]string

// hookSpec is one kind in the order in which a check calls them.
type hookSpec struct {
	kind sdk.Kind
	// pairedKind is the kind whose outputs the actions get: the other half of a pair.
	pairedKind sdk.Kind
	// backupKind is the kind whose outputs come with the backup.
	backupKind sdk.Kind
	// newRequest is what Contract.Request is by default.
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

// CheckContract checks every action of the plugin in sub-tests.
//
// Of a hook, that it succeeds, that a second call with the same idempotency key gives
// the same outputs, that runs do not disturb each other, and that a clean-up (the post
// action of a pair) works without the outputs of other actions. Restore actions get
// what the plugin's PreBackup actions returned.
//
// Of an action on items, that its selector can be understood, that it leaves the names
// of objects alone, that what it names besides is well-formed, that calls at the same
// time agree, and that operations it starts can be asked about. The operations that are
// started for the check are cancelled.
//
// Of an asynchronous action on items besides, that an operation that is completed stays so,
// that it can be cancelled twice and is still known then, and that Progress of an unknown
// one answers item.ErrUnknownOperation.
//
// Of an ObjectStore, that objects come back as they were, are replaced as a whole,
// listed and deleted, and that an interrupted upload leaves nothing.
//
// Of a DeleteAction, that its selector can be understood and stays the same, and that it
// succeeds: also a second time, in another deletion, without the outputs of other actions,
// and at the same time for several deletions. DeleteActions are checked after all others.
//
// Of all but an ObjectStore, that a call returns when its time is over.
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

// checkHookActions checks the run-once actions and returns what comes with the backup: the outputs
// of PreBackup actions.
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
	// preOutputs and backup are what the plugin's other actions returned.
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

// newHookRequest returns the author's request, completed.
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

// mergeOutputs returns both together; what is in more wins.
func mergeOutputs(some, more actionOutputs) actionOutputs {
	both := actionOutputs{}
	maps.Copy(both, some)
	maps.Copy(both, more)
	return both
}

// checkRunSucceeds makes one run, with as many calls as the action asks for, and returns its
// outputs.
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

// checkReturnsInTime calls the action with a ctx that ends soon.
func (c *hookCheck) checkReturnsInTime(t *testing.T) {
	checkReturnsInTime(t, c.plugin, c.contract.Patience, func(ctx context.Context, callID string) {
		_, _ = c.plugin.executeHookAction(ctx, c.action, c.newHookRequest("contract-short", 1), callID)
	})
}

// checkReturnsInTime makes a call with a ctx that ends soon. Whether it succeeds then does
// not matter, only that it does not go on.
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
	// The time is over only once the call is there: one that is given up on its way
	// never begins, and so never ends.
	if !waitWithTimeout(patience, call.begun) {
		t.Errorf("the call did not reach the action within %s", patience)
		return
	}
	if waitWithTimeout(shortTimeout, call.ended) {
		return
	}
	cancel()
	if !waitWithTimeout(patience, call.ended) {
		t.Errorf("the action was still running %s after its time was over: watch ctx.Done()", patience)
	}
}

// waitWithTimeout waits until done is closed, but no longer than d.
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
