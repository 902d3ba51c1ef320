// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/archive"
	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/selection"
)

// outside is a plugin action of a test. A nil function returns the simplest answer.
type outside struct {
	name     string
	resource string // of the objects it sees, "configmaps" by default
	choose   func(ctx context.Context, names itemaction.ResourceResolver) error
	concerns func(namespace string, labels map[string]string) bool
	execute  func(ctx context.Context, item itemaction.BackupItem) (itemaction.Result, error)
}

var _ itemaction.BackupPluginAction = outside{}

func (o outside) Name() string   { return "example.io/" + o.name }
func (o outside) Plugin() string { return "demo" }
func (o outside) Kind() string   { return "AsyncBackupItemAction" }

func (o outside) AppliesTo(gr schema.GroupResource) bool {
	return o.resource == "*" || gr.Resource == o.resource || o.resource == "" && gr.Resource == "configmaps"
}

func (o outside) ResolveSelector(ctx context.Context, names itemaction.ResourceResolver) error {
	if o.choose == nil {
		return nil
	}
	return o.choose(ctx, names)
}

func (o outside) Matches(namespace string, labels func() map[string]string) bool {
	return o.concerns == nil || o.concerns(namespace, labels())
}

func (o outside) Execute(ctx context.Context, item itemaction.BackupItem) (itemaction.Result, error) {
	if o.execute == nil {
		return itemaction.Result{}, nil
	}
	return o.execute(ctx, item)
}

// shop is a backup of the config maps of one namespace with actions.
func shop(actions ...itemaction.BackupAction) ArchiveRequest {
	return ArchiveRequest{
		Selection: selection.Spec{IncludedNamespaces: []string{"shop"}, IncludedNamespaceScopedResources: []string{"configmaps"}},
		Actions:   actions,
	}
}

func ref(resource, namespace, name string) itemaction.RelatedItem {
	return itemaction.RelatedItem{Resource: schema.ParseGroupResource(resource), Namespace: namespace, Name: name}
}

// naming returns an action that names the same objects for each one.
func naming(resource string, refs ...itemaction.RelatedItem) outside {
	return outside{name: "naming", resource: resource, execute: func(context.Context, itemaction.BackupItem) (itemaction.Result, error) {
		return itemaction.Result{RelatedItems: slices.Clone(refs)}, nil
	}}
}

func TestPrepareActions_Concurrent(t *testing.T) {
	api := testCluster()
	var meeting sync.WaitGroup
	meeting.Add(2)
	var asked atomic.Int32
	choose := func(_ context.Context, names itemaction.ResourceResolver) error {
		meeting.Done()
		meeting.Wait() // ends only if the other one is called, too
		asked.Add(1)
		if gr, ok := names.Resolve("Widget"); !ok || gr.String() != "widgets.example.org" {
			t.Errorf("Widget means %v", gr)
		}
		if api.requests("configmaps") > 0 {
			t.Error("objects were listed before the actions were asked")
		}
		return nil
	}
	result, _ := backedUp(t, api, shop(outside{name: "one", choose: choose}, outside{name: "two", choose: choose}), Options{})
	if asked.Load() != 2 {
		t.Errorf("asked %d times, want once each", asked.Load())
	}
	want := map[string][]string{"configmaps": {"example.io/one", "example.io/two"}}
	if diff := cmp.Diff(want, result.Actions); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
}

