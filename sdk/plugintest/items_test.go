// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package plugintest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/grapnel-dev/grapnel/sdk"
	backupitemv1 "github.com/grapnel-dev/grapnel/sdk/backupitemaction/v1"
	backupitemv2 "github.com/grapnel-dev/grapnel/sdk/backupitemaction/v2"
	deleteitemv1 "github.com/grapnel-dev/grapnel/sdk/deleteitemaction/v1"
	"github.com/grapnel-dev/grapnel/sdk/item"
	restoreitemv1 "github.com/grapnel-dev/grapnel/sdk/restoreitemaction/v1"
	restoreitemv2 "github.com/grapnel-dev/grapnel/sdk/restoreitemaction/v2"
	"github.com/grapnel-dev/grapnel/sdk/serve"
)

const itemName = "example.io/item"

// pods selects the objects that the actions of these tests see.
type pods struct{}

func (pods) AppliesTo(context.Context) (item.Selector, error) {
	return item.Selector{IncludedResources: []string{"pods"}, LabelSelector: "app=shop"}, nil
}

type backupV1 struct{ pods }

func (backupV1) Execute(ctx context.Context, req *item.BackupRequest) (*item.BackupResponse, error) {
	sdk.Logger(ctx).Info("Looking", "at", req.Item.GetName())
	req.Item.SetLabels(map[string]string{"by": "v1", "parameter": sdk.Parameters(ctx)["p"]})
	return &item.BackupResponse{
		Item: req.Item, AdditionalItems: []item.Ref{{Resource: "secrets", Namespace: "shop", Name: "s"}},
		BackupLabels: map[string]string{"of": req.Backup.Name},
	}, nil
}

type backupV2 struct{ pods }

func (backupV2) Execute(_ context.Context, req *item.BackupRequest) (*backupitemv2.Response, error) {
	return &backupitemv2.Response{
		OperationID: "op-" + req.Item.GetName(), PostOperationItems: []item.Ref{{Resource: "pods", Namespace: "shop", Name: "p"}},
	}, nil
}

func (backupV2) Progress(_ context.Context, req *backupitemv2.OperationRequest) (*item.Progress, error) {
	return &item.Progress{Completed: true, NTotal: 5, Description: req.OperationID + " of " + req.Backup.Name, Updated: time.Unix(7, 0)}, nil
}

func (backupV2) Cancel(_ context.Context, req *backupitemv2.OperationRequest) error {
	return errors.New("cannot cancel " + req.OperationID)
}

type restoreV1 struct{ pods }

func (restoreV1) Execute(_ context.Context, req *item.RestoreRequest) (*item.RestoreResponse, error) {
	return &item.RestoreResponse{SkipRestore: req.ItemFromBackup.GetLabels()["app"] == "shop" && req.Restore.BackupName == "nightly"}, nil
}

type restoreV2 struct{ pods }

func (restoreV2) Execute(context.Context, *item.RestoreRequest) (*restoreitemv2.Response, error) {
	return &restoreitemv2.Response{
		RestoreResponse:        item.RestoreResponse{AdditionalItems: []item.Ref{{Resource: "configmaps", Namespace: "shop", Name: "c"}}},
		WaitForAdditionalItems: true, AdditionalItemsReadyTimeout: time.Minute, OperationID: "op",
	}, nil
}

func (restoreV2) Progress(_ context.Context, req *restoreitemv2.OperationRequest) (*item.Progress, error) {
	return &item.Progress{Description: req.OperationID + " of " + req.Restore.Name}, nil
}

func (restoreV2) Cancel(context.Context, *restoreitemv2.OperationRequest) error { return nil }

func (restoreV2) AreAdditionalItemsReady(_ context.Context, req *restoreitemv2.ReadyRequest) (bool, error) {
	if req.AdditionalItems[0].Namespace != "shop-restored" {
		return false, errors.New("called with the namespace of the backup")
	}
	return true, nil
}

type deleteV1 struct{ pods }

func (deleteV1) Execute(_ context.Context, req *item.DeleteRequest) error {
	if req.Item.GetName() == "stuck" {
		return errors.New("cannot delete")
	}
	return nil
}

