// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package plugins

import (
	"fmt"
	"sync"
	"testing"

	"github.com/grapnel-dev/grapnel/test/interop/plugins/actions"
)

const (
	// rounds is how often a fresh process is flooded, and callers is with how many
	// calls at a time.
	rounds  = 5
	callers = 16
)

// TestItemActions_ConcurrentFirstCalls: a plugin for Velero creates an action when it is first
// called, without a lock, and may die of it if two calls are first.
func TestItemActions_ConcurrentFirstCalls(t *testing.T) {
	forReleases(t, func(t *testing.T, release string) {
		h := loaded(t, release)
		for round := range rounds {
			for _, err := range flood(h) {
				t.Errorf("round %d: %v", round, err)
			}
			if n := int(h.exits.Load()); n != round {
				t.Fatalf("%d processes have ended, %d were told to", n, round)
			}
			if _, err := h.archive(t.Context(), actions.BackupV1, do(actions.DoExit)); err == nil {
				t.Fatal("the process did not end")
			}
		}
	})
}

// flood calls all actions at once and returns what went wrong.
func flood(h *host) []error {
	var failed []error
	var mu sync.Mutex
	var calls sync.WaitGroup
	begin := make(chan struct{})
	for range callers {
		for name, call := range h.allActions() {
			calls.Go(func() {
				<-begin
				if err := call(); err != nil {
					mu.Lock()
					defer mu.Unlock()
					failed = append(failed, fmt.Errorf("%s: %w", name, err))
				}
			})
		}
	}
	close(begin)
	calls.Wait()
	return failed
}

// allActions returns a call to each.
func (h *host) allActions() map[string]func() error {
	ctx, object := h.t.Context(), configMap(nil)
	calls := map[string]func() error{}
	for _, name := range []string{actions.BackupV1, actions.BackupV2, actions.BackupBoth} {
		calls[name] = func() error { return second(h.archive(ctx, name, object)) }
	}
	for _, name := range []string{actions.RestoreV1, actions.RestoreV2, actions.RestoreBoth} {
		calls[name] = func() error { return second(h.bring(ctx, name, object)) }
	}
	for _, name := range []string{actions.Delete, actions.DeleteToo} {
		calls[name] = func() error { return h.remove(ctx, name, object) }
	}
	return calls
}
