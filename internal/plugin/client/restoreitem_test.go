// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/plugin/host"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/sdk/item"
)

// TestRestoreItemAction_VeleroForm: the cleaned object, with the namespace and the labels of
// the backup, and the object as it was archived.
func TestRestoreItemAction_VeleroForm(t *testing.T) {
	t.Parallel()
	var seen RestoreItem
	f := &fakeRestoreAction{execute: func(_ context.Context, sent RestoreItem) (RestoreItemAnswer, error) {
		seen = sent
		return RestoreItemAnswer{}, nil
	}}
	it := newRestorePod(t)
	before := it.Object.DeepCopy()
	if _, err := f.chosen(t, nil).Execute(t.Context(), it); err != nil {
		t.Fatal(err)
	}
	want := decode(t, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"shop","labels":{"app":"web"}},"spec":{"nodeName":"n","count":3}}`)
	if diff := cmp.Diff(want, decode(t, string(seen.Object))); diff != "" {
		t.Errorf("object (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(it.Archived, decode(t, string(seen.Archived))); diff != "" {
		t.Errorf("archived object (-want +got):\n%s", diff)
	}
	if string(seen.Restore) != `{"kind":"Restore"}` {
		t.Errorf("restore is %s", seen.Restore)
	}
	if diff := cmp.Diff(before, it.Object); diff != "" {
		t.Errorf("an empty answer changed the object:\n%s", diff)
	}
	call := ItemCall{Action: "example.io/act", CallID: "call-1", Key: "uid-1", Parameters: map[string]string{"mode": "fast"}}
	if diff := cmp.Diff([]ItemCall{call, call}, f.calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// TestRestoreItemAction_ReturnedObject that was returned: this is hostile input.
func TestRestoreItemAction_ReturnedObject(t *testing.T) {
	t.Parallel()
	raw := func(text string) func(context.Context, RestoreItem) (RestoreItemAnswer, error) {
		return answers(RestoreItemAnswer{Item: []byte(text)}, nil)
	}
	metadata := func(key string, value any) func(context.Context, RestoreItem) (RestoreItemAnswer, error) {
		return returns(func(o map[string]any) { o["metadata"].(map[string]any)[key] = value })
	}
	for name, tc := range map[string]struct {
		execute func(context.Context, RestoreItem) (RestoreItemAnswer, error)
		err     string
		// changed reports that the returned object is used.
		changed bool
	}{
		"nothing":               {execute: raw("")},
		"null":                  {execute: raw("null")},
		"the same":              {execute: returns(func(map[string]any) {})},
		"another field":         {execute: returns(func(o map[string]any) { o["spec"] = map[string]any{} }), changed: true},
		"the mapped namespace":  {execute: metadata("namespace", "office"), changed: true},
		"no namespace":          {execute: metadata("namespace", ""), changed: true},
		"a third namespace":     {execute: metadata("namespace", "kitchen"), err: `returned another object: "kitchen/web" instead of "shop/web"`},
		"another name":          {execute: metadata("name", "db"), err: `returned another object: "shop/db" instead of "shop/web"`},
		"another kind":          {execute: returns(func(o map[string]any) { o["kind"] = "Job" }), changed: true},
		"another apiVersion":    {execute: returns(func(o map[string]any) { o["apiVersion"] = "v2" }), changed: true},
		"no JSON":               {execute: raw("sorry"), err: "returned something that is not a JSON object"},
		"a list":                {execute: raw("[]"), err: "returned something that is not a JSON object"},
		"an empty object":       {execute: raw("{}"), err: `returned another object: "" instead of`},
		"10 MiB":                {execute: metadata("x", strings.Repeat("x", 10<<20)), err: "at most 4194304 are allowed"},
		"a secret as the name":  {execute: metadata("name", secret), err: "returned another object"},
		"a name of many lines":  {execute: metadata("name", strings.Repeat("x\n", 5000)), err: "returned another object"},
		"metadata that is text": {execute: raw(`{"apiVersion":"v1","kind":"Pod","metadata":"x"}`), err: "not a Kubernetes object"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			it := newRestorePod(t)
			before := it.Object
			_, err := (&fakeRestoreAction{execute: tc.execute}).chosen(t, nil).Execute(t.Context(), it)
			wantRestoreError(t, err, tc.err)
			if err != nil && (!strings.HasPrefix(err.Error(), `plugin "acts": `) || len(err.Error()) > 2000 || strings.Contains(err.Error(), "\n")) {
				t.Errorf("the error is not one line that names the plugin: %q", err)
			}
			if changed := it.Object != before; changed != tc.changed {
				t.Errorf("object was changed: %t", changed)
			}
		})
	}
}

// TestRestoreItemAction_BackupLabels removes the labels for the Backup from the object.
func TestRestoreItemAction_BackupLabels(t *testing.T) {
	t.Parallel()
	const key = "grapnel.dev/backup-labels"
	for name, tc := range map[string]struct {
		// archived is the annotation of the object in the backup, and returned the one that
		// the action returns.
		archived, returned string
		want               map[string]string
		warnings           int
		// kept is the annotation of the created object.
		kept string
	}{
		"labels":                      {returned: `{"tier":"gold"}`, want: map[string]string{"tier": "gold"}},
		"labels that are reserved":    {returned: `{"grapnel.dev/x":"y","tier":"gold"}`, want: map[string]string{"tier": "gold"}, warnings: 1},
		"no JSON":                     {returned: `gold`, warnings: 1},
		"those of the object's owner": {archived: `{"tier":"gold"}`, returned: `{"tier":"gold"}`, kept: `{"tier":"gold"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			it := newRestorePod(t)
			if tc.archived != "" {
				it.Object.SetAnnotations(map[string]string{key: tc.archived})
			}
			execute := returns(func(o map[string]any) {
				o["metadata"].(map[string]any)["annotations"] = map[string]any{key: tc.returned, "kept": "yes"}
			})
			result, err := (&fakeRestoreAction{execute: execute}).chosen(t, nil).Execute(t.Context(), it)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, result.BackupLabels); diff != "" || len(result.Warnings) != tc.warnings {
				t.Errorf("warnings %q, labels (-want +got):\n%s", result.Warnings, diff)
			}
			if got := it.Object.GetAnnotations(); got[key] != tc.kept || got["kept"] != "yes" {
				t.Errorf("the object has the annotations %v", got)
			}
		})
	}
}