func startItems(t *testing.T) *Plugin {
	t.Helper()
	return Start(t, serve.New().
		RegisterBackupItemActionV1(itemName, func() (backupitemv1.BackupItemAction, error) { return backupV1{}, nil }).
		RegisterBackupItemActionV1("example.io/both", func() (backupitemv1.BackupItemAction, error) { return backupV1{}, nil }).
		RegisterBackupItemActionV2("example.io/both", func() (backupitemv2.BackupItemAction, error) { return backupV2{}, nil }).
		RegisterRestoreItemActionV1(itemName, func() (restoreitemv1.RestoreItemAction, error) { return restoreV1{}, nil }).
		RegisterRestoreItemActionV2("example.io/both", func() (restoreitemv2.RestoreItemAction, error) { return restoreV2{}, nil }).
		RegisterDeleteItemActionV1(itemName, func() (deleteitemv1.DeleteItemAction, error) { return deleteV1{}, nil }))
}

func TestBackupItemActionV1(t *testing.T) {
	t.Parallel()
	p := startItems(t)
	pod := SampleObjects()[0]
	ctx := WithKey(WithParameters(t.Context(), map[string]string{"p": "ü"}), "run")
	resp, err := p.BackupItemActionV1(itemName).Execute(ctx, NewBackupItemRequest(pod))
	if err != nil {
		t.Fatal(err)
	}
	if got := resp.Item.GetLabels(); got["by"] != "v1" || got["parameter"] != "ü" {
		t.Errorf("the item has the labels %v", got)
	}
	if resp.BackupLabels["of"] != "nightly" || len(resp.Item.GetAnnotations()) > 0 {
		t.Errorf("labels for the Backup are %v, annotations of the item %v", resp.BackupLabels, resp.Item.GetAnnotations())
	}
	if len(resp.AdditionalItems) != 1 || resp.AdditionalItems[0].Name != "s" {
		t.Errorf("additional items are %v", resp.AdditionalItems)
	}
	if pod.GetLabels()["by"] != "" {
		t.Error("the object of the test was changed")
	}
	if lines := p.LogLines("run"); len(lines) != 1 || !strings.Contains(lines[0], `"at":"web-0"`) {
		t.Errorf("the log is %q", lines)
	}
}

// TestPlugin_ItemActionVersions checks that no version replaces another: a test
// would pass for a response that the operator does not get.
func TestPlugin_ItemActionVersions(t *testing.T) {
	t.Parallel()
	p := startItems(t)
	req := NewBackupItemRequest(SampleObjects()[0])
	first, err := p.BackupItemActionV1("example.io/both").Execute(t.Context(), req)
	if err != nil || first.Item.GetLabels()["by"] != "v1" {
		t.Errorf("version 1 returned %+v, %v", first, err)
	}
	_, err = p.BackupItemActionV2(itemName).Execute(t.Context(), req)
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("version 2 of an action that has only version 1: error is %v", err)
	}
	_, err = p.RestoreItemActionV1("example.io/both").Execute(t.Context(), NewRestoreItemRequest(req.Item))
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("version 1 of an action that has only version 2: error is %v", err)
	}
}

// TestPlugin_AllVersions uses the registrations of package serve, so a new
// version cannot be forgotten here.
func TestPlugin_AllVersions(t *testing.T) {
	t.Parallel()
	hooks := map[sdk.Kind]bool{}
	for _, s := range orderedHookSpecs() {
		hooks[s.kind] = true
	}
	server, plugin := reflect.TypeFor[*serve.Server](), reflect.TypeFor[*Plugin]()
	for method := range server.Methods() {
		name, ok := strings.CutPrefix(method.Name, "Register")
		if !ok {
			continue
		}
		end := strings.LastIndex(name, "V")
		kind, version := sdk.Kind(name[:end]), strings.ToLower(name[end:])
		if hooks[kind] {
			continue
		}
		registered := method.Type.In(2).Out(0)
		if call, ok := plugin.MethodByName(name); !ok || call.Type.Out(0) != registered {
			t.Errorf("Plugin has no method %s that returns %s", name, registered)
		}
		checked := itemTargetFactories()[kind][version] != nil || kind == sdk.KindObjectStore ||
			kind == sdk.KindDeleteAction && deleteActionFactories()[version] != nil
		if !checked {
			t.Errorf("CheckContract cannot check %s %s", kind, version)
		}
	}
}

