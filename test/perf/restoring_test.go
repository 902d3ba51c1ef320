// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/grapnel-dev/grapnel/test/perf/load"
	"github.com/grapnel-dev/grapnel/test/perf/raw"
)

// A limit that leaves out objects would be too strict, and one with more too lax.
func TestCreateRequests(t *testing.T) {
	m := mix{objects: 205, namespaces: 10}
	want := map[string]bool{}
	for i := range m.objects {
		if o := load.Object(i, m.namespaces); o.GetNamespace() == load.NamespaceName(0) || o.GetNamespace() == load.NamespaceName(1) {
			want[load.Path(i, m.namespaces, o.GetNamespace())+"/"+o.GetName()] = true
		}
	}
	for i := range 2 {
		want["/api/v1/namespaces/"+load.NamespaceName(i)] = true
	}
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	namespaces, objects := m.few()
	posts, err := m.createRequests(fake.NewClientBuilder().WithScheme(scheme).Build(), namespaces, objects)
	if err != nil {
		t.Fatal(err)
	}
	for prefix, req := range map[string]raw.SendRequest{limitPrefix: posts, existingPrefix: m.readRequests()} {
		got := map[string]bool{}
		for _, step := range req.Steps {
			for _, message := range step {
				got[strings.Replace(pathOf(t, message), prefix, "", 1)] = true
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("objects of %s (-want +got):\n%s", prefix, diff)
		}
	}
}

// pathOf returns the URL path of the object that a message is about.
func pathOf(t *testing.T, m raw.Message) string {
	t.Helper()
	if len(m.Body) == 0 {
		return m.Path
	}
	var object struct {
		Kind, APIVersion string
		Metadata         struct{ Name, Namespace string }
	}
	if err := json.Unmarshal(m.Body, &object); err != nil {
		t.Fatal(err)
	}
	if object.Kind == "" || object.APIVersion == "" || !strings.Contains(m.Path+"/", "/"+object.APIVersion+"/") ||
		!strings.Contains(m.Path, "/"+object.Metadata.Namespace) {
		t.Errorf("an object of %+v is sent to %s", object, m.Path)
	}
	return m.Path + "/" + object.Metadata.Name
}

func TestRestoring_Figures(t *testing.T) {
	r := restoring{
		objects: 100, created: []float64{3, 9, 2}, none: []float64{1, 2, 3}, update: []float64{4, 4, 5},
		growth: []float64{mebibyte, 3 * mebibyte, 2 * mebibyte}, growthMany: []float64{2*mebibyte + 180_000},
		posts: []raw.SendTimes{{Seconds: 2, Growth: mebibyte}}, gets: []raw.SendTimes{{Seconds: 10}, {Seconds: 6}, {Seconds: 8}},
		patches: []raw.SendTimes{{Seconds: 20}, {Seconds: 5}, {Seconds: 10}},
	}
	type line struct{ Value, Limit, Target float64 }
	var got []line
	for _, f := range r.figures(mix{objects: 980, namespaces: 20}) {
		got = append(got, line{f.Value, f.Limit, f.Target})
	}
	want := []line{{3, 2, 2.6}, {2, 8, 4}, {4, 10, 13}, {3, 1, 100}, {200, mix{objects: 980, namespaces: 20}.nameBytes(), 300}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("figures (-want +got):\n%s", diff)
	}
}