func TestRestoreItemAction_Execute(t *testing.T) {
	t.Parallel()
	good := item.Ref{Resource: "po", Namespace: "shop", Name: "db"}
	many := make([]item.Ref, item.MaxRefs+1)
	for i := range many {
		many[i] = good
	}
	ref := itemaction.RelatedItem{Resource: schema.GroupResource{Resource: "pods"}, Namespace: "shop", Name: "db"}
	for name, tc := range map[string]struct {
		answer RestoreItemAnswer
		fails  error
		want   itemaction.Result
		err    string
	}{
		"skip":                    {answer: RestoreItemAnswer{Skip: true}, want: itemaction.Result{Skip: "restore action example.io/act skips it"}},
		"additional items":        {answer: RestoreItemAnswer{RelatedItems: []item.Ref{good}}, want: itemaction.Result{RelatedItems: []itemaction.RelatedItem{ref}}},
		"an endless list":         {answer: RestoreItemAnswer{RelatedItems: many}, err: "named 10001 additional items"},
		"an item without name":    {answer: RestoreItemAnswer{RelatedItems: []item.Ref{{Resource: "pods"}}}, err: "which cannot exist: it has no name"},
		"an error":                {fails: status.Error(codes.Unknown, "no space for "+secret), err: "no space for"},
		"a panic":                 {fails: status.Error(codes.Aborted, "plugin panicked: nil"), err: "plugin panicked: nil"},
		"a message too large":     {fails: status.Error(codes.ResourceExhausted, "the call has 5000000 bytes"), err: "is larger than"},
		"outside of the contract": {fails: &ContractError{Message: "answered nonsense"}, err: "answered nonsense"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := (&fakeRestoreAction{execute: answers(tc.answer, tc.fails)}).chosen(t, nil).Execute(t.Context(), newRestorePod(t))
			wantRestoreError(t, err, tc.err)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRestoreItemAction_MustIncludeAnnotation and is not created in the cluster: objects that users exclude
// stay excluded.
func TestRestoreItemAction_MustIncludeAnnotation(t *testing.T) {
	t.Parallel()
	it := newRestorePod(t)
	result, err := (&fakeRestoreAction{execute: returns(func(o map[string]any) {
		o["metadata"].(map[string]any)["annotations"] = map[string]any{restoreMustInclude: "true"}
	})}).chosen(t, nil).Execute(t.Context(), it)
	if err != nil {
		t.Fatal(err)
	}
	if len(result.Warnings) != 1 || !strings.Contains(result.Warnings[0], "this restore did not restore excluded objects") {
		t.Errorf("warnings %q", result.Warnings)
	}
	if _, there := it.Object.GetAnnotations()[restoreMustInclude]; there {
		t.Error("the annotation is still there")
	}
}

func TestRestoreItemAction_ResolveSelector(t *testing.T) {
	t.Parallel()
	unreachable := func(s *RestoreItemActionSpec) {
		s.Resolve = func() (Connection, RestoreItemAction, error) {
			return nil, nil, errors.New(`the plugin "acts" is not loaded`)
		}
	}
	for name, tc := range map[string]struct {
		fake *fakeRestoreAction
		edit func(*RestoreItemActionSpec)
		err  string
	}{
		"a good selector":     {fake: &fakeRestoreAction{selector: item.Selector{IncludedResources: []string{"po"}}}},
		"a bad selector":      {fake: &fakeRestoreAction{selector: item.Selector{LabelSelector: "a=(b"}}, err: `the label selector "a=(b" of its AppliesTo cannot be used`},
		"an error":            {fake: &fakeRestoreAction{applies: func() error { return errors.New("no " + secret) }}, err: "AppliesTo failed"},
		"no plugin":           {fake: &fakeRestoreAction{}, edit: unreachable, err: "is not loaded"},
		"too many parameters": {fake: &fakeRestoreAction{}, edit: func(s *RestoreItemActionSpec) { s.Parameters = map[string]string{"a": strings.Repeat("x", 1<<20)} }, err: "cannot be called"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, ignore := range []bool{false, true} {
				spec := RestoreItemActionSpec{Name: "example.io/act", Plugin: "acts", IgnoreFailure: ignore, Resolve: func() (Connection, RestoreItemAction, error) {
					return tc.fake, tc.fake, nil
				}}
				if tc.edit != nil {
					tc.edit(&spec)
				}
				err := NewRestoreItemAction(spec, RestoreRun{Key: "k"}, redact.New(secret)).ResolveSelector(t.Context(), restoreNames{})
				wantRestoreError(t, err, tc.err)
				leftOut := (*itemaction.SkippedActionError)(nil)
				if err != nil && errors.As(err, &leftOut) != ignore {
					t.Errorf("with Ignore %t: %v", ignore, err)
				}
				if err != nil && (!strings.Contains(err.Error(), "action example.io/act") || !strings.Contains(err.Error(), `plugin "acts"`)) {
					t.Errorf("the error does not name action and plugin: %v", err)
				}
			}
		})
	}
}

// TestRestoreItemAction_Matches and the current labels.
func TestRestoreItemAction_Matches(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		selector item.Selector
		want     bool
	}{
		"where it goes":         {item.Selector{IncludedNamespaces: []string{"office"}}, true},
		"where it comes from":   {item.Selector{IncludedNamespaces: []string{"shop"}}, false},
		"its labels":            {item.Selector{LabelSelector: "app=web"}, true},
		"labels it has no more": {item.Selector{LabelSelector: "app=db"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := newRestorePod(t).Object
			if got := (&fakeRestoreAction{selector: tc.selector}).chosen(t, nil).Matches(object.GetNamespace(), object.GetLabels); got != tc.want {
				t.Errorf("concerns: %t", got)
			}
		})
	}
}

// gone is a plugin process that has exited.
func gone() error { return &host.LostError{Message: "gone"} }

// TestRestoreItemAction_CircuitOpen after three calls without an answer: the plugin is no longer called.
func TestRestoreItemAction_CircuitOpen(t *testing.T) {
	t.Parallel()
	for _, ignore := range []bool{false, true} {
		t.Run(fmt.Sprintf("ignored %t", ignore), func(t *testing.T) {
			t.Parallel()
			f := &fakeRestoreAction{execute: answers(RestoreItemAnswer{}, context.DeadlineExceeded)}
			a := f.chosen(t, func(s *RestoreItemActionSpec) { s.IgnoreFailure = ignore })
			asked := len(f.calls)
			for i := range MaxUnanswered + 2 {
				it := newRestorePod(t)
				result, err := a.Execute(t.Context(), it)
				want := "did not answer before its deadline"
				if i >= MaxUnanswered {
					want = "is no longer called in this run"
				}
				switch {
				case !ignore:
					wantRestoreError(t, err, want)
				case err != nil || len(result.Warnings) != 1 || !strings.Contains(result.Warnings[0], want):
					t.Errorf("warnings %q and error %v", result.Warnings, err)
				}
			}
			if calls := len(f.calls) - asked; calls != MaxUnanswered {
				t.Errorf("%d calls", calls)
			}
		})
	}
}

// TestRestoreItemAction_InterruptedIsNotIgnored: the run ended, and not the plugin.
func TestRestoreItemAction_InterruptedIsNotIgnored(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	f := &fakeRestoreAction{execute: func(ctx context.Context, _ RestoreItem) (RestoreItemAnswer, error) {
		cancel()
		return RestoreItemAnswer{}, ctx.Err()
	}}
	_, err := f.chosen(t, func(s *RestoreItemActionSpec) { s.IgnoreFailure = true }).Execute(ctx, newRestorePod(t))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// TestRestoreItemAction_AreRelatedItemsReady asks about the objects by their names in the backup, and retries when
// the plugin is temporarily unavailable.
func TestRestoreItemAction_AreRelatedItemsReady(t *testing.T) {
	t.Parallel()
	refs := []item.Ref{{Resource: "pods", Namespace: "shop", Name: "db"}}
	for name, tc := range map[string]struct {
		answers []error // of each call; nil means ready
		want    string
	}{
		"yes":                     {answers: []error{nil}},
		"temporarily unavailable": {answers: []error{gone(), gone(), nil}},
		"an error":                {answers: []error{errors.New("the claim is lost")}, want: "the claim is lost"},
		"permanently unavailable": {answers: []error{gone(), gone(), gone()}, want: "gone"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fakeRestoreAction{execute: answers(RestoreItemAnswer{RelatedItems: refs, WaitForRelatedItems: true, WaitTimeout: time.Minute}, nil)}
			calls := 0
			f.ready = func(got []item.Ref) (bool, error) {
				if diff := cmp.Diff(refs, got); diff != "" {
					t.Errorf("asked about (-want +got):\n%s", diff)
				}
				calls++
				return true, tc.answers[calls-1]
			}
			a := f.chosen(t, nil)
			result, err := a.Execute(t.Context(), newRestorePod(t))
			if err != nil || result.ReadyTimeout != time.Minute {
				t.Fatalf("timeout %s and error %v", result.ReadyTimeout, err)
			}
			for ready := false; !ready && err == nil; {
				ready, err = areRelatedItemsReady(t.Context(), t, a, result.RelatedItems)
			}
			wantRestoreError(t, err, tc.want)
			if calls != len(tc.answers) {
				t.Errorf("%d calls, want %d", calls, len(tc.answers))
			}
		})
	}
}

func areRelatedItemsReady(
	ctx context.Context, t *testing.T, a itemaction.RestoreAction, restored []itemaction.RelatedItem,
) (bool, error) {
	t.Helper()
	return a.(itemaction.Waiter[*itemaction.RestoreItem]).AreRelatedItemsReady(ctx, newRestorePod(t), restored)
}

// TestRestoreItemAction_AreRelatedItemsReadyInterrupted does not count against the plugin: it did not get the full time
// of a call.
func TestRestoreItemAction_AreRelatedItemsReadyInterrupted(t *testing.T) {
	t.Parallel()
	f := &fakeRestoreAction{execute: answers(RestoreItemAnswer{WaitForRelatedItems: true}, nil)}
	a := f.chosen(t, nil)
	if _, err := a.Execute(t.Context(), newRestorePod(t)); err != nil {
		t.Fatal(err)
	}
	for range MaxUnanswered {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		f.ready = func([]item.Ref) (bool, error) {
			<-ctx.Done()
			return false, ctx.Err()
		}
		if ready, err := areRelatedItemsReady(ctx, t, a, nil); ready || err != nil {
			t.Errorf("ready: %t, error: %v", ready, err)
		}
		cancel()
	}
	if _, err := a.Execute(t.Context(), newRestorePod(t)); err != nil {
		t.Errorf("the action was given up: %v", err)
	}
}

// TestRestoreItemAction_KeepsNumbers in their archived form.
func TestRestoreItemAction_KeepsNumbers(t *testing.T) {
	t.Parallel()
	it := newRestorePod(t)
	it.Object.Object["spec"] = map[string]any{"large": int64(9007199254740993), "ratio": 1.5}
	data, err := encodeForAction(it)
	if err != nil {
		t.Fatal(err)
	}
	var got struct{ Spec json.RawMessage }
	if err := json.Unmarshal(data, &got); err != nil || string(got.Spec) != `{"large":9007199254740993,"ratio":1.5}` {
		t.Errorf("sent %s, error %v", got.Spec, err)
	}
}