func TestBackupItemActionV2(t *testing.T) {
	t.Parallel()
	p := startItems(t)
	action := p.BackupItemActionV2("example.io/both")
	req := NewBackupItemRequest(SampleObjects()[0])
	resp, err := action.Execute(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if resp.OperationID != "op-web-0" || len(resp.PostOperationItems) != 1 || resp.Item.GetLabels()["app"] != "shop" {
		t.Errorf("the answer is %+v, want that of version 2", resp)
	}
	operation := &backupitemv2.OperationRequest{OperationID: resp.OperationID, Backup: req.Backup}
	progress, err := action.Progress(t.Context(), operation)
	if err != nil {
		t.Fatal(err)
	}
	if !progress.Completed || progress.NTotal != 5 || progress.Description != "op-web-0 of nightly" || progress.Updated.Unix() != 7 || !progress.Started.IsZero() {
		t.Errorf("the progress is %+v", progress)
	}
	if err := action.Cancel(t.Context(), operation); status.Code(err) != codes.Unknown || !strings.Contains(err.Error(), "cannot cancel op-web-0") {
		t.Errorf("error of Cancel is %v", err)
	}
}

func TestRestoreItemActionV2(t *testing.T) {
	t.Parallel()
	p := startItems(t)
	req := NewRestoreItemRequest(SampleObjects()[0])
	skipped, err := p.RestoreItemActionV1(itemName).Execute(t.Context(), req)
	if err != nil || !skipped.SkipRestore {
		t.Errorf("version 1 returned %+v, %v", skipped, err)
	}
	action := p.RestoreItemActionV2("example.io/both")
	resp, err := action.Execute(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if resp.SkipRestore || !resp.WaitForAdditionalItems || resp.AdditionalItemsReadyTimeout != time.Minute || resp.OperationID != "op" {
		t.Errorf("version 2 returned %+v", resp)
	}
	if err := (restoreTargetV2{action}).checkItemsReady(t.Context(), resp.AdditionalItems); err != nil {
		t.Error(err)
	}
	progress, err := action.Progress(t.Context(), &restoreitemv2.OperationRequest{OperationID: "op", Restore: req.Restore})
	if err != nil || progress.Description != "op of nightly-again" {
		t.Errorf("the progress is %+v, %v", progress, err)
	}
}

func TestDeleteItemActionV1(t *testing.T) {
	t.Parallel()
	action := startItems(t).DeleteItemActionV1(itemName)
	object := SampleObjects()[0]
	if err := action.Execute(t.Context(), NewDeleteItemRequest(object)); err != nil {
		t.Error(err)
	}
	object.SetName("stuck")
	if err := action.Execute(t.Context(), NewDeleteItemRequest(object)); status.Code(err) != codes.Unknown {
		t.Errorf("error is %v", err)
	}
}

// seen records the objects that an action is called for.
type seen struct {
	backupV1
	mu      sync.Mutex
	objects map[string]int
}

func (s *seen) Execute(ctx context.Context, req *item.BackupRequest) (*item.BackupResponse, error) {
	s.mu.Lock()
	s.objects[req.Item.GetKind()+" "+req.Item.GetName()+sdk.Parameters(ctx)["suffix"]]++
	s.mu.Unlock()
	return s.backupV1.Execute(ctx, req)
}

func TestCheckContract_Objects(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		contract Contract
		want     string
	}{
		"what the action applies to": {want: "map[Pod web-0:6]"},
		"the author's objects": {contract: Contract{
			Objects: func(Action) []*unstructured.Unstructured {
				return []*unstructured.Unstructured{{Object: map[string]any{"kind": "Thing", "apiVersion": "x.io/v1", "metadata": map[string]any{"name": "one"}}}}
			},
			Parameters: func(Action) map[string]string { return map[string]string{"suffix": "!"} },
		}, want: "map[Thing one!:6]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			action := &seen{objects: map[string]int{}}
			CheckContract(t, Start(t, serve.New().RegisterBackupItemActionV1(itemName, func() (backupitemv1.BackupItemAction, error) {
				return action, nil
			})), tc.contract)
			if got := fmt.Sprint(action.objects); got != tc.want {
				t.Errorf("called for %s, want %s: once, four times concurrently, and once with a short timeout", got, tc.want)
			}
		})
	}
}

