// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package deletion_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/grapnel-dev/grapnel/internal/deletion"
	pluginclient "github.com/grapnel-dev/grapnel/internal/plugin/client"
	"github.com/grapnel-dev/grapnel/internal/plugin/host"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/sdk/item"
)

var errFails = errors.New("the cloud says no to " + secret)

// fails returns an error for one object, in its first attempts.
func fails(with error, object string, attempts int) func(context.Context, string, int) error {
	return func(_ context.Context, name string, attempt int) error {
		if (object == "" || name == object) && attempt <= attempts {
			return with
		}
		return nil
	}
}

// hangs does not return for one object, or for every one.
func hangs(object string) func(context.Context, string, int) error {
	return func(ctx context.Context, name string, _ int) error {
		if object == "" || name == object {
			<-ctx.Done()
		}
		return ctx.Err()
	}
}

// TestActions destroys an ordinary backup: whatever the action does, its files are removed.
func TestActions(t *testing.T) {
	t.Parallel()
	all := []string{"disk", "web", "db", "cache"}
	lost := &host.LostError{Message: "the plugin process ended during the call"}
	for name, tc := range map[string]struct {
		fake   fake
		shown  []string
		items  int64
		failed int64
		left   []string
		said   string
	}{
		"everything":          {shown: all, items: 4},
		"a resource":          {fake: fake{selector: item.Selector{IncludedResources: []string{"volumes"}}}, shown: []string{"disk"}, items: 1},
		"a label":             {fake: fake{selector: item.Selector{LabelSelector: "app=db"}}, shown: []string{"db"}, items: 1},
		"a namespace":         {fake: fake{selector: item.Selector{IncludedNamespaces: []string{"shop"}}}, shown: all[1:], items: 3},
		"nothing":             {fake: fake{selector: item.Selector{IncludedResources: []string{"nodes"}}}},
		"gone already":        {fake: fake{execute: fails(status.Error(codes.NotFound, "no snapshot"), "", 9)}, shown: all, items: 4},
		"fails once":          {fake: fake{execute: fails(errFails, "web", 1)}, shown: append(all, "web"), items: 4, said: "the cloud says no"},
		"fails twice":         {fake: fake{execute: fails(errFails, "web", 2)}, shown: append(all, "web", "web"), items: 4, said: "the cloud says no"},
		"fails":               {fake: fake{execute: fails(errFails, "web", 9)}, shown: append(all, "web", "web"), items: 3, failed: 1, left: []string{"example.io/act keeps for pods shop/web: plugin \"acts\": the cloud says no"}, said: "the cloud says no"},
		"fails at length":     {fake: fake{execute: fails(errors.New(strings.Repeat("no ", 2000)), "web", 9)}, shown: append(all, "web", "web"), items: 3, failed: 1, left: []string{"no no no"}, said: "no no no"},
		"hangs for an object": {fake: fake{execute: hangs("web")}, shown: append(all, "web", "web"), items: 3, failed: 1, left: []string{"did not answer before its deadline"}, said: "deadline"},
		"hangs": {
			// Each round ends after three calls; a third round would take more than an hour altogether.
			fake: fake{execute: hangs("")}, failed: 4, said: "deadline",
			shown: []string{"disk", "web", "db", "disk", "web", "db", "disk"},
			left:  []string{"volumes.storage.example.io disk", "3 objects that it did not receive, because the operator gave up on it"},
		},
		"panics": {
			fake:  fake{execute: func(_ context.Context, name string, _ int) error { panic("nil map of " + secret + name) }},
			shown: append(append(all, all...), all...), failed: 4, said: "it panicked: nil map",
			left: []string{"volumes.storage.example.io disk", "pods shop/web", "pods shop/db", "pods shop/cache"},
		},
		"ends at an object": {fake: fake{execute: fails(lost, "web", 9)}, shown: append(all, "web", "web"), items: 3, failed: 1, left: []string{"ended during the call"}, said: "ended"},
		"ends always": {
			fake: fake{execute: fails(lost, "", 99)}, failed: 4, said: "ended",
			shown: []string{"disk", "web", "db", "disk", "web", "db", "disk", "web", "db"},
			left:  []string{"disk", "web", "db", "1 objects that it did not receive"},
		},
		"is back for the second round": {
			fake: fake{execute: fails(lost, "", 1)}, items: 4, said: "ended",
			shown: []string{"disk", "web", "db", "disk", "web", "db", "cache", "cache"},
		},
		"cannot report its selector":    {fake: fake{applies: func(int) error { return errFails }}, left: []string{"example.io/act keeps for any object of the backup"}, said: "AppliesTo failed"},
		"panics instead":                {fake: fake{applies: func(int) error { panic(secret) }}, left: []string{"panicked"}, said: "panicked"},
		"reports its selector on retry": {fake: fake{applies: failsOnce}, shown: all, items: 4, said: "AppliesTo failed"},
		"says nonsense":                 {fake: fake{selector: item.Selector{LabelSelector: "="}}, left: []string{"label selector"}, said: "label selector"},
		"was removed from the plugin":   {fake: fake{resolve: func() error { return pluginclient.ErrNoSuchAction }}, left: []string{"no such action"}, said: "no such action"},
		"was removed meanwhile": {
			fake: fake{resolve: after(2, pluginclient.ErrNoSuchAction)}, shown: all[:1], items: 1, failed: 3, said: "no such action",
			left: []string{"pods shop/web", "2 objects that it did not receive"},
		},
		"plugin is not loaded":                 {fake: fake{resolve: func() error { return errors.New("not loaded") }}, left: []string{"not loaded"}, said: "not loaded"},
		"plugin is not loaded after the first": {fake: fake{resolve: after(2, errors.New("not loaded"))}, shown: all[:1], items: 1, failed: 3, left: []string{"web", "db", "cache"}, said: "not loaded"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store, action := archiveOwnership(t, pack(t, objects()...)), &tc.fake
				began := time.Now()
				result, err := destroy(t.Context(), worker(t), store, request(action))
				if err != nil {
					t.Fatal(err)
				}
				wantNothing(t, store)
				wantShown(t, action, tc.shown...)
				wantLeft(t, result.Leftovers, tc.left...)
				got := result.Actions[0]
				if !strings.Contains(got.Message, tc.said) || (got.Message == "") != (tc.said == "") || strings.Contains(got.Message, secret) {
					t.Errorf("message %q, want one with %q", got.Message, tc.said)
				}
				if len(got.Message) > 1024 {
					t.Errorf("the message has %d bytes, which the API does not take", len(got.Message))
				}
				got.Message = ""
				want := deletion.ActionResult{Name: "example.io/act", Plugin: "acts", Items: tc.items, Failed: tc.failed}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("result (-want +got):\n%s", diff)
				}
				if took := time.Since(began); took > 2*time.Hour {
					t.Errorf("the deletion took %s", took)
				}
			})
		})
	}
}

