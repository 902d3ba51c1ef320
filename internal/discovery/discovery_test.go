// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package discovery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kdiscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

// fakeServer serves discovery in one of its two forms.
type fakeServer struct {
	groups   []fakeGroup
	legacy   bool
	down     bool
	requests atomic.Int32
	// removed leaves out versions with once.
	removed atomic.Bool
}

type fakeGroup struct {
	name     string
	versions []fakeVersion // the preferred one first
}

// fakeVersion has resources written "plural Kind scope short", with scope ns
// or cluster, short name optional and, after a "!", the only verbs.
type fakeVersion struct {
	name      string
	resources []string
	down      bool
	// notFound answers 404, and once forgets the version when it was asked for it.
	notFound, once bool
}

var testGroups = []fakeGroup{
	{"", []fakeVersion{{name: "v1", resources: []string{
		"configmaps ConfigMap ns cm", "events Event ns ev", "namespaces Namespace cluster ns",
		"componentstatuses ComponentStatus cluster cs !list,get", "nodes Node cluster no",
		"persistentvolumeclaims PersistentVolumeClaim ns pvc", "persistentvolumes PersistentVolume cluster pv",
		"pods Pod ns po", "pods/log Pod ns",
	}}}},
	{"extensions", []fakeVersion{{name: "v1beta1", resources: []string{
		"deployments Deployment ns deploy", "networkpolicies NetworkPolicy ns netpol",
	}}}},
	{"apps", []fakeVersion{{name: "v1", resources: []string{"deployments Deployment ns deploy", "daemonsets DaemonSet ns ds"}}}},
	{"events.k8s.io", []fakeVersion{{name: "v1", resources: []string{"events Event ns ev"}}}},
	{"networking.k8s.io", []fakeVersion{{name: "v1", resources: []string{"networkpolicies NetworkPolicy ns netpol"}}}},
	{"example.com", []fakeVersion{
		{name: "v2", resources: []string{"widgets Widget ns wd"}},
		{name: "v1", resources: []string{"gadgets Gadget cluster", "widgets Widget ns wd"}},
		{name: "v1beta1", resources: []string{"gadgets Gadget cluster", "widgets Widget ns wd !list"}},
	}},
	{"grapnel.dev", []fakeVersion{{name: "v1alpha1", resources: []string{
		"backups Backup ns", "hookruns HookRun ns", "plugins Plugin cluster", "schedules Schedule ns",
	}}}},
	{"velero.io", []fakeVersion{{name: "v1", resources: []string{"backups Backup ns", "schedules Schedule ns"}}}},
}

func (s *fakeServer) client(t *testing.T) *kdiscovery.DiscoveryClient {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	client, err := kdiscovery.NewDiscoveryClientForConfig(&rest.Config{Host: server.URL, QPS: -1})
	if err != nil {
		t.Fatalf("making a client: %v", err)
	}
	return client
}

func (s *fakeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.requests.Add(1)
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case s.down:
		http.Error(w, "not now", http.StatusServiceUnavailable)
	case len(parts) == 1 && s.legacy && parts[0] == "api":
		answer(w, "application/json", metav1.APIVersions{Versions: []string{"v1"}})
	case len(parts) == 1 && s.legacy:
		answer(w, "application/json", s.groupList())
	case len(parts) == 1:
		answer(w, "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", s.aggregated(parts[0] == "api"))
	case parts[0] == "api":
		s.version(w, "", parts[1])
	default:
		s.version(w, parts[1], parts[2])
	}
}

func answer(w http.ResponseWriter, contentType string, v any) {
	w.Header().Set("Content-Type", contentType)
	_ = json.NewEncoder(w).Encode(v) // a client that went away is no failure
}

