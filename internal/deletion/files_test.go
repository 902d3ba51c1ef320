// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package deletion_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/internal/archive"
	"github.com/grapnel-dev/grapnel/internal/deletion"
	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/storetest"
)

const archiveKey = "backups/nightly/nightly.tar.gz"

// TestCallActions_Archives destroys backups with various archives: what can be read is passed on.
func TestCallActions_Archives(t *testing.T) {
	t.Parallel()
	var many []entry
	for i := range 5000 {
		many = append(many, pod(fmt.Sprintf("web-%04d-%x", i, i*i*7919)))
	}
	good, large := pack(t, objects()...), pack(t, many...)
	for name, tc := range map[string]struct {
		// stored is what the backup stored; found is what exists now, nil if nothing.
		stored, found []byte
		limits        archive.Limits
		atLeast, most int
		left          []string
	}{
		"good":      {stored: good, found: good, atLeast: 4, most: 4},
		"empty":     {stored: pack(t), found: pack(t)},
		"missing":   {stored: good, left: []string{"nightly.tar.gz is missing"}},
		"cut":       {stored: large, found: large[:len(large)/2], atLeast: 100, most: 4999, left: []string{"cannot be read to its end"}},
		"damaged":   {stored: large, found: slices.Concat(large[:len(large)/2], []byte(strings.Repeat("x", 2000))), atLeast: 100, most: 4999, left: []string{"cannot be read to its end"}},
		"nonsense":  {stored: good, found: []byte("nonsense"), left: []string{"first 0, because the archive nightly.tar.gz"}},
		"no bytes":  {stored: good, found: []byte{}, left: []string{"first 0"}},
		"replaced":  {stored: good, found: pack(t, pod("db")), left: []string{"is not the one that the backup stored"}},
		"continued": {stored: good, found: slices.Concat(good, good), atLeast: 4, most: 4, left: []string{"cannot be read to its end"}},
		"too large": {stored: good, found: good, limits: archive.Limits{Entries: 4}, atLeast: 1, most: 3, left: []string{"cannot be read to its end"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, action, j := archiveOwnership(t, tc.stored), &fake{}, worker(t)
			j.Limits = tc.limits
			if tc.found == nil {
				if err := store.Delete(t.Context(), archiveKey); err != nil {
					t.Fatal(err)
				}
			} else {
				put(t, store, archiveKey, tc.found)
			}
			result, err := destroy(t.Context(), j, store, request(action))
			if err != nil {
				t.Fatal(err)
			}
			if n := len(action.shown); n < tc.atLeast || n > tc.most {
				t.Errorf("%d objects were shown, want %d to %d", n, tc.atLeast, tc.most)
			}
			wantLeft(t, result.Leftovers, tc.left...)
			wantNothing(t, store)
		})
	}
}

// TestRunner_StoreErrors: as long as the archive cannot be read, nothing is removed.
func TestRunner_StoreErrors(t *testing.T) {
	t.Parallel()
	broken := errors.New("connection reset")
	for name, fault := range map[string]storetest.Fault{
		"no manifest":          {Method: storetest.MethodGet, Key: "*/velero-backup.json", Before: broken},
		"no archive":           {Method: storetest.MethodGet, Key: "*.tar.gz", Before: broken},
		"half of an archive":   {Method: storetest.MethodGet, Key: "*.tar.gz", Cut: true, CutAt: 100, CutErr: broken},
		"the manifest remains": {Method: storetest.MethodDelete, Key: "*/velero-backup.json", Before: broken},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := archiveOwnership(t, pack(t, objects()...))
			before := keys(t, store)
			faulty := storetest.NewFaultyStore(store, fault)
			if _, err := destroy(t.Context(), worker(t), faulty, request(&fake{})); !errors.Is(err, broken) {
				t.Errorf("error %v, want that of the store", err)
			}
			if diff := cmp.Diff(before, keys(t, store)); diff != "" {
				t.Errorf("files (-before +after):\n%s", diff)
			}
		})
	}
}

// TestCallActions_Interrupted: an operator that stops leaves the backup as it was, and the next one passes
// everything again.
func TestCallActions_Interrupted(t *testing.T) {
	t.Parallel()
	for name, execute := range map[string]func(cancel func()) func(context.Context, string, int) error{
		"during a call": func(cancel func()) func(context.Context, string, int) error {
			return func(ctx context.Context, name string, attempt int) error {
				if name == "db" && attempt == 1 {
					cancel()
					return ctx.Err()
				}
				return nil
			}
		},
		"before the next round": func(cancel func()) func(context.Context, string, int) error {
			return func(_ context.Context, name string, attempt int) error {
				if name == "cache" && attempt == 1 {
					cancel()
					return errFails
				}
				return nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := archiveOwnership(t, pack(t, objects()...))
			before := keys(t, store)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			action := &fake{execute: execute(cancel)}
			if _, err := destroy(ctx, worker(t), store, request(action)); !errors.Is(err, context.Canceled) {
				t.Errorf("error %v, want that of the context", err)
			}
			if diff := cmp.Diff(before, keys(t, store)); diff != "" {
				t.Errorf("files (-before +after):\n%s", diff)
			}
			action.shown = nil
			result, err := destroy(t.Context(), worker(t), store, request(action))
			if err != nil || result.Actions[0].Items != 4 {
				t.Errorf("%+v, %v", result, err)
			}
			wantShown(t, action, "disk", "web", "db", "cache")
			wantNothing(t, store)
		})
	}
}

