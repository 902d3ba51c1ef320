// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package deletion_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/archive"
	"github.com/grapnel-dev/grapnel/internal/backupstore"
	"github.com/grapnel-dev/grapnel/internal/deletion"
	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/objectstore"
	"github.com/grapnel-dev/grapnel/internal/objectstore/memory"
	"github.com/grapnel-dev/grapnel/internal/objectstore/storetest"
)

const archiveKey = "backups/nightly/nightly.tar.gz"

// served is a cluster that serves pods.
func served(context.Context) (itemaction.Names, error) { return pods{}, nil }

type pods struct{}

func (pods) Resolve(name string) (schema.GroupResource, bool) {
	return schema.GroupResource{Resource: "pods"}, name == "pods" || name == "po"
}

// TestArchives destroys backups with all sorts of archives: what can be read is shown.
func TestArchives(t *testing.T) {
	t.Parallel()
	var many []entry
	for i := range 5000 {
		many = append(many, pod(fmt.Sprintf("web-%04d-%x", i, i*i*7919)))
	}
	good, large := pack(t, objects()...), pack(t, many...)
	for name, tc := range map[string]struct {
		// stored is what the backup stored; found is what is there, nil if nothing.
		stored, found []byte
		limits        archive.Limits
		atLeast, most int
		left          []string
	}{
		"good":      {stored: good, found: good, atLeast: 4, most: 4},
		"empty":     {stored: pack(t), found: pack(t)},
		"missing":   {stored: good, left: []string{"nightly.tar.gz is missing"}},
		"cut":       {stored: large, found: large[:len(large)/2], atLeast: 100, most: 4999, left: []string{"can not be read to its end"}},
		"damaged":   {stored: large, found: slices.Concat(large[:len(large)/2], []byte(strings.Repeat("x", 2000))), atLeast: 100, most: 4999, left: []string{"can not be read to its end"}},
		"nonsense":  {stored: good, found: []byte("nonsense"), left: []string{"first 0, because the archive nightly.tar.gz"}},
		"no bytes":  {stored: good, found: []byte{}, left: []string{"first 0"}},
		"replaced":  {stored: good, found: pack(t, pod("db")), left: []string{"is not the one that the backup stored"}},
		"continued": {stored: good, found: slices.Concat(good, good), atLeast: 4, most: 4, left: []string{"can not be read to its end"}},
		"too large": {stored: good, found: good, limits: archive.Limits{Entries: 4}, atLeast: 1, most: 3, left: []string{"can not be read to its end"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, action, j := stored(t, tc.stored), &fake{}, worker(t)
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
			wantLeft(t, result.LeftBehind, tc.left...)
			wantNothing(t, store)
		})
	}
}

// TestStoreThatFails: as long as the archive can not be read, nothing is removed.
func TestStoreThatFails(t *testing.T) {
	t.Parallel()
	broken := errors.New("connection reset")
	for name, fault := range map[string]storetest.Fault{
		"no manifest":          {Method: storetest.Get, Key: "*/velero-backup.json", Before: broken},
		"no archive":           {Method: storetest.Get, Key: "*.tar.gz", Before: broken},
		"half of an archive":   {Method: storetest.Get, Key: "*.tar.gz", Cut: true, CutAt: 100, CutErr: broken},
		"the manifest remains": {Method: storetest.Delete, Key: "*/velero-backup.json", Before: broken},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := stored(t, pack(t, objects()...))
			before := keys(t, store)
			faulty := storetest.NewFaulty(store, fault)
			if _, err := destroy(t.Context(), worker(t), faulty, request(&fake{})); !errors.Is(err, broken) {
				t.Errorf("error %v, want that of the store", err)
			}
			if diff := cmp.Diff(before, keys(t, store)); diff != "" {
				t.Errorf("files (-before +after):\n%s", diff)
			}
		})
	}
}

// TestStop: an operator that ends leaves the backup as it was, and the next one shows
// everything again.
func TestStop(t *testing.T) {
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
			store := stored(t, pack(t, objects()...))
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

// TestStopWhileAnActionIsAsked ends the operator in the last round, after which no pause
// would notice.
func TestStopWhileAnActionIsAsked(t *testing.T) {
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
	result, err := j.CallActions(ctx, backupstore.New(stored(t, pack(t, objects()...)), ""), request(action))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%+v, %v, want the error of the context", result, err)
	}
}