func (s *fakeServer) version(w http.ResponseWriter, group, version string) {
	for _, g := range s.groups {
		for _, v := range g.versions {
			if g.name != group || v.name != version {
				continue
			}
			if v.down {
				http.Error(w, "not now", http.StatusServiceUnavailable)
				return
			}
			if v.notFound {
				s.removed.Store(v.once)
				http.Error(w, "404 page not found", http.StatusNotFound)
				return
			}
			gv := schema.GroupVersion{Group: group, Version: version}
			list := metav1.APIResourceList{GroupVersion: gv.String()}
			for _, r := range v.resources {
				list.APIResources = append(list.APIResources, parseResource(r))
			}
			answer(w, "application/json", list)
			return
		}
	}
	http.Error(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`, http.StatusNotFound)
}

func (s *fakeServer) groupList() metav1.APIGroupList {
	var list metav1.APIGroupList
	for _, g := range s.groups {
		if g.name == "" {
			continue
		}
		group := metav1.APIGroup{Name: g.name}
		for _, v := range g.versions {
			if v.once && s.removed.Load() {
				continue
			}
			gv := schema.GroupVersion{Group: g.name, Version: v.name}
			group.Versions = append(group.Versions, metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: v.name})
		}
		if len(group.Versions) == 0 {
			continue
		}
		group.PreferredVersion = group.Versions[0]
		list.Groups = append(list.Groups, group)
	}
	return list
}

func (s *fakeServer) aggregated(core bool) apidiscovery.APIGroupDiscoveryList {
	var list apidiscovery.APIGroupDiscoveryList
	for _, g := range s.groups {
		if (g.name == "") != core {
			continue
		}
		group := apidiscovery.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: g.name}}
		for _, v := range g.versions {
			version := apidiscovery.APIVersionDiscovery{Version: v.name, Freshness: apidiscovery.DiscoveryFreshnessCurrent}
			if v.down {
				version.Freshness = apidiscovery.DiscoveryFreshnessStale
			}
			for _, text := range v.resources {
				if r := parseResource(text); !strings.Contains(r.Name, "/") {
					version.Resources = append(version.Resources, aggregate(r, g.name, v.name))
				}
			}
			group.Versions = append(group.Versions, version)
		}
		list.Items = append(list.Items, group)
	}
	return list
}

func aggregate(r metav1.APIResource, group, version string) apidiscovery.APIResourceDiscovery {
	kind := &metav1.GroupVersionKind{Group: group, Version: version, Kind: r.Kind}
	out := apidiscovery.APIResourceDiscovery{
		Resource: r.Name, ResponseKind: kind, Scope: apidiscovery.ScopeCluster,
		SingularResource: r.SingularName, Verbs: r.Verbs, ShortNames: r.ShortNames,
		Subresources: []apidiscovery.APISubresourceDiscovery{{Subresource: "status", ResponseKind: kind, Verbs: r.Verbs}},
	}
	if r.Namespaced {
		out.Scope = apidiscovery.ScopeNamespace
	}
	return out
}

func parseResource(text string) metav1.APIResource {
	text, verbs, limited := strings.Cut(text, "!")
	fields := strings.Fields(text)
	r := metav1.APIResource{
		Name: fields[0], Kind: fields[1], Namespaced: fields[2] == "ns", ShortNames: fields[3:],
		SingularName: strings.ToLower(fields[1]),
		Verbs:        []string{"create", "delete", "get", "list", "watch"},
	}
	if limited {
		r.Verbs = strings.Split(verbs, ",")
	}
	return r
}

func gvrs(resources []Resource) []string {
	var names []string
	for _, r := range resources {
		names = append(names, r.GroupResource().String()+" "+r.GVR.Version)
	}
	return names
}

// TestDiscover checks both forms of discovery for what is archived, in which
// version and order.
func TestDiscover(t *testing.T) {
	want := []string{
		"pods v1", "persistentvolumeclaims v1", "persistentvolumes v1",
		"configmaps v1", "events v1", "namespaces v1", "nodes v1",
		"daemonsets.apps v1", "deployments.apps v1",
		"events.events.k8s.io v1",
		"networkpolicies.networking.k8s.io v1",
		"widgets.example.com v2", "gadgets.example.com v1",
		"plugins.grapnel.dev v1alpha1", "schedules.grapnel.dev v1alpha1",
		"schedules.velero.io v1",
		"deployments.extensions v1beta1", "networkpolicies.extensions v1beta1",
	}
	for name, legacy := range map[string]bool{"aggregated": false, "one request per version": true} {
		t.Run(name, func(t *testing.T) {
			server := &fakeServer{groups: testGroups, legacy: legacy}
			r, err := Discover(t.Context(), server.client(t))
			if err != nil {
				t.Fatalf("Discover: %v", err)
			}
			if diff := cmp.Diff(want, gvrs(r.Preferred)); diff != "" {
				t.Errorf("Preferred (-want +got):\n%s", diff)
			}
			if len(r.Failed) > 0 {
				t.Errorf("Failed: %v", r.Failed)
			}
			if n := server.requests.Load(); !legacy && n > 2 {
				t.Errorf("%d requests, want at most 2", n)
			}
			for _, p := range r.Preferred {
				if !p.Preferred || p.Kind == "" {
					t.Errorf("%+v is not marked as preferred or has no kind", p)
				}
				if got, ok := r.PreferredVersion(p.GroupResource()); !ok || got != p {
					t.Errorf("For(%s): %+v, %v", p.GroupResource(), got, ok)
				}
			}
		})
	}
}

// A version that answers 404 was removed only if it is not listed any more.
func TestDiscover_NotFound(t *testing.T) {
	for name, tc := range map[string]struct {
		once bool
		want []string
	}{
		"still listed":    {want: []string{"example.com/v1"}},
		"removed by then": {once: true},
	} {
		t.Run(name, func(t *testing.T) {
			server := &fakeServer{legacy: true, groups: []fakeGroup{
				{"", []fakeVersion{{name: "v1", resources: []string{"pods Pod ns po"}}}},
				{"example.com", []fakeVersion{{name: "v1", notFound: true, once: tc.once}}},
			}}
			r, err := Discover(t.Context(), server.client(t))
			if err != nil {
				t.Fatalf("Discover: %v", err)
			}
			var got []string
			for gv := range r.Failed {
				got = append(got, gv.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("Failed (-want +got):\n%s", diff)
			}
		})
	}
}

func TestVersions(t *testing.T) {
	r, err := Discover(t.Context(), (&fakeServer{groups: testGroups}).client(t))
	if err != nil {
		t.Fatalf("Discover: %v", err)
	}
	gr := func(name string) schema.GroupResource { return schema.ParseGroupResource(name) }
	for name, want := range map[string][]Resource{
		"widgets.example.com": { // v1beta1 of it cannot be created
			{GVR: gr("widgets.example.com").WithVersion("v2"), Kind: "Widget", Namespaced: true, Preferred: true},
			{GVR: gr("widgets.example.com").WithVersion("v1"), Kind: "Widget", Namespaced: true},
		},
		"gadgets.example.com": { // the group prefers a version without it
			{GVR: gr("gadgets.example.com").WithVersion("v1"), Kind: "Gadget", Preferred: true},
			{GVR: gr("gadgets.example.com").WithVersion("v1beta1"), Kind: "Gadget"},
		},
		"backups.grapnel.dev": nil,
		"componentstatuses":   nil,
	} {
		if diff := cmp.Diff(want, r.Versions[gr(name)]); diff != "" {
			t.Errorf("Versions[%s] (-want +got):\n%s", name, diff)
		}
	}
}

// An extension API server that is down must not cost the rest of the backup,
// and must not go unnoticed.
func TestDiscover_GroupDown(t *testing.T) {
	groups := slices.Clone(testGroups)
	groups = append(groups, fakeGroup{"metrics.example.com", []fakeVersion{{name: "v1", resources: []string{"loads Load ns"}, down: true}}})
	for name, legacy := range map[string]bool{"aggregated": false, "one request per version": true} {
		t.Run(name, func(t *testing.T) {
			r, err := Discover(t.Context(), (&fakeServer{groups: groups, legacy: legacy}).client(t))
			if err != nil {
				t.Fatalf("Discover: %v", err)
			}
			if r.Failed[schema.GroupVersion{Group: "metrics.example.com", Version: "v1"}] == nil || len(r.Failed) != 1 {
				t.Errorf("Failed: %v, want metrics.example.com/v1", r.Failed)
			}
			if _, ok := r.PreferredVersion(schema.GroupResource{Resource: "pods"}); !ok {
				t.Error("pods are missing")
			}
		})
	}
}

func TestDiscover_ServerDown(t *testing.T) {
	if _, err := Discover(t.Context(), (&fakeServer{down: true}).client(t)); err == nil {
		t.Error("no error although the server answers nothing")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Discover(ctx, (&fakeServer{groups: testGroups}).client(t)); err == nil {
		t.Error("no error although the context is canceled")
	}
}

// blockingClient answers nothing until its context ends.
type blockingClient struct{ groups *metav1.APIGroupList }

func (c blockingClient) ServerGroupsWithContext(context.Context) (*metav1.APIGroupList, error) {
	return c.groups, nil
}

func (blockingClient) ServerResourcesForGroupVersionWithContext(ctx context.Context, _ string) (*metav1.APIResourceList, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestDiscover_Canceled(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	groups := (&fakeServer{groups: testGroups}).groupList()
	for i := range 3 * maxConcurrentRequests {
		v := metav1.GroupVersionForDiscovery{GroupVersion: fmt.Sprintf("many.example.com/v%d", i), Version: fmt.Sprintf("v%d", i)}
		groups.Groups = append(groups.Groups, metav1.APIGroup{
			Name: "many.example.com", Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v,
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := Discover(ctx, blockingClient{&groups})
		done <- err
	}()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Discover: %v, want %v", err, context.Canceled)
	}
}

func TestResolve(t *testing.T) {
	r, err := Discover(t.Context(), (&fakeServer{groups: testGroups}).client(t))
	if err != nil {
		t.Fatalf("Discover: %v", err)
	}
	for name, want := range map[string]string{
		"po": "pods", "pod": "pods", "Pod": "pods", "pods": "pods", "PODS": "pods",
		"persistentVolumeClaim": "persistentvolumeclaims",
		"events":                "events", "ev.events.k8s.io": "events.events.k8s.io", "events.events": "events.events.k8s.io",
		// the server ranks extensions before apps
		"deploy": "deployments.extensions", "deploy.apps": "deployments.apps", "deployments.apps": "deployments.apps",
		"wd": "widgets.example.com", "gadget": "gadgets.example.com", "widget.exam": "widgets.example.com",
		"backups": "backups.grapnel.dev", "backups.velero.io": "backups.velero.io",
		"cs": "", "componentstatuses": "", "pods.apps": "", "unknown": "", "": "", "*": "", "pods/log": "", "*.apps": "",
	} {
		gr, ok := r.Resolve(name)
		if ok != (want != "") || ok && gr.String() != want {
			t.Errorf("Resolve(%q): %s, %v, want %q", name, gr, ok, want)
		}
	}
}

func TestScopes(t *testing.T) {
	r, err := Discover(t.Context(), (&fakeServer{groups: testGroups}).client(t))
	if err != nil {
		t.Fatalf("Discover: %v", err)
	}
	for name, want := range map[string]bool{"pods": true, "nodes": false, "backups.grapnel.dev": true, "gadgets.example.com": false} {
		if got, ok := r.Scopes()[schema.ParseGroupResource(name)]; !ok || got != want {
			t.Errorf("Scopes()[%s]: %v, %v, want %v", name, got, ok, want)
		}
	}
}

// What two groups serve is archived once, from the first of them that the
// selection includes.
func TestFilterPreferred(t *testing.T) {
	r, err := Discover(t.Context(), (&fakeServer{groups: testGroups}).client(t))
	if err != nil {
		t.Fatalf("Discover: %v", err)
	}
	for name, tc := range map[string]struct {
		excluded []string
		want     []string
	}{
		"everything": {
			want: []string{"events v1", "deployments.apps v1", "networkpolicies.networking.k8s.io v1"},
		},
		"first groups excluded": {
			excluded: []string{"events", "deployments.apps", "networkpolicies.networking.k8s.io"},
			want:     []string{"events.events.k8s.io v1", "deployments.extensions v1beta1", "networkpolicies.extensions v1beta1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := r.FilterPreferred(func(gr schema.GroupResource, _ bool) bool {
				twice := gr.Resource == "events" || gr.Resource == "deployments" || gr.Resource == "networkpolicies"
				return twice && !slices.Contains(tc.excluded, gr.String())
			})
			if diff := cmp.Diff(tc.want, gvrs(got)); diff != "" {
				t.Errorf("Collect (-want +got):\n%s", diff)
			}
		})
	}
}
