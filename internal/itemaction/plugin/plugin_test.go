// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/itemaction/remote"
	"github.com/grapnel-dev/grapnel/internal/plugin/adapter"
	"github.com/grapnel-dev/grapnel/internal/plugin/caller"
	"github.com/grapnel-dev/grapnel/internal/plugin/process"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/sdk/item"
)

// fake is a plugin process with one action.
type fake struct {
	selector item.Selector
	chooseBy error
	answer   func(ctx context.Context, object []byte) (adapter.BackupItemAnswer, error)
	// lost is the error of a lost connection.
	lost error
	// refuseCancel is the answer to Cancel.
	refuseCancel error

	mu    sync.Mutex
	calls []adapter.ItemCall
	log   []process.Call
	sent  [][]byte
	time  []time.Duration
	// cancelled are the operations for which Cancel was called.
	cancelled []adapter.OperationRef
}

func (f *fake) Do(
	ctx context.Context, call process.Call, fn func(context.Context, grpc.ClientConnInterface, string) error,
) error {
	f.mu.Lock()
	f.log = append(f.log, call)
	f.mu.Unlock()
	if f.lost != nil {
		return f.lost
	}
	err := fn(ctx, nil, "call-7")
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

func (f *fake) note(ctx context.Context, call adapter.ItemCall, sent ...[]byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, call)
	f.sent = append(f.sent, sent...)
	deadline, _ := ctx.Deadline()
	f.time = append(f.time, time.Until(deadline).Round(time.Second))
}

func (f *fake) AppliesTo(ctx context.Context, _ grpc.ClientConnInterface, call adapter.ItemCall) (item.Selector, error) {
	f.note(ctx, call)
	return f.selector, f.chooseBy
}

func (f *fake) Execute(
	ctx context.Context, _ grpc.ClientConnInterface, call adapter.ItemCall, object, backup []byte,
) (adapter.BackupItemAnswer, error) {
	f.note(ctx, call, object, backup)
	if f.answer == nil {
		return adapter.BackupItemAnswer{}, nil
	}
	return f.answer(ctx, object)
}

// Progress is not part of these tests.
func (f *fake) Progress(context.Context, grpc.ClientConnInterface, adapter.ItemCall, adapter.OperationRef) (item.Progress, error) {
	return item.Progress{}, adapter.ErrOperationsUnsupported
}

func (f *fake) Cancel(ctx context.Context, _ grpc.ClientConnInterface, call adapter.ItemCall, op adapter.OperationRef) error {
	f.note(ctx, call)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cancelled = append(f.cancelled, op)
	return f.refuseCancel
}

// names has two resources, as a cluster does.
type names struct{}

func (names) Resolve(name string) (schema.GroupResource, bool) {
	switch name {
	case "po", "pod", "pods":
		return schema.GroupResource{Resource: "pods"}, true
	case "pvc", "persistentvolumeclaims":
		return schema.GroupResource{Resource: "persistentvolumeclaims"}, true
	}
	return schema.GroupResource{}, false
}