// TestCrashes lets the operator die at each call to the store, before the call takes
// effect and after it. Whatever is left, the next one removes it, and actions have seen
// everything before the first file goes.
func TestCrashes(t *testing.T) {
	t.Parallel()
	prepare := func() objectstore.Store {
		store := stored(t, pack(t, objects()...))
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
	golden := storetest.NewFaulty(prepare())
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
				faulty := storetest.NewFaulty(store)
				if late {
					faulty.CrashAfter(k, true)
				} else {
					faulty.CrashAfter(k-1, false)
				}
				if _, err := destroy(t.Context(), worker(t), faulty, req(action)); !errors.Is(err, storetest.ErrCrashed) {
					t.Errorf("error %v, want ErrCrashed", err)
				}
				if len(keys(t, store)) < before && len(action.shown) != 4 {
					t.Errorf("files were removed after only %v were shown", action.shown)
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

// TestCost counts the calls to the store besides those for the manifests.
func TestCost(t *testing.T) {
	t.Parallel()
	for name, actions := range map[string][]*fake{"with an action": {{}}, "without": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := stored(t, pack(t, objects()...))
			for i := range 40 {
				put(t, store, fmt.Sprintf("backups/nightly/more-%d", i), []byte("x"))
			}
			counted := storetest.NewFaulty(store)
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

// TestWhose: only what is one's own is shown and removed.
func TestWhose(t *testing.T) {
	t.Parallel()
	request := func(uid string, force bool) func(*deletion.Request) {
		return func(r *deletion.Request) { r.UID, r.Force = uid, force }
	}
	velero := func(t *testing.T, store objectstore.Store) {
		del(t, store, "nightly-grapnel.json", "nightly-claim.json")
	}
	damaged := func(t *testing.T, store objectstore.Store) {
		put(t, store, "backups/nightly/velero-backup.json", []byte("nonsense"))
	}
	for name, tc := range map[string]struct {
		edit   func(*deletion.Request)
		change func(*testing.T, objectstore.Store)
		shown  int
		left   []string
		taken  string
		stays  bool
		err    string
	}{
		"own":                          {edit: request("u-1", false), shown: 4},
		"another's":                    {edit: request("u-2", false), taken: "made by Backup /nightly (UID u-1", stays: true},
		"another's, by force":          {edit: request("", true), shown: 4},
		"Velero's":                     {edit: request("u-1", false), change: velero, taken: "made by another system", stays: true},
		"Velero's, by force":           {edit: request("", true), change: velero, shown: 4},
		"nobody's":                     {edit: request("", false), stays: true, err: "UID of the Backup"},
		"own, damaged":                 {edit: request("u-1", false), change: damaged, shown: 4},
		"another's, damaged":           {edit: request("u-2", false), change: damaged, taken: "is taken", stays: true},
		"damaged, without a claim":     {edit: request("u-1", false), change: both(damaged, noClaim), left: []string{"no claim says whose"}, stays: true, err: "no claim says whose"},
		"damaged, by force":            {edit: request("", true), change: both(damaged, noClaim), shown: 4},
		"own, half removed":            {edit: request("u-1", false), change: noManifest, shown: 4},
		"own, without archive":         {edit: request("u-1", false), change: both(noManifest, noArchive)},
		"by force, without archive":    {edit: request("", true), change: both(noManifest, noArchive)},
		"a name that can not be":       {edit: func(r *deletion.Request) { r.Name = "No Name" }, stays: true},
		"force for one that can't":     {edit: func(r *deletion.Request) { r.Name, r.Force = "No Name", true }, stays: true},
		"another name":                 {edit: func(r *deletion.Request) { r.Name = "weekly" }, stays: true},
		"another name, which is there": {edit: func(r *deletion.Request) { r.Name, r.Force = "weekly", true }, stays: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, action := stored(t, pack(t, objects()...)), &fake{}
			if tc.change != nil {
				tc.change(t, store)
			}
			before := keys(t, store)
			req := requestOf(action, tc.edit)
			result, err := destroy(t.Context(), worker(t), store, req)
			if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("error %v, want one with %q", err, tc.err)
			}
			if !strings.Contains(result.Taken, tc.taken) || (result.Taken == "") != (tc.taken == "") {
				t.Errorf("taken %q, want something with %q", result.Taken, tc.taken)
			}
			if len(action.shown) != tc.shown {
				t.Errorf("%v were shown, want %d", action.shown, tc.shown)
			}
			wantLeft(t, result.LeftBehind, tc.left...)
			if !tc.stays {
				before = nil
			}
			if diff := cmp.Diff(before, keys(t, store)); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
		})
	}
}

func requestOf(action *fake, edit func(*deletion.Request)) deletion.Request {
	req := request(action)
	edit(&req)
	return req
}

func del(t *testing.T, store objectstore.Store, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := store.Delete(t.Context(), "backups/nightly/"+name); err != nil {
			t.Fatal(err)
		}
	}
}

func both(first, then func(*testing.T, objectstore.Store)) func(*testing.T, objectstore.Store) {
	return func(t *testing.T, store objectstore.Store) { first(t, store); then(t, store) }
}

func noClaim(t *testing.T, store objectstore.Store)    { del(t, store, "nightly-claim.json") }
func noManifest(t *testing.T, store objectstore.Store) { del(t, store, "velero-backup.json") }
func noArchive(t *testing.T, store objectstore.Store)  { del(t, store, "nightly.tar.gz") }

func TestLook(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		name   string
		change func(*testing.T, objectstore.Store)
		want   deletion.Found
	}{
		"own":            {name: "nightly", want: deletion.Found{Exists: true, UID: "u-1"}},
		"none":           {name: "weekly"},
		"impossible":     {name: "No Name"},
		"half removed":   {name: "nightly", change: noManifest},
		"Velero's":       {name: "nightly", change: func(t *testing.T, s objectstore.Store) { del(t, s, "nightly-grapnel.json") }, want: deletion.Found{Exists: true}},
		"two halves":     {name: "nightly", change: raw("velero-backup.json", `{"other":1}`), want: deletion.Found{Exists: true, Damaged: "does not belong to"}},
		"nonsense":       {name: "nightly", change: raw("nightly-grapnel.json", `{`), want: deletion.Found{Exists: true, Damaged: "is not a manifest"}},
		"Velero's wrong": {name: "nightly", change: both(raw("velero-backup.json", `[]`), func(t *testing.T, s objectstore.Store) { del(t, s, "nightly-grapnel.json") }), want: deletion.Found{Exists: true, Damaged: "is no object"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := stored(t, pack(t))
			if tc.change != nil {
				tc.change(t, store)
			}
			found, err := worker(t).Look(t.Context(), backupstore.New(store, ""), tc.name)
			if err != nil {
				t.Fatal(err)
			}
			if found.Exists != tc.want.Exists || found.UID != tc.want.UID || (found.Damaged == "") != (tc.want.Damaged == "") || !strings.Contains(found.Damaged, tc.want.Damaged) {
				t.Errorf("found %+v, want %+v", found, tc.want)
			}
			if good := found.Exists && found.Damaged == ""; good != (len(found.Velero) > 0) || (found.UID != "") != (found.Grapnel != nil) {
				t.Errorf("found the manifests %s and %+v", found.Velero, found.Grapnel)
			}
		})
	}
	broken := storetest.NewFaulty(memory.New(), storetest.Fault{Before: objectstore.ErrUnavailable})
	if _, err := worker(t).Look(t.Context(), backupstore.New(broken, ""), "nightly"); !errors.Is(err, objectstore.ErrUnavailable) {
		t.Errorf("error %v, want that of the store", err)
	}
}

func raw(name, content string) func(*testing.T, objectstore.Store) {
	return func(t *testing.T, s objectstore.Store) {
		put(t, s, "backups/nightly/"+name, bytes.NewBufferString(content).Bytes())
	}
}

// TestCleanFolder: nothing of an archive stays in the scratch folder, whatever happens.
func TestCleanFolder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := worker(t)
		j.Names = func(context.Context) (itemaction.Names, error) { return nil, errors.New("the cluster does not answer") }
		store := stored(t, pack(t, objects()...))
		if _, err := destroy(t.Context(), j, store, request(&fake{})); err == nil || !strings.Contains(err.Error(), "the cluster does not answer") {
			t.Errorf("error %v, want that of Names", err)
		}
		if len(keys(t, store)) == 0 {
			t.Error("files were removed")
		}
		j.Forget("run-1")
		wantEmpty(t, j.ScratchDir)
	})
}