func TestPrepareActions_Failure(t *testing.T) {
	never := func(context.Context, itemaction.BackupItem) (itemaction.Result, error) {
		return itemaction.Result{}, errors.New("was called")
	}
	result, got := backedUp(t, testCluster(), shop(
		outside{name: "broken", execute: never, choose: func(context.Context, itemaction.ResourceResolver) error { return errors.New("no idea") }},
		outside{name: "optional", execute: never, choose: func(context.Context, itemaction.ResourceResolver) error {
			return &itemaction.SkippedActionError{Reason: "not today"}
		}},
	), Options{})
	want := []string{"configmaps shop/a", "configmaps shop/b", "configmaps shop/c", "namespaces /shop"}
	if diff := cmp.Diff(want, slices.Sorted(slices.Values(got))); diff != "" {
		t.Errorf("archive (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"backing up without an item action: no idea"}, result.Results.Errors.OfRun()); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"not today"}, result.Results.Warnings.OfRun()); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	if result.Results.ErrorCount != 1 || result.Results.WarningCount != 1 || result.Actions != nil {
		t.Errorf("%+v with actions %v", result.Results, result.Actions)
	}
}

// TestRunActions_RelatedItemsError: an object stays in the backup if an action could not tell what
// belongs with it, and the user learns about it.
func TestRunActions_RelatedItemsError(t *testing.T) {
	result, got := backedUp(t, testCluster(), shop(
		outside{name: "block", execute: func(_ context.Context, item itemaction.BackupItem) (itemaction.Result, error) {
			if item.Name == "a" {
				return itemaction.Result{}, &itemaction.RelatedItemsError{Err: errors.New("no idea")}
			}
			return itemaction.Result{}, nil
		}},
		outside{name: "naming", execute: naming("", ref("secrets", "shop", "s")).execute},
	), Options{})
	want := []string{"configmaps shop/a", "configmaps shop/b", "configmaps shop/c", "namespaces /shop"}
	if diff := cmp.Diff(want, slices.Sorted(slices.Values(got))); diff != "" {
		t.Errorf("archive (-want +got):\n%s", diff)
	}
	wantErrors := []string{`what belongs with configmaps "shop/a" may be missing from this backup: item action example.io/block: no idea`}
	if diff := cmp.Diff(wantErrors, result.Results.Errors.OfNamespace("shop")); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
}

// crowd is a cluster with many objects of many kinds.
func crowd(kinds, objects int) *fakeAPI {
	api := &fakeAPI{pageSize: 500, kinds: []*kind{{"v1", "namespaces", "Namespace", false, []object{obj("", "shop")}}}}
	for i := range kinds {
		k := &kind{"example.org/v1", fmt.Sprintf("kind%02ds", i), fmt.Sprintf("Kind%02d", i), true, nil}
		for j := range objects {
			k.objects = append(k.objects, obj("shop", fmt.Sprintf("o-%03d", j), labelled("odd", fmt.Sprint(j%2))))
		}
		api.kinds = append(api.kinds, k)
	}
	return api
}

func TestRunActions_MaxConcurrency(t *testing.T) {
	for name, api := range map[string]*fakeAPI{"of one kind": crowd(1, 64), "of many kinds": crowd(16, 4)} {
		t.Run(name, func(t *testing.T) {
			const workers = 4
			var open, most atomic.Int32
			full := make(chan struct{})
			action := outside{resource: "*", execute: func(ctx context.Context, item itemaction.BackupItem) (itemaction.Result, error) {
				if item.Namespace == "" {
					return itemaction.Result{}, nil
				}
				now := open.Add(1)
				defer open.Add(-1)
				for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
				}
				if now == workers {
					select {
					case <-full:
					default:
						close(full)
					}
				}
				select { // the first calls wait until there are as many as may be
				case <-full:
				case <-ctx.Done():
				}
				return itemaction.Result{}, nil
			}}
			result, _ := backedUp(t, api, ArchiveRequest{Actions: []itemaction.BackupAction{action}}, Options{ActionWorkers: workers})
			if most.Load() != workers {
				t.Errorf("%d calls at once, want %d", most.Load(), workers)
			}
			if result.Items != 65 {
				t.Errorf("%d items", result.Items)
			}
		})
	}
}

// appending returns an action that adds a word to every object it sees.
func appending(name string) outside {
	return outside{name: name, resource: "kind00s", execute: func(_ context.Context, item itemaction.BackupItem) (itemaction.Result, error) {
		return itemaction.Result{JSON: bytes.Replace(item.JSON, []byte(`"metadata"`), []byte(`"`+name+`":1,"metadata"`), 1)}, nil
	}}
}

