// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/archive"
	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/results"
	"github.com/grapnel-dev/grapnel/internal/selection"
)

func TestMain(m *testing.M) {
	if os.Getenv(pluginEnv) != "" {
		servePlugin()
		return
	}
	goleak.VerifyTestMain(m,
		goleak.IgnoreTopFunction("github.com/onsi/ginkgo/v2/internal/interrupt_handler.(*InterruptHandler).registerForInterrupts.func2"),
		// Connections that the HTTP client keeps for the next request.
		goleak.IgnoreTopFunction("internal/poll.runtime_pollWait"),
		goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"),
		goleak.IgnoreTopFunction("net/http.(*persistConn).readLoop"))
}

const rbac = "rbac.authorization.k8s.io"

// testCluster is a small cluster: two namespaces with an application that has a volume, a
// custom resource and cluster-wide permissions; one namespace that opted out; and unrelated
// objects.
func testCluster() *fakeAPI {
	account := []any{object{"kind": "ServiceAccount", "namespace": "shop", "name": "web"}}
	return &fakeAPI{kinds: []*kind{
		{"v1", "namespaces", "Namespace", false, []object{
			obj("", "attic", labelled("velero.io/exclude-from-backup", "true")), obj("", "empty"), obj("", "office"), obj("", "shop"),
		}},
		{"v1", "configmaps", "ConfigMap", true, []object{
			obj("attic", "old"), obj("office", "a"), obj("office", "b", labelled("app", "web")),
			obj("shop", "a", labelled("app", "web")), obj("shop", "b"), obj("shop", "c"),
			obj("shop", "gone", object{"metadata": object{"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
			obj("shop", "secretive", labelled("grapnel.dev/exclude-from-backup", "true")),
		}},
		{"v1", "pods", "Pod", true, []object{obj("shop", "web-0", labelled("app", "web"), object{"spec": object{
			"priorityClassName": "high",
			"volumes": []any{
				object{"name": "d", "persistentVolumeClaim": object{"claimName": "data"}},
				object{"name": "tmp", "ephemeral": object{}},
			},
		}})}},
		{"v1", "persistentvolumeclaims", "PersistentVolumeClaim", true, []object{
			obj("shop", "data", object{"spec": object{"volumeName": "pv-1"}}),
		}},
		{"v1", "persistentvolumes", "PersistentVolume", false, []object{obj("", "pv-1"), obj("", "pv-2")}},
		{"v1", "serviceaccounts", "ServiceAccount", true, []object{obj("office", "default"), obj("shop", "web", labelled("app", "web"))}},
		{"scheduling.k8s.io/v1", "priorityclasses", "PriorityClass", false, []object{obj("", "high"), obj("", "low")}},
		{rbac + "/v1", "clusterrolebindings", "ClusterRoleBinding", false, []object{
			obj("", "web", object{"subjects": account, "roleRef": object{"kind": "ClusterRole", "name": "reader"}}),
			obj("", "system:x", object{"subjects": []any{object{"kind": "User", "name": "web"}}, "roleRef": object{"kind": "ClusterRole", "name": "admin"}}),
		}},
		{rbac + "/v1", "clusterroles", "ClusterRole", false, []object{obj("", "admin"), obj("", "reader")}},
		{"apiextensions.k8s.io/v1", "customresourcedefinitions", "CustomResourceDefinition", false, []object{
			obj("", "gadgets.example.org"), obj("", "widgets.example.org"),
		}},
		{"example.org/v1", "widgets", "Widget", true, []object{obj("shop", "w")}},
		{"example.org/v1beta1", "widgets", "Widget", true, []object{obj("shop", "w", object{"old": true})}},
	}}
}

// backedUp runs a backup and returns its result with the paths in the archive
// that have a version, without "resources/".
func backedUp(t *testing.T, api *fakeAPI, req ArchiveRequest, opts Options) (ArchiveResult, []string) {
	t.Helper()
	var out bytes.Buffer
	opts.Sleep = func(ctx context.Context, _ time.Duration) error { return ctx.Err() }
	result, err := New(api.cluster(t), opts).WriteArchive(context.Background(), req, &out)
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	want, sum := results.ResourceSummary{}, results.ResourceSummary{}
	err = archive.Walk(&out, archive.Limits{}, func(e archive.Entry) error {
		if e.IsObject() && e.Object.Version != "" {
			paths = append(paths, shortPath(e.Object))
			want.Objects++
			want.Bytes += int64(len(e.Content))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) != result.Items {
		t.Errorf("archive has %d objects, result says %d", len(paths), result.Items)
	}
	for _, summary := range result.Results.Objects {
		sum.Objects += summary.Objects
		sum.Bytes += summary.Bytes
	}
	if diff := cmp.Diff(want, sum); diff != "" {
		t.Errorf("sum of all resources (-archive +summaries):\n%s", diff)
	}
	return result, paths
}

// shortPath is "<resource>[@version] <namespace>/<name>".
func shortPath(id archive.Identity) string {
	version := ""
	if !id.Preferred {
		version = "@" + id.Version
	}
	return strings.TrimPrefix(fmt.Sprintf("%s%s %s/%s", id.Resource, version, id.Namespace, id.Name), " ")
}

func yes() *bool { b := true; return &b }
func no() *bool  { b := false; return &b }
func web() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
}

var shopItems = []string{
	"configmaps shop/a", "configmaps shop/b", "configmaps shop/c",
	"namespaces /shop", "persistentvolumeclaims shop/data", "pods shop/web-0", "serviceaccounts shop/web", "widgets shop/w",
}

var shopNeeds = []string{
	"clusterrolebindings /web", "clusterroles /reader", "customresourcedefinitions /widgets.example.org",
	"persistentvolumes /pv-1", "priorityclasses /high",
}

func TestWriteArchive_Selection(t *testing.T) {
	for name, tc := range map[string]struct {
		req  ArchiveRequest
		want []string
	}{
		"one namespace": {
			ArchiveRequest{Selection: selection.Spec{IncludedNamespaces: []string{"shop"}}},
			slices.Concat(shopItems, shopNeeds),
		},
		"everything but the namespace that opted out": {
			ArchiveRequest{},
			slices.Concat(shopItems, shopNeeds, []string{
				"configmaps office/a", "configmaps office/b", "namespaces /empty", "namespaces /office", "serviceaccounts office/default",
			}),
		},
		"with all cluster-scoped objects": {
			ArchiveRequest{Selection: selection.Spec{IncludedNamespaces: []string{"shop"}, IncludeClusterResources: yes()}},
			slices.Concat(shopItems, shopNeeds, []string{
				"clusterrolebindings /system:x", "clusterroles /admin", "customresourcedefinitions /gadgets.example.org",
				"persistentvolumes /pv-2", "priorityclasses /low",
			}),
		},
		"without any": {
			ArchiveRequest{Selection: selection.Spec{IncludedNamespaces: []string{"shop"}, IncludeClusterResources: no()}},
			slices.DeleteFunc(slices.Clone(shopItems), func(s string) bool { return s == "namespaces /shop" }),
		},
		"related kind excluded": {
			ArchiveRequest{Selection: selection.Spec{
				IncludedNamespaces: []string{"shop"}, ExcludedResources: []string{"persistentvolumes", "clusterroles"},
			}},
			slices.DeleteFunc(slices.Concat(shopItems, shopNeeds), func(s string) bool {
				return strings.HasPrefix(s, "persistentvolumes") || strings.HasPrefix(s, "clusterroles ")
			}),
		},
		"label selector, which related objects need not match": {
			ArchiveRequest{Selection: selection.Spec{IncludedNamespaces: []string{"shop"}, LabelSelector: web()}},
			[]string{
				"clusterrolebindings /web", "clusterroles /reader", "configmaps shop/a", "namespaces /shop",
				"persistentvolumeclaims shop/data", "persistentvolumes /pv-1", "pods shop/web-0", "priorityclasses /high",
				"serviceaccounts shop/web",
			},
		},
		"either of two selectors": {
			ArchiveRequest{Selection: selection.Spec{
				IncludedResources: []string{"configmaps"},
				OrLabelSelectors:  []*metav1.LabelSelector{web(), {MatchLabels: map[string]string{"no": "no"}}},
			}},
			[]string{"configmaps office/b", "configmaps shop/a"},
		},
		"all versions": {
			ArchiveRequest{
				Selection:   selection.Spec{IncludedNamespaces: []string{"shop"}, IncludedNamespaceScopedResources: []string{"widgets"}},
				AllVersions: true,
			},
			[]string{"customresourcedefinitions /widgets.example.org", "namespaces /shop", "widgets shop/w", "widgets@v1beta1 shop/w"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			result, got := backedUp(t, testCluster(), tc.req, Options{})
			if diff := cmp.Diff(slices.Sorted(slices.Values(tc.want)), slices.Sorted(slices.Values(got))); diff != "" {
				t.Errorf("archive (-want +got):\n%s", diff)
			}
			if result.Results.ErrorCount > 0 {
				t.Errorf("errors: %+v", result.Results.Errors)
			}
		})
	}
}

func TestWriteArchive_ListPerNamespace(t *testing.T) {
	many := &fakeAPI{kinds: []*kind{
		{"v1", "namespaces", "Namespace", false, nil}, {"v1", "configmaps", "ConfigMap", true, nil},
	}}
	for i := range 20 {
		ns := fmt.Sprintf("ns-%02d", i)
		many.kinds[0].objects = append(many.kinds[0].objects, obj("", ns))
		for j := range 100 {
			many.kinds[1].objects = append(many.kinds[1].objects, obj(ns, fmt.Sprintf("cm-%03d", j)))
		}
	}
	for name, tc := range map[string]struct {
		namespaces []string
		each       bool
	}{
		"one":         {[]string{"ns-03"}, true},
		"two":         {[]string{"ns-03", "ns-07"}, true},
		"nearly all":  {[]string{"ns-0*", "ns-10", "ns-11", "ns-12", "ns-13", "ns-14", "ns-15"}, false},
		"all by name": {[]string{"ns-*"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			api := &fakeAPI{kinds: many.kinds}
			result, got := backedUp(t, api, ArchiveRequest{Selection: selection.Spec{IncludedNamespaces: tc.namespaces}}, Options{})
			if each := api.requests("/namespaces/") > 0; each != tc.each {
				t.Errorf("listed namespace by namespace: %t, want %t", each, tc.each)
			}
			if want := len(result.ResourceList["v1/Namespace"]) * 101; len(got) != want || want == 0 {
				t.Errorf("%d objects, want %d", len(got), want)
			}
		})
	}
}

func TestWriteArchive_OrderedResources(t *testing.T) {
	_, got := backedUp(t, testCluster(), ArchiveRequest{Selection: selection.Spec{
		IncludedNamespaces: []string{"shop"},
		IncludedResources:  []string{"configmaps"},
		OrderedResources:   map[string]string{"configmaps": "shop/c,office/a,shop/missing,shop/b"},
	}}, Options{})
	if diff := cmp.Diff([]string{"configmaps shop/c", "configmaps shop/b", "configmaps shop/a"}, got); diff != "" {
		t.Errorf("archive (-want +got):\n%s", diff)
	}
}

func TestWriteArchive_Result(t *testing.T) {
	result, _ := backedUp(t, testCluster(), ArchiveRequest{Selection: selection.Spec{IncludedNamespaces: []string{"shop"}}}, Options{})
	want := map[string][]string{
		"apiextensions.k8s.io/v1/CustomResourceDefinition": {"widgets.example.org"},
		"example.org/v1/Widget":                            {"shop/w"},
		rbac + "/v1/ClusterRole":                           {"reader"},
		rbac + "/v1/ClusterRoleBinding":                    {"web"},
		"scheduling.k8s.io/v1/PriorityClass":               {"high"},
		"v1/ConfigMap":                                     {"shop/a", "shop/b", "shop/c"},
		"v1/Namespace":                                     {"shop"},
		"v1/PersistentVolume":                              {"pv-1"},
		"v1/PersistentVolumeClaim":                         {"shop/data"},
		"v1/Pod":                                           {"shop/web-0"},
		"v1/ServiceAccount":                                {"shop/web"},
	}
	if diff := cmp.Diff(want, result.ResourceList); diff != "" {
		t.Errorf("resource list (-want +got):\n%s", diff)
	}
	if want := (VolumeCounts{Claims: 1, Skipped: 1}); result.Volumes != want {
		t.Errorf("volumes %+v, want %+v", result.Volumes, want)
	}
	warnings := result.Results.Warnings.OfNamespace("shop")
	if len(warnings) != 1 || !strings.Contains(warnings[0], `"shop/data" has no data in this backup`) {
		t.Errorf("warnings %q do not name the claim", warnings)
	}
}

func TestWriteArchive_ObjectContent(t *testing.T) {
	var out bytes.Buffer
	_, err := New(testCluster().cluster(t), Options{}).WriteArchive(context.Background(), ArchiveRequest{
		Selection: selection.Spec{IncludedResources: []string{"pods"}},
	}, &out)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	err = archive.Walk(&out, archive.Limits{}, func(e archive.Entry) error {
		got[e.Path] = string(e.Content)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"app":"web"},"name":"web-0","namespace":"shop",` +
		`"uid":"uid-shop-web-0"},"spec":{"priorityClassName":"high","volumes":[{"name":"d","persistentVolumeClaim":` +
		`{"claimName":"data"}},{"ephemeral":{},"name":"tmp"}]}}`
	want := map[string]string{
		"metadata/version":                                              "1.1.0\n",
		"resources/pods/namespaces/shop/web-0.json":                     pod,
		"resources/pods/v1-preferredversion/namespaces/shop/web-0.json": pod,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("archive (-want +got):\n%s", diff)
	}
}

func TestWriteArchive_Progress(t *testing.T) {
	var total, done int
	result, _ := backedUp(t, testCluster(), ArchiveRequest{Progress: func(t, d int) {
		if d < done || t < d {
			total = -1
		}
		total, done = t, d
	}}, Options{})
	if total != result.Items || done != result.Items {
		t.Errorf("last progress is %d of %d, want %d", done, total, result.Items)
	}
}

// fakeAction is an action of a test.
type fakeAction struct {
	execute func(itemaction.BackupItem) (itemaction.Result, error)
}

func (fakeAction) Name() string                           { return "fake" }
func (fakeAction) AppliesTo(gr schema.GroupResource) bool { return gr.Resource == "configmaps" }
func (a fakeAction) Execute(_ context.Context, item itemaction.BackupItem) (itemaction.Result, error) {
	return a.execute(item)
}

func TestWriteArchive_Actions(t *testing.T) {
	action := fakeAction{func(item itemaction.BackupItem) (itemaction.Result, error) {
		switch item.Name {
		case "a":
			return itemaction.Result{}, errors.New("no a")
		case "b":
			return itemaction.Result{JSON: []byte(`{"changed":true}`)}, nil
		}
		return itemaction.Result{RelatedItems: []itemaction.RelatedItem{
			{Resource: schema.GroupResource{Resource: "persistentvolumes"}, Name: "pv-2"},
			{Resource: schema.GroupResource{Resource: "configmaps"}, Namespace: "shop", Name: "b"},
			{Resource: schema.GroupResource{Resource: "configmaps"}, Namespace: "office", Name: "a"},
			{Resource: schema.GroupResource{Resource: "unheard-of"}, Name: "x"},
		}}, nil
	}}
	result, got := backedUp(t, testCluster(),
		ArchiveRequest{Selection: selection.Spec{IncludedNamespaces: []string{"shop"}, IncludedNamespaceScopedResources: []string{"configmaps"}}},
		Options{Actions: func() []itemaction.BackupAction { return []itemaction.BackupAction{action} }})
	want := []string{"configmaps shop/b", "configmaps shop/c", "namespaces /shop", "persistentvolumes /pv-2"}
	if diff := cmp.Diff(want, slices.Sorted(slices.Values(got))); diff != "" {
		t.Errorf("archive (-want +got):\n%s", diff)
	}
	expectMessage(t, "error", result.Results.Errors, `configmaps "shop/a" is missing from this backup: item action fake: no a`)
}