// TestCallActions_InterruptedInLastRound stops the operator in the last round, after which no wait
// would notice.
func TestCallActions_InterruptedInLastRound(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	j := worker(t)
	j.Wait = func(context.Context, time.Duration) error { return nil }
	action := &fake{applies: func(attempt int) error {
		if attempt == 3 {
			cancel()
		}
		return errFails
	}}
	result, err := j.CallActions(ctx, storage.New(archiveOwnership(t, pack(t, objects()...)), ""), request(action))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%+v, %v, want the error of the context", result, err)
	}
}

// TestRunner_Crashes makes the operator crash at each call to the store, before and after the call takes
// effect. Whatever is left, the next one removes it, and actions have received everything before
// the first file is removed.
func TestRunner_Crashes(t *testing.T) {
	t.Parallel()
	prepare := func() objectstore.Store {
		store := archiveOwnership(t, pack(t, objects()...))
		for i := range 40 {
			put(t, store, fmt.Sprintf("backups/nightly/more-%d", i), []byte("x"))
		}
		put(t, store, "restores/monday/restore-monday-logs.gz", []byte("x"))
		put(t, store, "restores/monday/restore-monday-results.gz", []byte("x"))
		return store
	}
	req := func(action *fake) deletion.Request {
		r := request(action)
		r.Restores = []string{"monday", "No Name"}
		return r
	}
	golden := storetest.NewFaultyStore(prepare())
	if _, err := destroy(t.Context(), worker(t), golden, req(&fake{})); err != nil {
		t.Fatal(err)
	}
	calls := len(golden.Calls())
	for k := 1; k <= calls; k++ {
		for _, late := range []bool{false, true} {
			t.Run(fmt.Sprintf("call %d late %v", k, late), func(t *testing.T) {
				t.Parallel()
				store, action := prepare(), &fake{}
				before := len(keys(t, store))
				faulty := storetest.NewFaultyStore(store)
				if late {
					faulty.CrashAfter(k, true)
				} else {
					faulty.CrashAfter(k-1, false)
				}
				if _, err := destroy(t.Context(), worker(t), faulty, req(action)); !errors.Is(err, storetest.ErrCrashed) {
					t.Errorf("error %v, want ErrCrashed", err)
				}
				if len(keys(t, store)) < before && len(action.shown) != 4 {
					t.Errorf("files were removed after only %v were passed on", action.shown)
				}
				if _, err := destroy(t.Context(), worker(t), store, req(action)); err != nil {
					t.Errorf("again: %v", err)
				}
				if n := len(action.shown); n != 4 && n != 8 {
					t.Errorf("%v were shown", action.shown)
				}
				wantNothing(t, store)
			})
		}
	}
}

// TestRunner_StoreCalls counts the calls to the store besides those for the manifests.
func TestRunner_StoreCalls(t *testing.T) {
	t.Parallel()
	for name, actions := range map[string][]*fake{"with an action": {{}}, "without": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := archiveOwnership(t, pack(t, objects()...))
			for i := range 40 {
				put(t, store, fmt.Sprintf("backups/nightly/more-%d", i), []byte("x"))
			}
			counted := storetest.NewFaultyStore(store)
			if _, err := destroy(t.Context(), worker(t), counted, request(actions...)); err != nil {
				t.Fatal(err)
			}
			wantNothing(t, store)
			others := slices.DeleteFunc(counted.Calls(), func(c storetest.Call) bool {
				return strings.HasSuffix(c.Key, "/velero-backup.json") || strings.HasSuffix(c.Key, "/nightly-grapnel.json")
			})
			if len(others) > 4 {
				t.Errorf("%d calls: %v", len(others), others)
			}
		})
	}
}

// TestRunner_ScratchCleanup: nothing of an archive stays in the scratch directory, whatever happens.
func TestRunner_ScratchCleanup(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := worker(t)
		j.Names = func(context.Context) (itemaction.ResourceResolver, error) {
			return nil, errors.New("the cluster does not answer")
		}
		store := archiveOwnership(t, pack(t, objects()...))
		if _, err := destroy(t.Context(), j, store, request(&fake{})); err == nil || !strings.Contains(err.Error(), "the cluster does not answer") {
			t.Errorf("error %v, want that of Names", err)
		}
		if len(keys(t, store)) == 0 {
			t.Error("files were removed")
		}
		j.RemoveRunLog("run-1")
		wantEmpty(t, j.Scratch.Path)
	})
}