// acceptingV2 is a backupV2 that can be canceled.
type acceptingV2 struct{ backupV2 }

func (acceptingV2) Cancel(context.Context, *backupitemv2.OperationRequest) error { return nil }

func TestCheckContract_ItemActions(t *testing.T) {
	t.Parallel()
	CheckContract(t, Start(t, serve.New().
		RegisterBackupItemActionV1(itemName, func() (backupitemv1.BackupItemAction, error) { return backupV1{}, nil }).
		RegisterBackupItemActionV2(itemName, func() (backupitemv2.BackupItemAction, error) { return acceptingV2{}, nil }).
		RegisterRestoreItemActionV1(itemName, func() (restoreitemv1.RestoreItemAction, error) { return restoreV1{}, nil }).
		RegisterRestoreItemActionV2(itemName, func() (restoreitemv2.RestoreItemAction, error) { return restoreV2{}, nil }).
		RegisterDeleteItemActionV1(itemName, func() (deleteitemv1.DeleteItemAction, error) { return deleteV1{}, nil })), Contract{})
}

func TestSelectorProblems(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		selector item.Selector
		want     string
	}{
		"everything":             {},
		"everything allowed":     {selector: item.Selector{IncludedNamespaces: []string{"shop-*", "*"}, ExcludedNamespaces: []string{"kube-system"}, IncludedResources: []string{"*", "pods", "deployments.apps"}, LabelSelector: "app=shop,tier notin (cache),!old"}},
		"invalid label selector": {selector: item.Selector{LabelSelector: "app in shop"}, want: "cannot be read"},
		"invalid namespace":      {selector: item.Selector{ExcludedNamespaces: []string{"Shop"}}, want: `"Shop" is not the name of a namespace`},
		"invalid resource":       {selector: item.Selector{IncludedResources: []string{"apps/v1, Kind=Deployment"}}, want: "is not the name of a resource"},
		"included and excluded":  {selector: item.Selector{IncludedResources: []string{"pods"}, ExcludedResources: []string{"pods"}}, want: `the resource "pods" is included and excluded`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantProblem(t, selectorProblems(tc.selector), tc.want)
		})
	}
}

func wantProblem(t *testing.T, problems []string, want string) {
	t.Helper()
	if (want == "") != (len(problems) == 0) || !strings.Contains(strings.Join(problems, "\n"), want) {
		t.Errorf("problems are %q, want %q", problems, want)
	}
}