func TestRunActions_Order(t *testing.T) {
	builtin := fakeOf("kind00s", func(item itemaction.BackupItem) (itemaction.Result, error) {
		if bytes.Contains(item.JSON, []byte("one")) {
			t.Error("the built-in action is not the first")
		}
		return itemaction.Result{JSON: bytes.Replace(item.JSON, []byte(`"metadata"`), []byte(`"zero":1,"metadata"`), 1)}, nil
	})
	odd := appending("two")
	odd.concerns = func(_ string, labels map[string]string) bool { return labels["odd"] == "1" }
	last := fakeOf("kind00s", func(item itemaction.BackupItem) (itemaction.Result, error) { // no plugin's, behind those of plugins
		return appending("three").execute(t.Context(), item)
	})
	var out bytes.Buffer
	_, err := New(crowd(1, 100).cluster(t), Options{Actions: func() []itemaction.BackupAction { return []itemaction.BackupAction{builtin} }}).
		WriteArchive(context.Background(), ArchiveRequest{Actions: []itemaction.BackupAction{appending("one"), odd, last}}, &out)
	if err != nil {
		t.Fatal(err)
	}
	next := 0
	err = archive.Walk(&out, archive.Limits{}, func(e archive.Entry) error {
		if !e.IsObject() || e.Object.Resource != "kind00s" || e.Object.Version != "" {
			return nil
		}
		if want := fmt.Sprintf("o-%03d", next); e.Object.Name != want {
			t.Errorf("object %d is %s, want %s", next, e.Object.Name, want)
		}
		want := `"zero":1,"one":1,"three":1,"metadata"`
		if next%2 == 1 {
			want = `"zero":1,"one":1,"two":1,"three":1,"metadata"`
		}
		if !bytes.Contains(e.Content, []byte(want)) {
			t.Errorf("%s is %s, want %s in it", e.Object.Name, e.Content, want)
		}
		next++
		return nil
	})
	if err != nil || next != 100 {
		t.Errorf("%d objects, error %v", next, err)
	}
}

func TestAddReportsToResult(t *testing.T) {
	action := outside{name: "talker", execute: func(_ context.Context, item itemaction.BackupItem) (itemaction.Result, error) {
		switch item.Name {
		case "a":
			return itemaction.Result{
				Warnings:     []string{"it is old"},
				BackupLabels: map[string]string{"team": "shop", "tier": "gold"},
				Operation:    &itemaction.Operation{ID: "op-1", PostItems: []itemaction.RelatedItem{ref("configmaps", "shop", "a")}},
			}, nil
		case "b":
			return itemaction.Result{BackupLabels: map[string]string{"tier": "lead", "team": "shop"}}, nil
		default:
			return itemaction.Result{Skip: "it is not needed", BackupLabels: map[string]string{"tier": "tin"}, RelatedItems: []itemaction.RelatedItem{
				ref("persistentvolumes", "", "pv-2"),
			}}, nil
		}
	}}
	req := shop(action)
	req.OnOperationStarted = func(context.Context, itemaction.Operation) error { return nil }
	result, got := backedUp(t, testCluster(), req, Options{ActionWorkers: 1})
	if diff := cmp.Diff([]string{"configmaps shop/a", "configmaps shop/b", "namespaces /shop"}, slices.Sorted(slices.Values(got))); diff != "" {
		t.Errorf("archive (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"team": "shop", "tier": "gold"}, result.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	want := []itemaction.Operation{{
		Action: "example.io/talker", Kind: "AsyncBackupItemAction", Plugin: "demo", Resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"},
		Namespace: "shop", Name: "a", ID: "op-1", PostItems: []itemaction.RelatedItem{ref("configmaps", "shop", "a")},
	}}
	if diff := cmp.Diff(want, result.Operations); diff != "" {
		t.Errorf("operations (-want +got):\n%s", diff)
	}
	about := func(name, text string) string {
		return `configmaps "shop/` + name + `": item action example.io/talker: ` + text
	}
	wantWarnings := []string{
		about("a", "it is old"),
		about("b", `the Backup gets the label tier=gold, which was requested first, and not the value "lead"`),
	}
	if diff := cmp.Diff(wantWarnings, result.Results.Warnings.OfNamespace("shop")); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

func TestAddBackupLabels_Limit(t *testing.T) {
	action := outside{resource: "kind00s", execute: func(_ context.Context, item itemaction.BackupItem) (itemaction.Result, error) {
		return itemaction.Result{BackupLabels: map[string]string{item.Name: "x"}}, nil
	}}
	result, _ := backedUp(t, crowd(1, 50), ArchiveRequest{Actions: []itemaction.BackupAction{action}}, Options{})
	if len(result.Labels) != 32 || result.Results.WarningCount != 1 {
		t.Errorf("%d labels with %d warnings, want 32 with 1", len(result.Labels), result.Results.WarningCount)
	}
}

func TestRunActions_AllVersions(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	action := outside{resource: "widgets", execute: func(_ context.Context, item itemaction.BackupItem) (itemaction.Result, error) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, item.Resource.Version)
		return itemaction.Result{}, nil
	}}
	backedUp(t, testCluster(), ArchiveRequest{
		Selection: selection.Spec{IncludedNamespaceScopedResources: []string{"widgets"}}, AllVersions: true, Actions: []itemaction.BackupAction{action},
	}, Options{})
	slices.Sort(seen)
	if diff := cmp.Diff([]string{"v1", "v1beta1"}, seen); diff != "" {
		t.Errorf("versions (-want +got):\n%s", diff)
	}
}

