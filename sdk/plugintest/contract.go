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

	"github.com/grapnel-dev/grapnel/sdk"
	"github.com/grapnel-dev/grapnel/sdk/hook"
)

const (
	defaultPatience = 10 * time.Second
	// maxCalls bounds how often an action may ask to be called again.
	maxCalls = 100
	// parallel is how many runs are made at once.
	parallel = 4
)

// sampleBackup is what NewRequest is about.
const sampleBackup = `{"apiVersion":"grapnel.dev/v1alpha1","kind":"Backup",
	"metadata":{"name":"nightly","namespace":"grapnel-system","uid":"4d7c7e3e-0000-4000-8000-000000000001"},
	"spec":{"includedNamespaces":["shop"],"storageLocation":"default"},"status":{"phase":"Completed"}}`

// Contract says how to check a plugin.
type Contract struct {
	// Request returns a request with which the action succeeds; by default
	// NewRequest. Key, attempt and action name are filled in by the check.
	Request func(action Action) *hook.Request
	// Patience is how long an action may take to answer, and to return after its
	// time is over; 10 seconds by default.
	Patience time.Duration
}

// NewRequest returns a request for an invented Backup.
func NewRequest() *hook.Request {
	backup, err := hook.ParseBackup([]byte(sampleBackup))
	if err != nil {
		// The text is a constant.
		panic(err)
	}
	return &hook.Request{
		IdempotencyKey: "key", Attempt: 1, Backup: backup,
		Parameters: map[string]string{}, Outputs: map[string]map[string]string{},
	}
}

// CheckContract checks every action of the plugin in sub-tests: that it succeeds,
// that a second call with the same idempotency key gives the same outputs, that runs
// do not disturb each other, that it returns when its time is over, and that a
// clean-up (the post action of a pair) works without the outputs of the pre action.
func CheckContract(t *testing.T, p *Plugin, c Contract) {
	t.Helper()
	if c.Patience <= 0 {
		c.Patience = defaultPatience
	}
	if c.Request == nil {
		c.Request = func(Action) *hook.Request { return NewRequest() }
	}
	actions, err := p.Actions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	outputs := map[string]map[string]string{}
	for _, kind := range []sdk.Kind{sdk.KindPreBackupAction, sdk.KindPostBackupAction} {
		for _, action := range actions {
			if action.Kind != kind {
				continue
			}
			check := &check{plugin: p, contract: c, action: action, before: outputs}
			t.Run(fmt.Sprintf("%s %s %s", action.Kind, action.Version, action.Name), func(t *testing.T) {
				first := check.run(t)
				if kind == sdk.KindPreBackupAction {
					outputs[action.Name] = first
				}
			})
		}
	}
}

// check is the check of one action.
type check struct {
	plugin   *Plugin
	contract Contract
	action   Action
	before   map[string]map[string]string
}

// run returns the outputs of the action.
func (c *check) run(t *testing.T) map[string]string {
	t.Helper()
	var first map[string]string
	t.Run("succeeds", func(t *testing.T) {
		first = c.succeeds(t, "contract-first", 1, c.before)
	})
	t.Run("is idempotent per key", func(t *testing.T) {
		again := c.succeeds(t, "contract-first", 2, c.before)
		if !maps.Equal(first, again) {
			t.Errorf("the second attempt with the same idempotency key returned outputs %v, the first one %v", again, first)
		}
	})
	t.Run("serves several runs at once", func(t *testing.T) {
		var wg sync.WaitGroup
		for i := range parallel {
			wg.Go(func() { c.succeeds(t, fmt.Sprintf("contract-parallel-%d", i), 1, c.before) })
		}
		wg.Wait()
	})
	t.Run("returns when its time is over", c.returnsInTime)
	if _, pair := c.before[c.action.Name]; pair && c.action.Kind == sdk.KindPostBackupAction {
		t.Run("cleans up without outputs", func(t *testing.T) {
			c.succeeds(t, "contract-no-outputs", 1, nil)
		})
	}
	return first
}

func (c *check) request(key string, attempt int32, outputs map[string]map[string]string) *hook.Request {
	req := *c.contract.Request(c.action)
	req.IdempotencyKey, req.Attempt = key, attempt
	if outputs != nil || req.Outputs == nil {
		req.Outputs = maps.Clone(outputs)
	}
	return &req
}

// succeeds makes one run, with as many calls as the action asks for, and returns its
// outputs.
func (c *check) succeeds(t *testing.T, key string, attempt int32, outputs map[string]map[string]string) map[string]string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), c.contract.Patience)
	defer cancel()
	for range maxCalls {
		resp, err := c.plugin.execute(ctx, c.action, c.request(key, attempt, outputs), c.plugin.newCallID())
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

// returnsInTime calls the action with a ctx that ends at once. Whether it succeeds
// then does not matter, only that it does not go on.
func (c *check) returnsInTime(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	callID := c.plugin.newCallID()
	_, _ = c.plugin.execute(ctx, c.action, c.request("contract-short", 1, c.before), callID)
	timer := time.NewTimer(c.contract.Patience)
	defer timer.Stop()
	select {
	case <-c.plugin.log.end(callID):
	case <-timer.C:
		t.Errorf("the action was still running %s after its time was over: watch ctx.Done()", c.contract.Patience)
	}
}