const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"shop"},"spec":{"n":1}}`

func podItem() itemaction.Item {
	return itemaction.Item{
		Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, Namespace: "shop", Name: "web", JSON: []byte(pod),
	}
}

// started returns the action of a plugin.
func started(f *fake, edits ...func(*Spec)) itemaction.PluginAction {
	spec := Spec{
		Name: "example.io/annotate", Plugin: "demo",
		Resolve: func() (caller.Connection, adapter.BackupItemAction, error) { return f, f, nil },
	}
	for _, edit := range edits {
		edit(&spec)
	}
	redactor := redact.New()
	redactor.AddValues("hunter22222")
	return New(spec, BackupRun{Key: "u-1", Backup: []byte(`{"kind":"Backup"}`)}, redactor)
}

// wantError fails unless err is exactly want; an empty want means no error.
func wantError(t *testing.T, err error, want string) {
	t.Helper()
	got := ""
	if err != nil {
		got = err.Error()
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
}

func TestAnActionChoosesItsObjects(t *testing.T) {
	t.Parallel()
	f := &fake{selector: item.Selector{
		IncludedResources: []string{"po"}, IncludedNamespaces: []string{"sh*"}, LabelSelector: "app=web",
	}}
	a := started(f)
	if err := a.ResolveSelector(t.Context(), names{}); err != nil {
		t.Fatal(err)
	}
	labels := func(value string) func() map[string]string {
		return func() map[string]string { return map[string]string{"app": value} }
	}
	switch {
	case !a.AppliesTo(schema.GroupResource{Resource: "pods"}), !a.Matches("shop", labels("web")):
		t.Error("its objects do not concern it")
	case a.AppliesTo(schema.GroupResource{Resource: "secrets"}), a.Matches("office", labels("web")),
		a.Matches("shop", labels("db")), a.Matches("", labels("web")):
		t.Error("other objects concern it")
	}
	if len(f.calls) != 1 {
		t.Errorf("%d calls, want one", len(f.calls))
	}
}

func TestAnActionThatCannotChooseSaysWhy(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		fake *fake
		edit func(*Spec)
		want string
	}{
		"an error": {
			&fake{chooseBy: status.Error(codes.Unknown, "my password is hunter22222")}, nil,
			`plugin "demo": AppliesTo failed: my password is [REDACTED]`,
		},
		"no process": {
			&fake{lost: &process.LostError{Message: "it ended"}}, nil,
			`plugin "demo": AppliesTo failed: it ended`,
		},
		"a selector that is none": {
			&fake{selector: item.Selector{LabelSelector: "a=(b"}}, nil,
			`plugin "demo": AppliesTo failed: the label selector "a=(b" of its AppliesTo cannot be used: ` +
				`unable to parse requirement: found '(', expected: identifier; ` +
				`the plugin has to return one in the form of kubectl, such as app=shop,tier!=cache`,
		},
		"parameters that cannot be sent": {
			&fake{}, func(s *Spec) { s.Parameters = map[string]string{"a": "\xff"} },
			`plugin "demo": cannot be called: the parameter "a" is not UTF-8`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			edits := []func(*Spec){func(*Spec) {}}
			if tc.edit != nil {
				edits = append(edits, tc.edit)
			}
			wantError(t, started(tc.fake, edits...).ResolveSelector(t.Context(), names{}),
				"action example.io/annotate cannot be used: "+tc.want+"; fix the plugin, or remove the action")
			err := started(tc.fake, append(edits, func(s *Spec) { s.IgnoreFailure = true })...).ResolveSelector(t.Context(), names{})
			var leftOut *itemaction.SkippedActionError
			if !errors.As(err, &leftOut) {
				t.Errorf("an action that may be ignored fails the run: %v", err)
			}
			wantError(t, err, "action example.io/annotate was skipped: "+tc.want)
		})
	}
}

func TestACallHasEverything(t *testing.T) {
	t.Parallel()
	f := &fake{}
	a := started(f, func(s *Spec) { s.Parameters = map[string]string{"color": "red"}; s.Timeout = 90 * time.Second })
	if err := a.ResolveSelector(t.Context(), names{}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Execute(t.Context(), podItem()); err != nil {
		t.Fatal(err)
	}
	call := adapter.ItemCall{Action: "example.io/annotate", CallID: "call-7", Key: "u-1", Parameters: map[string]string{"color": "red"}}
	if diff := cmp.Diff([]adapter.ItemCall{call, call}, f.calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{pod, `{"kind":"Backup"}`}, []string{string(f.sent[0]), string(f.sent[1])}); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]time.Duration{remote.MaxSelectorTimeout, 90 * time.Second}, f.time); diff != "" {
		t.Errorf("time to answer (-want +got):\n%s", diff)
	}
	if f.log[1].Key != "u-1" {
		t.Errorf("log of %q", f.log[1].Key)
	}
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	changed := strings.Replace(pod, `"n":1`, `"n":2`, 1)
	with := func(old, new string) []byte { return []byte(strings.Replace(pod, old, new, 1)) }
	annotated := func(key, value string) []byte {
		return with(`"name":"web"`, `"annotations":{"`+key+`":`+value+`},"name":"web"`)
	}
	pvc := func(always bool) itemaction.RelatedItem {
		return itemaction.RelatedItem{Resource: schema.GroupResource{Resource: "persistentvolumeclaims"}, Namespace: "shop", Name: "data", IgnoreSelection: always}
	}
	additional := []item.Ref{{Resource: "pvc", Namespace: "shop", Name: "data"}}
	for name, tc := range map[string]struct {
		answer adapter.BackupItemAnswer
		want   itemaction.Result
		err    string
	}{
		"no item":        {},
		"the same bytes": {answer: adapter.BackupItemAnswer{Item: []byte(pod)}},
		"the same with white space": {
			answer: adapter.BackupItemAnswer{Item: []byte(pod + "\n")},
		},
		"a changed item": {
			answer: adapter.BackupItemAnswer{Item: []byte(changed)}, want: itemaction.Result{JSON: []byte(changed)},
		},
		"additional items": {
			answer: adapter.BackupItemAnswer{RelatedItems: additional}, want: itemaction.Result{RelatedItems: []itemaction.RelatedItem{pvc(false)}},
		},
		"an operation": {
			answer: adapter.BackupItemAnswer{OperationID: "op-1", PostOperationItems: additional, PollInterval: time.Minute},
			want: itemaction.Result{Operation: &itemaction.StartedOperation{
				ID: "op-1", PostOperationItems: []itemaction.RelatedItem{pvc(false)}, PollInterval: time.Minute,
			}},
		},
		"items for after no operation": {answer: adapter.BackupItemAnswer{PostOperationItems: additional}},
		"labels for the Backup": {
			answer: adapter.BackupItemAnswer{Item: annotated("grapnel.dev/backup-labels", `"{\"tier\":\"gold\",\"velero.io/x\":\"y\"}"`)},
			want: itemaction.Result{
				BackupLabels: map[string]string{"tier": "gold"},
				Warnings:     []string{`plugin "demo": the Backup does not get the label "velero.io/x": the prefix velero.io is reserved`},
			},
		},
		"left out, as Velero's actions say it": {
			answer: adapter.BackupItemAnswer{Item: annotated("velero.io/skip-from-backup", `""`)},
			want:   itemaction.Result{Skip: "the action skips it"},
		},
		"additional items that are a must": {
			answer: adapter.BackupItemAnswer{Item: annotated("backup.velero.io/must-include-additional-items", `"true"`), RelatedItems: additional},
			want:   itemaction.Result{RelatedItems: []itemaction.RelatedItem{pvc(true)}},
		},
		"additional items that are none": {
			answer: adapter.BackupItemAnswer{Item: annotated("backup.velero.io/must-include-additional-items", `"false"`), RelatedItems: additional},
			want:   itemaction.Result{RelatedItems: []itemaction.RelatedItem{pvc(false)}},
		},
		"not JSON": {
			answer: adapter.BackupItemAnswer{Item: []byte("password hunter22222")},
			err:    `plugin "demo": returned something that is not a JSON object`,
		},
		"another object": {
			answer: adapter.BackupItemAnswer{Item: with(`"web"`, `"hunter22222"`)},
			err:    `plugin "demo": returned another object: "shop/[REDACTED]" instead of "shop/web"`,
		},
		"another apiVersion": {
			answer: adapter.BackupItemAnswer{Item: with(`"v1"`, `"v2"`)},
			err:    `plugin "demo": changed the apiVersion of the object to "v2" from "v1", which is not allowed`,
		},
		"10 MiB": {
			answer: adapter.BackupItemAnswer{Item: with(`"n":1`, `"n":"`+strings.Repeat("x", 10<<20)+`"`)},
			err:    `plugin "demo": returned an object of 10485853 bytes; at most 4194304 are allowed`,
		},
		"an additional item without a name": {
			answer: adapter.BackupItemAnswer{RelatedItems: []item.Ref{{Resource: "pods"}}},
			err:    `plugin "demo": named additional item 1 (resource "pods", namespace "", name ""), which cannot exist: it has no name`,
		},
		"too many of them": {
			answer: adapter.BackupItemAnswer{RelatedItems: make([]item.Ref, item.MaxRefs+1)},
			err:    `plugin "demo": named 10001 additional items for one object; at most 10000 are allowed`,
		},
		"an operation of 1 MiB": {
			answer: adapter.BackupItemAnswer{OperationID: strings.Repeat("x", 1<<20)},
			err: `plugin "demo": returned an operation ID of 1048576 bytes; at most 1024 are allowed; ` +
				`it had started the operation "` + strings.Repeat("x", 100) + `", which was canceled`,
		},
		"a bad item for after the operation": {
			answer: adapter.BackupItemAnswer{OperationID: "op-1", PostOperationItems: []item.Ref{{Name: "x"}}},
			err: `plugin "demo": named item for after the operation 1 (resource "", namespace "", name "x"), ` +
				`which cannot exist: it has no resource; it had started the operation "op-1", which was canceled`,
		},
		"too many of them for after the operation": {
			answer: adapter.BackupItemAnswer{OperationID: "op-1", PostOperationItems: make([]item.Ref, 1001)},
			err: `plugin "demo": named 1001 objects to be archived after its operation; at most 1000 are allowed: ` +
				`name one object that has the others as additional items; it had started the operation "op-1", which was canceled`,
		},
		"an operation beside another object": {
			answer: adapter.BackupItemAnswer{OperationID: "op-hunter22222", Item: with(`"web"`, `"other"`)},
			err: `plugin "demo": returned another object: "shop/other" instead of "shop/web"; ` +
				`it had started the operation "op-[REDACTED]", which was canceled`,
		},
		"an operation beside a bad additional item": {
			answer: adapter.BackupItemAnswer{OperationID: "op-1", RelatedItems: []item.Ref{{Resource: "pods"}}},
			err: `plugin "demo": named additional item 1 (resource "pods", namespace "", name ""), which cannot exist: it has no name; ` +
				`it had started the operation "op-1", which was canceled`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fake{answer: func(context.Context, []byte) (adapter.BackupItemAnswer, error) { return tc.answer, nil }}
			a := started(f)
			if err := a.ResolveSelector(t.Context(), names{}); err != nil {
				t.Fatal(err)
			}
			got, err := a.Execute(t.Context(), podItem())
			wantError(t, err, tc.err)
			if diff := cmp.Diff(tc.want, got, withoutCancel); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
			if undone := tc.err != "" && tc.answer.OperationID != ""; undone != (len(f.cancelled) == 1) {
				t.Errorf("canceled %v; want that of an answer that is refused, and no other", f.cancelled)
			}
		})
	}
}

// withoutCancel compares operations except for fields that cannot be compared.
var withoutCancel = cmpopts.IgnoreFields(itemaction.StartedOperation{}, "Cancel")

// An annotation that was in the cluster is ignored: it is not from the action.
func TestAnnotationsOfTheClusterAreNotTheActions(t *testing.T) {
	t.Parallel()
	object := strings.Replace(pod, `"name":"web"`,
		`"annotations":{"grapnel.dev/backup-labels":"{\"a\":\"b\"}","velero.io/skip-from-backup":"","x":"y"},"name":"web"`, 1)
	a := started(&fake{answer: func(_ context.Context, object []byte) (adapter.BackupItemAnswer, error) {
		return adapter.BackupItemAnswer{Item: []byte(strings.Replace(string(object), `"x":"y"`, `"x":"z"`, 1))}, nil
	}})
	it := podItem()
	it.JSON = []byte(object)
	got, err := a.Execute(t.Context(), it)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(itemaction.Result{JSON: []byte(strings.Replace(object, `"x":"y"`, `"x":"z"`, 1))}, got); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
}

// A hanging plugin costs three timeouts, and not one for each of many objects.
func TestAHungPluginIsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{answer: func(ctx context.Context, _ []byte) (adapter.BackupItemAnswer, error) {
			<-ctx.Done()
			return adapter.BackupItemAnswer{}, ctx.Err()
		}}
		a := started(f)
		start := time.Now()
		var last error
		for range 10_000 {
			_, last = a.Execute(t.Context(), podItem())
		}
		if took := time.Since(start); took != 3*remote.DefaultTimeout {
			t.Errorf("10000 objects took %s, want three timeouts", took)
		}
		wantError(t, last, `plugin "demo": is no longer called in this run, because 3 consecutive calls had no answer: `+
			`check the plugin and its log; the last of them did not answer before its deadline: `+
			`raise its timeout or check what it waits for`)
	})
}

// An optional action is skipped; its errors about an object are not.
func TestAnIgnoredActionThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	ignored := func(s *Spec) { s.IgnoreFailure = true }
	synctest.Test(t, func(t *testing.T) {
		a := started(&fake{answer: func(ctx context.Context, _ []byte) (adapter.BackupItemAnswer, error) {
			<-ctx.Done()
			return adapter.BackupItemAnswer{}, ctx.Err()
		}}, ignored)
		for range 5 {
			result, err := a.Execute(t.Context(), podItem())
			if err != nil || result.JSON != nil || len(result.Warnings) != 1 || !strings.Contains(result.Warnings[0], "archived as it is") {
				t.Errorf("result %+v, error %v; want a warning", result, err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if result, err := a.Execute(ctx, podItem()); err == nil {
			t.Errorf("a run that was stopped archives: %+v", result)
		}
	})
	a := started(&fake{answer: func(context.Context, []byte) (adapter.BackupItemAnswer, error) {
		return adapter.BackupItemAnswer{}, status.Error(codes.Unknown, "no such volume")
	}}, ignored)
	_, err := a.Execute(t.Context(), podItem())
	wantError(t, err, `plugin "demo": no such volume`)
}

func TestErrorsOfObjectsDoNotGiveAPluginUp(t *testing.T) {
	t.Parallel()
	a := started(&fake{answer: func(context.Context, []byte) (adapter.BackupItemAnswer, error) {
		return adapter.BackupItemAnswer{}, status.Error(codes.Unknown, "no such volume")
	}})
	for range 10 {
		_, err := a.Execute(t.Context(), podItem())
		wantError(t, err, `plugin "demo": no such volume`)
	}
}
