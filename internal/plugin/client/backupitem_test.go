// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/plugin/host"
	"github.com/grapnel-dev/grapnel/internal/plugin/plugintesting"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/sdk/item"
)

// fakeBackupAction is a plugin process with one action.
type fakeBackupAction struct {
	selector item.Selector
	chooseBy error
	answer   func(ctx context.Context, object []byte) (BackupItemAnswer, error)
	// lost is the error of a lost connection.
	lost error
	// refuseCancel is the answer to Cancel.
	refuseCancel error

	mu    sync.Mutex
	calls []ItemCall
	log   []host.Call
	sent  [][]byte
	time  []time.Duration
	// cancelled are the operations for which Cancel was called.
	cancelled []OperationRef
}

func (f *fakeBackupAction) Begin(_ context.Context, call host.Call) (host.OpenCall, error) {
	f.mu.Lock()
	f.log = append(f.log, call)
	f.mu.Unlock()
	if f.lost != nil {
		return nil, f.lost
	}
	return plugintesting.Call{CallID: "call-7", EndsWithContext: true}, nil
}

func (f *fakeBackupAction) note(ctx context.Context, call ItemCall, sent ...[]byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, call)
	f.sent = append(f.sent, sent...)
	deadline, _ := ctx.Deadline()
	f.time = append(f.time, time.Until(deadline).Round(time.Second))
}

func (f *fakeBackupAction) AppliesTo(ctx context.Context, call ItemCall) (item.Selector, error) {
	f.note(ctx, call)
	return f.selector, f.chooseBy
}

func (f *fakeBackupAction) Execute(
	ctx context.Context, call ItemCall, object, backup []byte,
) (BackupItemAnswer, error) {
	f.note(ctx, call, object, backup)
	if f.answer == nil {
		return BackupItemAnswer{}, nil
	}
	return f.answer(ctx, object)
}

// Progress is not part of these tests.
func (f *fakeBackupAction) Progress(context.Context, ItemCall, OperationRef) (item.Progress, error) {
	return item.Progress{}, ErrOperationsUnsupported
}

func (f *fakeBackupAction) Cancel(ctx context.Context, call ItemCall, op OperationRef) error {
	f.note(ctx, call)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cancelled = append(f.cancelled, op)
	return f.refuseCancel
}

// backupNames has two resources, as a cluster does.
type backupNames struct{}

func (backupNames) Resolve(name string) (schema.GroupResource, bool) {
	switch name {
	case "po", "pod", "pods":
		return schema.GroupResource{Resource: "pods"}, true
	case "pvc", "persistentvolumeclaims":
		return schema.GroupResource{Resource: "persistentvolumeclaims"}, true
	}
	return schema.GroupResource{}, false
}