func TestAnswerProblems(t *testing.T) {
	t.Parallel()
	changed := func(fields ...string) *itemAnswer {
		pod := SampleObjects()[0]
		if err := unstructured.SetNestedField(pod.Object, "other", fields...); err != nil {
			t.Fatal(err)
		}
		return &itemAnswer{Item: pod}
	}
	named := func(ref item.Ref) *itemAnswer {
		return &itemAnswer{Item: SampleObjects()[0], Refs: map[string][]item.Ref{additionalRefs: {ref}}}
	}
	labelled := func(key, value string) *itemAnswer {
		return &itemAnswer{Item: SampleObjects()[0], Labels: map[string]string{key: value}}
	}
	left, converted := changed("metadata", "name"), changed("kind")
	left.SkipRestore, converted.Converts = true, true
	for name, tc := range map[string]struct {
		answer *itemAnswer
		want   string
	}{
		"another field":       {answer: changed("spec", "nodeName")},
		"another name":        {answer: changed("metadata", "name"), want: `changed the name of the object from "web-0" to "other"`},
		"another namespace":   {answer: changed("metadata", "namespace"), want: "changed the namespace"},
		"another apiVersion":  {answer: changed("apiVersion"), want: "changed the apiVersion"},
		"another kind":        {answer: changed("kind"), want: "changed the kind"},
		"left out":            {answer: left},
		"converted":           {answer: converted},
		"good names":          {answer: named(item.Ref{Group: "apps", Resource: "deployments", Namespace: "shop", Name: "web"})},
		"cluster-scoped":      {answer: named(item.Ref{Group: "rbac.authorization.k8s.io", Resource: "clusterroles", Name: "system:node"})},
		"a kind":              {answer: named(item.Ref{Resource: "Secret", Namespace: "shop", Name: "s"}), want: "the resource must be a lower-case plural"},
		"resource with group": {answer: named(item.Ref{Resource: "deployments.apps", Namespace: "shop", Name: "s"}), want: "its group a separate field"},
		"a version":           {answer: named(item.Ref{Group: "apps/v1", Resource: "deployments", Name: "s"}), want: "the group must be a DNS name"},
		"a path":              {answer: named(item.Ref{Resource: "secrets", Namespace: "shop", Name: "../s"}), want: "may not contain '/'"},
		"no name":             {answer: named(item.Ref{Resource: "secrets", Namespace: "shop"}), want: "the name is empty"},
		"bad namespace":       {answer: named(item.Ref{Resource: "secrets", Namespace: "a/b", Name: "s"}), want: "the namespace must be a DNS label"},
		"good label":          {answer: labelled("example.io/team", "a")},
		"a bad key":           {answer: labelled("team of", "a"), want: "is not a label for the Backup"},
		"bad label value":     {answer: labelled("team", "a b"), want: "is not a label for the Backup"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantProblem(t, answerProblems(SampleObjects()[0], tc.answer), tc.want)
		})
	}
}

func TestItemAnswer_IsEquivalentTo(t *testing.T) {
	t.Parallel()
	first := &itemAnswer{Item: SampleObjects()[0], OperationID: "1"}
	if !first.isEquivalentTo(&itemAnswer{Item: SampleObjects()[0], OperationID: "2"}) {
		t.Error("different operations make two responses differ")
	}
	noted := func(id string) *itemAnswer {
		object := SampleObjects()[0].DeepCopy()
		object.SetAnnotations(map[string]string{"example.io/operation": id})
		return &itemAnswer{Item: object, OperationID: id, Refs: map[string][]item.Ref{additionalRefs: {{Resource: "moves", Name: "move-" + id}}}}
	}
	if !noted("5f1c").isEquivalentTo(noted("9a2e")) {
		t.Error("an object with the ID of its operation makes two responses differ")
	}
	for name, other := range map[string]*itemAnswer{
		"item": {Item: SampleObjects()[1]}, "left out": {Item: SampleObjects()[0], SkipRestore: true},
		"labels": {Item: SampleObjects()[0], Labels: map[string]string{"a": "b"}},
		"refs":   {Item: SampleObjects()[0], Refs: map[string][]item.Ref{additionalRefs: {{Name: "n"}}}},
	} {
		if first.isEquivalentTo(other) {
			t.Errorf("responses with a different %s are equivalent", name)
		}
	}
}

func TestSamplesMatching(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		selector item.Selector
		want     string
	}{
		"all":               {want: "Pod PersistentVolumeClaim ConfigMap"},
		"by resource":       {selector: item.Selector{IncludedResources: []string{"PVC"}}, want: "PersistentVolumeClaim"},
		"by wildcard":       {selector: item.Selector{IncludedResources: []string{"*"}, ExcludedResources: []string{"pods"}}, want: "PersistentVolumeClaim ConfigMap"},
		"unknown resource":  {selector: item.Selector{IncludedResources: []string{"things.x.io"}}},
		"by namespace":      {selector: item.Selector{IncludedNamespaces: []string{"sh*"}}, want: "Pod PersistentVolumeClaim ConfigMap"},
		"another namespace": {selector: item.Selector{IncludedNamespaces: []string{"other"}}},
		"without namespace": {selector: item.Selector{ExcludedNamespaces: []string{"shop"}}},
		"other labels":      {selector: item.Selector{LabelSelector: "app=other"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var kinds []string
			for _, object := range samplesMatching(tc.selector) {
				kinds = append(kinds, object.GetKind())
			}
			if got := strings.Join(kinds, " "); got != tc.want {
				t.Errorf("selected %q, want %q", got, tc.want)
			}
		})
	}
}