// TestCallActions_RetryDelays: a plugin that stops gets time to restart, in and between the rounds.
func TestCallActions_RetryDelays(t *testing.T) {
	t.Parallel()
	var pauses []time.Duration
	j := worker(t)
	j.Wait = func(_ context.Context, d time.Duration) error {
		pauses = append(pauses, d)
		return nil
	}
	action := &fake{execute: fails(&host.LostError{Message: "it ended"}, "", 9)}
	if _, err := j.CallActions(t.Context(), storage.New(archiveOwnership(t, pack(t, objects()...)), ""), request(action)); err != nil {
		t.Fatal(err)
	}
	const s = time.Second
	if diff := cmp.Diff([]time.Duration{2 * s, 8 * s, 5 * s, 2 * s, 8 * s, 20 * s, 2 * s, 8 * s}, pauses); diff != "" {
		t.Errorf("pauses (-want +got):\n%s", diff)
	}
}

// TestCallActions_LostInSecondRound: what was not reached in a round is due in the next one, and
// nothing else is.
func TestCallActions_LostInSecondRound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		action := &fake{execute: func(_ context.Context, name string, attempt int) error {
			switch {
			case attempt == 1 && name != "e":
				return errFails
			case attempt == 2 && name != "d":
				return &host.LostError{Message: "it ended"}
			}
			return nil
		}}
		store := archiveOwnership(t, pack(t, pod("a"), pod("b"), pod("c"), pod("d"), pod("e")))
		result, err := worker(t).CallActions(t.Context(), storage.New(store, ""), request(action))
		if err != nil || result.Actions[0].Items != 5 || result.Actions[0].Failed != 0 {
			t.Errorf("%+v, %v", result, err)
		}
		wantShown(t, action, "a", "b", "c", "d", "e", "a", "b", "c", "a", "b", "c", "d")
	})
}