const newBackupPod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"shop"},"spec":{"n":1}}`

func podItem() itemaction.BackupItem {
	return itemaction.BackupItem{
		Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, Namespace: "shop", Name: "web", JSON: []byte(newBackupPod),
	}
}

// startedBackupOperation returns the action of a plugin.
func startedBackupOperation(f *fakeBackupAction, edits ...func(*BackupItemActionSpec)) itemaction.BackupPluginAction {
	spec := BackupItemActionSpec{
		Name: "example.io/annotate", Plugin: "demo",
		Resolve: func() (Connection, BackupItemAction, error) { return f, f, nil },
	}
	for _, edit := range edits {
		edit(&spec)
	}
	redactor := redact.New()
	redactor.AddValues("hunter22222")
	return NewBackupItemAction(spec, BackupRun{Key: "u-1", Backup: []byte(`{"kind":"Backup"}`)}, redactor)
}

// wantBackupError fails unless err is exactly want; an empty want means no error.
func wantBackupError(t *testing.T, err error, want string) {
	t.Helper()
	got := ""
	if err != nil {
		got = err.Error()
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
}

func TestBackupItemAction_ResolveSelector(t *testing.T) {
	t.Parallel()
	f := &fakeBackupAction{selector: item.Selector{
		IncludedResources: []string{"po"}, IncludedNamespaces: []string{"sh*"}, LabelSelector: "app=web",
	}}
	a := startedBackupOperation(f)
	if err := a.ResolveSelector(t.Context(), backupNames{}); err != nil {
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

func TestBackupItemAction_ResolveSelectorFails(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		fake *fakeBackupAction
		edit func(*BackupItemActionSpec)
		want string
	}{
		"an error": {
			&fakeBackupAction{chooseBy: status.Error(codes.Unknown, "my password is hunter22222")}, nil,
			`plugin "demo": AppliesTo failed: my password is [REDACTED]`,
		},
		"no process": {
			&fakeBackupAction{lost: &host.LostError{Message: "it ended"}}, nil,
			`plugin "demo": AppliesTo failed: it ended`,
		},
		"a selector that is none": {
			&fakeBackupAction{selector: item.Selector{LabelSelector: "a=(b"}}, nil,
			`plugin "demo": AppliesTo failed: the label selector "a=(b" of its AppliesTo cannot be used: ` +
				`unable to parse requirement: found '(', expected: identifier; ` +
				`the plugin has to return one in the form of kubectl, such as app=shop,tier!=cache`,
		},
		"parameters that cannot be sent": {
			&fakeBackupAction{}, func(s *BackupItemActionSpec) { s.Parameters = map[string]string{"a": "\xff"} },
			`plugin "demo": cannot be called: the parameter "a" is not UTF-8`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			edits := []func(*BackupItemActionSpec){func(*BackupItemActionSpec) {}}
			if tc.edit != nil {
				edits = append(edits, tc.edit)
			}
			wantBackupError(t, startedBackupOperation(tc.fake, edits...).ResolveSelector(t.Context(), backupNames{}),
				"action example.io/annotate cannot be used: "+tc.want+"; fix the plugin, or remove the action")
			err := startedBackupOperation(tc.fake, append(edits, func(s *BackupItemActionSpec) { s.IgnoreFailure = true })...).ResolveSelector(t.Context(), backupNames{})
			var leftOut *itemaction.SkippedActionError
			if !errors.As(err, &leftOut) {
				t.Errorf("an action that may be ignored fails the run: %v", err)
			}
			wantBackupError(t, err, "action example.io/annotate was skipped: "+tc.want)
		})
	}
}

func TestBackupItemAction_CallAttributes(t *testing.T) {
	t.Parallel()
	f := &fakeBackupAction{}
	a := startedBackupOperation(f, func(s *BackupItemActionSpec) {
		s.Parameters = map[string]string{"color": "red"}
		s.Timeout = 90 * time.Second
	})
	if err := a.ResolveSelector(t.Context(), backupNames{}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Execute(t.Context(), podItem()); err != nil {
		t.Fatal(err)
	}
	call := ItemCall{Action: "example.io/annotate", CallID: "call-7", Key: "u-1", Parameters: map[string]string{"color": "red"}}
	if diff := cmp.Diff([]ItemCall{call, call}, f.calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{newBackupPod, `{"kind":"Backup"}`}, []string{string(f.sent[0]), string(f.sent[1])}); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]time.Duration{MaxSelectorTimeout, 90 * time.Second}, f.time); diff != "" {
		t.Errorf("time to answer (-want +got):\n%s", diff)
	}
	if f.log[1].Key != "u-1" {
		t.Errorf("log of %q", f.log[1].Key)
	}
}

func TestBackupItemAction_Execute(t *testing.T) {
	t.Parallel()
	changed := strings.Replace(newBackupPod, `"n":1`, `"n":2`, 1)
	with := func(old, new string) []byte { return []byte(strings.Replace(newBackupPod, old, new, 1)) }
	annotated := func(key, value string) []byte {
		return with(`"name":"web"`, `"annotations":{"`+key+`":`+value+`},"name":"web"`)
	}
	pvc := func(always bool) itemaction.RelatedItem {
		return itemaction.RelatedItem{Resource: schema.GroupResource{Resource: "persistentvolumeclaims"}, Namespace: "shop", Name: "data", IgnoreSelection: always}
	}
	additional := []item.Ref{{Resource: "pvc", Namespace: "shop", Name: "data"}}
	for name, tc := range map[string]struct {
		answer BackupItemAnswer
		want   itemaction.Result
		err    string
	}{
		"no item":        {},
		"the same bytes": {answer: BackupItemAnswer{Item: []byte(newBackupPod)}},
		"the same with white space": {
			answer: BackupItemAnswer{Item: []byte(newBackupPod + "\n")},
		},
		"a changed item": {
			answer: BackupItemAnswer{Item: []byte(changed)}, want: itemaction.Result{JSON: []byte(changed)},
		},
		"additional items": {
			answer: BackupItemAnswer{RelatedItems: additional}, want: itemaction.Result{RelatedItems: []itemaction.RelatedItem{pvc(false)}},
		},
		"an operation": {
			answer: BackupItemAnswer{OperationID: "op-1", PostOperationItems: additional, PollInterval: time.Minute},
			want: itemaction.Result{Operation: &itemaction.Operation{
				ID: "op-1", PostItems: []itemaction.RelatedItem{pvc(false)}, PollInterval: time.Minute,
			}},
		},
		"items for after no operation": {answer: BackupItemAnswer{PostOperationItems: additional}},
		"labels for the Backup": {
			answer: BackupItemAnswer{Item: annotated("grapnel.dev/backup-labels", `"{\"tier\":\"gold\",\"velero.io/x\":\"y\"}"`)},
			want: itemaction.Result{
				BackupLabels: map[string]string{"tier": "gold"},
				Warnings:     []string{`plugin "demo": the Backup does not get the label "velero.io/x": the prefix velero.io is reserved`},
			},
		},
		"left out, as Velero's actions say it": {
			answer: BackupItemAnswer{Item: annotated("velero.io/skip-from-backup", `""`)},
			want:   itemaction.Result{Skip: "the action skips it"},
		},
		"additional items that are a must": {
			answer: BackupItemAnswer{Item: annotated("backup.velero.io/must-include-additional-items", `"true"`), RelatedItems: additional},
			want:   itemaction.Result{RelatedItems: []itemaction.RelatedItem{pvc(true)}},
		},
		"additional items that are none": {
			answer: BackupItemAnswer{Item: annotated("backup.velero.io/must-include-additional-items", `"false"`), RelatedItems: additional},
			want:   itemaction.Result{RelatedItems: []itemaction.RelatedItem{pvc(false)}},
		},
		"not JSON": {
			answer: BackupItemAnswer{Item: []byte("password hunter22222")},
			err:    `plugin "demo": returned something that is not a JSON object`,
		},
		"another object": {
			answer: BackupItemAnswer{Item: with(`"web"`, `"hunter22222"`)},
			err:    `plugin "demo": returned another object: "shop/[REDACTED]" instead of "shop/web"`,
		},
		"another apiVersion": {
			answer: BackupItemAnswer{Item: with(`"v1"`, `"v2"`)},
			err:    `plugin "demo": changed the apiVersion of the object to "v2" from "v1", which is not allowed`,
		},
		"10 MiB": {
			answer: BackupItemAnswer{Item: with(`"n":1`, `"n":"`+strings.Repeat("x", 10<<20)+`"`)},
			err:    `plugin "demo": returned an object of 10485853 bytes; at most 4194304 are allowed`,
		},
		"an additional item without a name": {
			answer: BackupItemAnswer{RelatedItems: []item.Ref{{Resource: "pods"}}},
			err:    `plugin "demo": named additional item 1 (resource "pods", namespace "", name ""), which cannot exist: it has no name`,
		},
		"too many of them": {
			answer: BackupItemAnswer{RelatedItems: make([]item.Ref, item.MaxRefs+1)},
			err:    `plugin "demo": named 10001 additional items for one object; at most 10000 are allowed`,
		},
		"an operation of 1 MiB": {
			answer: BackupItemAnswer{OperationID: strings.Repeat("x", 1<<20)},
			err: `plugin "demo": returned an operation ID of 1048576 bytes; at most 1024 are allowed; ` +
				`it had started the operation "` + strings.Repeat("x", 100) + `", which was canceled`,
		},
		"a bad item for after the operation": {
			answer: BackupItemAnswer{OperationID: "op-1", PostOperationItems: []item.Ref{{Name: "x"}}},
			err: `plugin "demo": named item for after the operation 1 (resource "", namespace "", name "x"), ` +
				`which cannot exist: it has no resource; it had started the operation "op-1", which was canceled`,
		},
		"too many of them for after the operation": {
			answer: BackupItemAnswer{OperationID: "op-1", PostOperationItems: make([]item.Ref, 1001)},
			err: `plugin "demo": named 1001 objects to be archived after its operation; at most 1000 are allowed: ` +
				`name one object that has the others as additional items; it had started the operation "op-1", which was canceled`,
		},
		"an operation beside another object": {
			answer: BackupItemAnswer{OperationID: "op-hunter22222", Item: with(`"web"`, `"other"`)},
			err: `plugin "demo": returned another object: "shop/other" instead of "shop/web"; ` +
				`it had started the operation "op-[REDACTED]", which was canceled`,
		},
		"an operation beside a bad additional item": {
			answer: BackupItemAnswer{OperationID: "op-1", RelatedItems: []item.Ref{{Resource: "pods"}}},
			err: `plugin "demo": named additional item 1 (resource "pods", namespace "", name ""), which cannot exist: it has no name; ` +
				`it had started the operation "op-1", which was canceled`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fakeBackupAction{answer: func(context.Context, []byte) (BackupItemAnswer, error) { return tc.answer, nil }}
			a := startedBackupOperation(f)
			if err := a.ResolveSelector(t.Context(), backupNames{}); err != nil {
				t.Fatal(err)
			}
			got, err := a.Execute(t.Context(), podItem())
			wantBackupError(t, err, tc.err)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
			if undone := tc.err != "" && tc.answer.OperationID != ""; undone != (len(f.cancelled) == 1) {
				t.Errorf("canceled %v; want that of an answer that is refused, and no other", f.cancelled)
			}
		})
	}
}

// An annotation that was in the cluster is ignored: it is not from the action.
func TestBackupItemAction_UnchangedAnnotations(t *testing.T) {
	t.Parallel()
	object := strings.Replace(newBackupPod, `"name":"web"`,
		`"annotations":{"grapnel.dev/backup-labels":"{\"a\":\"b\"}","velero.io/skip-from-backup":"","x":"y"},"name":"web"`, 1)
	a := startedBackupOperation(&fakeBackupAction{answer: func(_ context.Context, object []byte) (BackupItemAnswer, error) {
		return BackupItemAnswer{Item: []byte(strings.Replace(string(object), `"x":"y"`, `"x":"z"`, 1))}, nil
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
func TestBackupItemAction_HungPlugin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fakeBackupAction{answer: func(ctx context.Context, _ []byte) (BackupItemAnswer, error) {
			<-ctx.Done()
			return BackupItemAnswer{}, ctx.Err()
		}}
		a := startedBackupOperation(f)
		start := time.Now()
		var last error
		for range 10_000 {
			_, last = a.Execute(t.Context(), podItem())
		}
		if took := time.Since(start); took != 3*DefaultItemActionTimeout {
			t.Errorf("10000 objects took %s, want three timeouts", took)
		}
		wantBackupError(t, last, `plugin "demo": is no longer called in this run, because 3 consecutive calls had no answer: `+
			`check the plugin and its log; the last of them did not answer before its deadline: `+
			`raise its timeout or check what it waits for`)
	})
}

// An optional action is skipped; its errors about an object are not.
func TestBackupItemAction_IgnoreFailure(t *testing.T) {
	t.Parallel()
	ignored := func(s *BackupItemActionSpec) { s.IgnoreFailure = true }
	synctest.Test(t, func(t *testing.T) {
		a := startedBackupOperation(&fakeBackupAction{answer: func(ctx context.Context, _ []byte) (BackupItemAnswer, error) {
			<-ctx.Done()
			return BackupItemAnswer{}, ctx.Err()
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
	a := startedBackupOperation(&fakeBackupAction{answer: func(context.Context, []byte) (BackupItemAnswer, error) {
		return BackupItemAnswer{}, status.Error(codes.Unknown, "no such volume")
	}}, ignored)
	_, err := a.Execute(t.Context(), podItem())
	wantBackupError(t, err, `plugin "demo": no such volume`)
}

func TestBackupItemAction_ObjectErrorsKeepCircuitClosed(t *testing.T) {
	t.Parallel()
	a := startedBackupOperation(&fakeBackupAction{answer: func(context.Context, []byte) (BackupItemAnswer, error) {
		return BackupItemAnswer{}, status.Error(codes.Unknown, "no such volume")
	}})
	for range 10 {
		_, err := a.Execute(t.Context(), podItem())
		wantBackupError(t, err, `plugin "demo": no such volume`)
	}
}