func TestRunActions_Failure(t *testing.T) {
	action := outside{name: "picky", execute: func(_ context.Context, item itemaction.BackupItem) (itemaction.Result, error) {
		if item.Name == "b" {
			return itemaction.Result{}, errors.New(`plugin "demo": not this one`)
		}
		return itemaction.Result{}, nil
	}}
	after := outside{name: "after", execute: func(_ context.Context, item itemaction.BackupItem) (itemaction.Result, error) {
		if item.Name == "b" {
			t.Error("an object that is lost was shown to the next action")
		}
		return itemaction.Result{RelatedItems: []itemaction.RelatedItem{ref("configmaps", "shop", "b")}}, nil
	}}
	result, got := backedUp(t, testCluster(), shop(action, after), Options{})
	if diff := cmp.Diff([]string{"configmaps shop/a", "configmaps shop/c", "namespaces /shop"}, slices.Sorted(slices.Values(got))); diff != "" {
		t.Errorf("archive (-want +got):\n%s", diff)
	}
	want := []string{`configmaps "shop/b" is missing from this backup: item action example.io/picky: plugin "demo": not this one`}
	if diff := cmp.Diff(want, result.Results.Errors.OfNamespace("shop")); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
}

func TestRunActions_Canceled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	action := outside{resource: "*", execute: func(ctx context.Context, _ itemaction.BackupItem) (itemaction.Result, error) {
		cancel()
		<-ctx.Done()
		return itemaction.Result{}, ctx.Err()
	}}
	result, err := New(crowd(8, 20).cluster(t), Options{}).WriteArchive(ctx, ArchiveRequest{Actions: []itemaction.BackupAction{action}}, io.Discard)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
	if result.Results.ErrorCount > 0 {
		t.Errorf("the end of the run is reported as errors of objects: %+v", result.Results.Errors)
	}
}

// TestRunActions_ManyCollections is for the race detector.
func TestRunActions_ManyCollections(t *testing.T) {
	action := outside{name: "busy", resource: "*", execute: func(_ context.Context, item itemaction.BackupItem) (itemaction.Result, error) {
		return itemaction.Result{
			JSON: bytes.Clone(item.JSON), Warnings: []string{"w"}, BackupLabels: map[string]string{"k": item.Name},
			Operation:    &itemaction.Operation{ID: item.Name},
			RelatedItems: []itemaction.RelatedItem{ref("kind00s.example.org", "shop", "o-000"), ref("kind01s.example.org", "shop", strings.Replace(item.Name, "o-", "p-", 1))},
		}, nil
	}}
	var told atomic.Int32
	result, _ := backedUp(t, crowd(20, 30), ArchiveRequest{Actions: []itemaction.BackupAction{action}, OnOperationStarted: func(context.Context, itemaction.Operation) error {
		told.Add(1)
		return nil
	}}, Options{})
	if told.Load() != 601 || len(result.Operations) != 601 || result.Items != 601 || len(result.Actions) != 21 {
		t.Errorf("%d operations, %d items, %d resources", len(result.Operations), result.Items, len(result.Actions))
	}
}