func failsOnce(attempt int) error {
	if attempt == 1 {
		return errFails
	}
	return nil
}

// after returns a function that fails from the n-th call on, counted from 0.
func after(n int, err error) func() error {
	calls := 0
	return func() error {
		if calls++; calls > n {
			return err
		}
		return nil
	}
}

// TestCallActions_Order: every object is passed to one action after the other, and a call contains
// everything that an action needs.
func TestCallActions_Order(t *testing.T) {
	t.Parallel()
	var order []string
	var done []int64
	tell := func(who string) func(context.Context, string, int) error {
		return func(_ context.Context, name string, _ int) error {
			order = append(order, who+" "+name)
			return nil
		}
	}
	a, b := &fake{name: "example.io/a", execute: tell("a")}, &fake{name: "example.io/b", execute: tell("b")}
	req := request(a, b)
	req.Actions[0].Parameters = map[string]string{"mode": "fast"}
	req.Progress = func(n int64) { done = append(done, n) }
	j := worker(t)
	store := archiveOwnership(t, pack(t, pod("web"), pod("db")))
	before := keys(t, store)
	result, err := j.CallActions(t.Context(), storage.New(store, ""), req)
	if err != nil || len(result.Leftovers) > 0 {
		t.Fatalf("%+v, %v", result, err)
	}
	if diff := cmp.Diff(before, keys(t, store)); diff != "" {
		t.Errorf("calling actions changed the files:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a web", "b web", "a db", "b db"}, order); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]int64{1, 2, 3, 4}, done); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
	last := a.last
	if last.call.Key != "run-1" || last.call.Action != "example.io/a" || last.call.Parameters["mode"] != "fast" ||
		string(last.backup) != `{"kind":"Backup"}` || string(last.object) != string(pod("db").json()) {
		t.Errorf("the action was called with %+v, %s and %s", last.call, last.object, last.backup)
	}
	if !strings.Contains(log(t, j), "example.io/b") {
		t.Error("the log does not mention the actions")
	}
}

// TestCallActions_LeftoverLimit: leftovers are named as far as there is room for them.
func TestCallActions_LeftoverLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var entries []entry
		for i := range 300 {
			entries = append(entries, pod(fmt.Sprintf("web-%03d", i)))
		}
		action := &fake{execute: fails(errFails, "", 9)}
		result, err := destroy(t.Context(), worker(t), archiveOwnership(t, pack(t, entries...)), request(action))
		if err != nil {
			t.Fatal(err)
		}
		if got := result.Actions[0]; got.Failed != 300 || len(action.shown) != 900 {
			t.Errorf("%d failed in %d calls, want 300 in 900", got.Failed, len(action.shown))
		}
		if n := len(result.Leftovers); n != deletion.MaxLeftovers || result.Leftovers[n-1] != "and 237 more" {
			t.Errorf("%d entries, the last is %q", n, result.Leftovers[n-1])
		}
	})
}
