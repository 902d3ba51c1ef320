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
	// maxCalls bounds how often an action may ask to be called again.
	maxCalls = 100
	// parallel is how many runs are made at once.
	parallel = 4
	// shortTime is what an action gets to begin its work before its time is over.
	shortTime = 10 * time.Millisecond
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
	req := newRequest()
	req.Backup = must(hook.ParseBackup([]byte(sampleBackup)))
	return req
}

// NewRestoreRequest returns a request for an invented Restore into another
// namespace, for PreRestore and PostRestore actions.
func NewRestoreRequest() *hook.Request {
	req := newRequest()
	req.Restore = must(hook.ParseRestore([]byte(sampleRestore)))
	return req
}

func newRequest() *hook.Request {
	return &hook.Request{
		IdempotencyKey: "key", Attempt: 1, Parameters: map[string]string{},
		Outputs: map[string]map[string]string{}, BackupOutputs: map[string]map[string]string{},
	}
}

// must is for texts that are constants.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// outputs are those of actions, by name.
type outputs = map[string]map[string]string

// step is one kind in the order in which a check calls them.
type step struct {
	kind sdk.Kind
	// pre is the kind whose outputs the actions get: the other half of a pair.
	pre sdk.Kind
	// backup is the kind whose outputs come with the backup.
	backup sdk.Kind
	// request is what Contract.Request is by default.
	request func() *hook.Request
}

func steps() []step {
	return []step{
		{kind: sdk.KindPreBackupAction, request: NewRequest},
		{kind: sdk.KindPostBackupAction, pre: sdk.KindPreBackupAction, request: NewRequest},
		{kind: sdk.KindPreRestoreAction, backup: sdk.KindPreBackupAction, request: NewRestoreRequest},
		{
			kind: sdk.KindPostRestoreAction, pre: sdk.KindPreRestoreAction, backup: sdk.KindPreBackupAction,
			request: NewRestoreRequest,
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
	kept := checkHooks(t, p, c)
	for _, action := range p.actions {
		name := fmt.Sprintf("%s %s %s", action.Kind, action.Version, action.Name)
		if action.Kind == sdk.KindObjectStore {
			t.Run(name, func(t *testing.T) { checkStore(t, p, c, action) })
		} else if versions := itemTargets()[action.Kind]; versions != nil {
			target := versions[action.Version](p, action.Name)
			t.Run(name, (&itemCheck{plugin: p, contract: c, action: action, target: target}).run)
		}
	}
	checkDeletes(t, p, c, kept)
}

// checkHooks checks the run-once actions and returns what comes with the backup: the outputs
// of PreBackup actions.
func checkHooks(t *testing.T, p *Plugin, c Contract) outputs {
	t.Helper()
	returned := map[sdk.Kind]outputs{}
	for _, s := range steps() {
		returned[s.kind] = outputs{}
		for _, action := range p.actions {
			if action.Kind != s.kind {
				continue
			}
			check := &check{
				plugin: p, contract: c, action: action, step: s, before: returned[s.pre], backup: returned[s.backup],
			}
			t.Run(fmt.Sprintf("%s %s %s", action.Kind, action.Version, action.Name), func(t *testing.T) {
				returned[s.kind][action.Name] = check.run(t)
			})
		}
	}
	return returned[sdk.KindPreBackupAction]
}

// check is the check of one action.
type check struct {
	plugin   *Plugin
	contract Contract
	action   Action
	step     step
	// before and backup are what the plugin's other actions returned.
	before, backup outputs
}

// run returns the outputs of the action.
func (c *check) run(t *testing.T) map[string]string {
	t.Helper()
	var first map[string]string
	t.Run("succeeds", func(t *testing.T) {
		first = c.succeeds(t, c.request("contract-first", 1))
	})
	t.Run("is idempotent per key", func(t *testing.T) {
		again := c.succeeds(t, c.request("contract-first", 2))
		if !maps.Equal(first, again) {
			t.Errorf("the second attempt with the same idempotency key returned outputs %v, the first one %v", again, first)
		}
	})
	t.Run("serves several runs at once", func(t *testing.T) {
		var wg sync.WaitGroup
		for i := range parallel {
			req := c.request(fmt.Sprintf("contract-parallel-%d", i), 1)
			wg.Go(func() { c.succeeds(t, req) })
		}
		wg.Wait()
	})
	t.Run("returns when its time is over", c.returnsInTime)
	if _, pair := c.before[c.action.Name]; pair {
		t.Run("cleans up without outputs", func(t *testing.T) {
			req := c.request("contract-no-outputs", 1)
			req.Outputs, req.BackupOutputs = outputs{}, outputs{}
			c.succeeds(t, req)
		})
	}
	return first
}

// request returns the author's request, completed.
func (c *check) request(key string, attempt int32) *hook.Request {
	var req hook.Request
	if c.contract.Request != nil {
		req = *c.contract.Request(c.action)
	} else {
		req = *c.step.request()
	}
	req.IdempotencyKey, req.Attempt = key, attempt
	req.Outputs = merge(req.Outputs, c.before)
	req.BackupOutputs = merge(req.BackupOutputs, c.backup)
	return &req
}

// merge returns both together; what is in more wins.
func merge(some, more outputs) outputs {
	both := outputs{}
	maps.Copy(both, some)
	maps.Copy(both, more)
	return both
}

// succeeds makes one run, with as many calls as the action asks for, and returns its
// outputs.
func (c *check) succeeds(t *testing.T, req *hook.Request) map[string]string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), c.contract.Patience)
	defer cancel()
	for range maxCalls {
		resp, err := c.plugin.execute(ctx, c.action, req, c.plugin.newCallID())
		if err != nil {
			t.Errorf("the action failed: %v", err)
			return nil
		}
		if resp.Again == 0 {
			return resp.Outputs
		}
	}
	t.Errorf("the action asked %d times to be called again", maxCalls)
	return nil
}

// returnsInTime calls the action with a ctx that ends soon.
func (c *check) returnsInTime(t *testing.T) {
	returnsInTime(t, c.plugin, c.contract.Patience, func(ctx context.Context, callID string) {
		_, _ = c.plugin.execute(ctx, c.action, c.request("contract-short", 1), callID)
	})
}

// returnsInTime makes a call with a ctx that ends soon. Whether it succeeds then does
// not matter, only that it does not go on.
func returnsInTime(t *testing.T, p *Plugin, patience time.Duration, execute func(ctx context.Context, callID string)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	callID := p.newCallID()
	call := p.calls.follow(callID)
	var wg sync.WaitGroup
	wg.Go(func() { execute(ctx, callID) })
	defer func() {
		cancel()
		wg.Wait()
	}()
	// The time is over only once the call is there: one that is given up on its way
	// never begins, and so never ends.
	if !within(patience, call.begun) {
		t.Errorf("the call did not reach the action within %s", patience)
		return
	}
	if within(shortTime, call.ended) {
		return
	}
	cancel()
	if !within(patience, call.ended) {
		t.Errorf("the action was still running %s after its time was over: watch ctx.Done()", patience)
	}
}

// within waits until done is closed, but no longer than d.
func within(d time.Duration, done <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}
