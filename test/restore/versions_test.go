// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/restore/version"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

// choiceStory is a kind that is served in some versions when it is backed up, and in
// others when it is restored.
type choiceStory struct {
	archived, served []string // the first is the preferred one
	installation     string   // priorities of the ConfigMap
	user             string   // priorities of the Restore
	want             string
	rule             version.Rule
}

var choiceStories = map[string]choiceStory{
	"the Restore wants a version": {
		archived: []string{"v1", "v2beta2", "v2beta1"}, served: []string{"v2", "v2beta2", "v2beta1"},
		installation: "v2beta2", user: "v2,v2beta1", want: "v2beta1", rule: version.UserPriority,
	},
	"the installation wants a version": {
		archived: []string{"v1", "v2beta2", "v2beta1"}, served: []string{"v2", "v2beta2", "v2beta1"},
		installation: "v2beta1", want: "v2beta1", rule: version.UserPriority,
	},
	"the cluster prefers one": {
		archived: []string{"v1", "v2beta2"}, served: []string{"v2beta2", "v2beta1"}, want: "v2beta2", rule: version.TargetPreferred,
	},
	"the other cluster preferred one": {
		archived: []string{"v1", "v2beta1"}, served: []string{"v2", "v1"}, want: "v1", rule: version.SourcePreferred,
	},
	"both have one": {
		archived: []string{"v1", "v2beta2", "v2beta1"}, served: []string{"v2", "v2beta2", "v2beta1"},
		want: "v2beta2", rule: version.CommonVersion,
	},
	"the priorities name unknown versions": {
		archived: []string{"v1", "v2beta1"}, served: []string{"v2", "v1"}, user: "v7,v2", want: "v1", rule: version.SourcePreferred,
	},
	"they have none in common": {
		archived: []string{"v1", "v1alpha1"}, served: []string{"v2beta2", "v2beta1"}, want: "v1", rule: version.Fallback,
	},
}

var _ = Describe("API versions of a Restore", Label("restore"), func() {
	It("chooses versions by priority", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.StartOperator(t, "--features=EnableAPIGroupVersions")}
		kinds := map[string]*bandKind{}
		var installation strings.Builder
		for name, c := range choiceStories {
			kinds[name] = newBandKind(t)
			if c.installation != "" {
				fmt.Fprintf(&installation, "%s=%s\n", kinds[name].resource(), c.installation)
			}
		}
		env.Create(t, world.Client, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.Name, Name: "enableapigroupversions"},
			Data:       map[string]string{"restoreResourcesVersionPriority": installation.String()},
		})
		for name, c := range choiceStories {
			By(name, func() {
				bands := kinds[name]
				bands.serve(t, true, c.archived)
				app := world.CreateApp(t, 0)
				bands.create(t, app, c.archived)
				b := s.backUp(t, app, func(b *v1alpha1.Backup) {
					b.Spec.IncludedResources = []v1alpha1.NamePattern{v1alpha1.NamePattern(bands.resource())}
				})
				bands.remove(t)
				bands.serve(t, false, c.served)
				r, target := s.restoreOf(b.Name, app)
				if c.user != "" {
					r.Spec.APIVersionPriorities = bands.resource() + "=" + c.user
				}
				c.check(t, s, env.Create(t, world.Client, r), bands, target)
			})
		}
	})

	// The archive has a directory for each version, but its format is older than those.
	It("uses the preferred versions of an old format", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.StartOperator(t, "--features=EnableAPIGroupVersions")}
		bands, archived := newBandKind(t), []string{"v1", "v2beta2"}
		bands.serve(t, true, archived)
		app := world.CreateApp(t, 0)
		bands.create(t, app, archived)
		b := s.backUp(t, app, func(b *v1alpha1.Backup) {
			b.Spec.IncludedResources = []v1alpha1.NamePattern{v1alpha1.NamePattern(bands.resource())}
		})
		archive, err := os.ReadFile(filepath.Join(s.LocationDir(env.DefaultLocation), "backups", b.Name, archiveOf(b.Name)))
		Expect(err).NotTo(HaveOccurred())
		bands.remove(t)
		bands.serve(t, false, []string{"v2beta2", "v2beta1"})
		for formatVersion, want := range map[string]v1alpha1.RunPhase{
			"1.1.0": v1alpha1.RunPhaseCompleted,
			"1.0.0": v1alpha1.RunPhasePartiallyFailed,
		} {
			By(formatVersion, func() {
				r, _ := s.restoreOf(s.fromVelero(t, strings.ReplaceAll(manifestOfVelero, "1.1.0", formatVersion), archive), app)
				r = outcome(t, env.Create(t, world.Client, r), want)
				if want == v1alpha1.RunPhasePartiallyFailed {
					says(t, s.results(t, r), "1 object of "+bands.resource()+" is not restored: the cluster does not serve version v1")
				}
			})
		}
	})
})

// check checks what was restored, and the files of the Restore.
func (c choiceStory) check(t testing.TB, s site, r *v1alpha1.Restore, bands *bandKind, target string) {
	t.Helper()
	if c.rule == version.Fallback {
		r = outcome(t, r, v1alpha1.RunPhasePartiallyFailed, "1 created, 1 failed; 1 error")
		says(t, s.results(t, r), "1 object of "+bands.resource()+" is not restored: the cluster does not serve version "+c.want)
	} else {
		r = outcome(t, r, v1alpha1.RunPhaseCompleted, "2 created")
		want := []string{c.want}
		if c.want == c.archived[0] {
			want = slices.Sorted(slices.Values(c.archived))
		}
		env.CheckEqual(t, "fields", bands.fields(t, target, c.served[0]), want)
	}
	var results struct{ Versions map[string]version.Choice }
	Expect(json.Unmarshal([]byte(s.results(t, r)), &results)).To(Succeed())
	choice := results.Versions[bands.resource()]
	if choice.Version != c.want || choice.Rule != c.rule {
		t.Errorf("the results tell the choice %+v, want %s by %s", choice, c.want, c.rule)
	}
	says(t, choice.Reason, bands.resource()+" is restored in version "+c.want)
	says(t, s.stored(t, r.Status.Files.Log), choice.Reason)
}

// bandKind is a custom resource of one story, whose versions come and go. In the version
// that was preferred an object has a field for each version, in another one only the
// field of that version; so its fields tell in which version it was restored.
type bandKind struct {
	group  string
	client dynamic.Interface
}

func newBandKind(t testing.TB) *bandKind {
	t.Helper()
	c, err := dynamic.NewForConfig(world.ControlPlane.Config())
	Expect(err).NotTo(HaveOccurred())
	return &bandKind{group: "music-" + strings.ToLower(rand.Text()[:8]) + ".example.io", client: c}
}

func (k *bandKind) resource() string { return "rockbands." + k.group }

func (k *bandKind) in(version, namespace string) dynamic.ResourceInterface {
	return k.client.Resource(schema.GroupVersionResource{Group: k.group, Version: version, Resource: "rockbands"}).Namespace(namespace)
}

func (k *bandKind) definitions() dynamic.ResourceInterface {
	return k.client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
}

// serve has the kind served in some versions until the test ends, or it is removed. The
// first one is stored, and has all fields. The others have only their own, if they are
// narrow.
func (k *bandKind) serve(t testing.TB, narrow bool, versions []string) {
	t.Helper()
	var list []any
	for i, v := range versions {
		spec := map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
		if narrow && i > 0 {
			spec = map[string]any{"type": "object", "properties": map[string]any{v: map[string]any{"type": "boolean"}}}
		}
		list = append(list, map[string]any{
			"name": v, "served": true, "storage": i == 0,
			"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "properties": map[string]any{"spec": spec}}},
		})
	}
	definition := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": k.resource()},
		"spec": map[string]any{
			"group": k.group, "scope": "Namespaced", "names": map[string]any{"plural": "rockbands", "kind": "RockBand"}, "versions": list,
		},
	}}
	if _, err := k.definitions().Create(t.Context(), definition, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = k.definitions().Delete(context.WithoutCancel(t.Context()), k.resource(), metav1.DeleteOptions{}) // or it no longer exists
	})
	suite.Eventually(t, func() string {
		served := k.served(t)
		if !slices.Equal(served, versions) {
			return fmt.Sprintf("the versions %q are served, want %q", served, versions)
		}
		for _, v := range versions {
			if _, err := k.in(v, "").List(t.Context(), metav1.ListOptions{}); err != nil {
				return err.Error()
			}
		}
		return ""
	})
}

// served returns the versions that the API server reports, the preferred one first.
func (k *bandKind) served(t testing.TB) []string {
	t.Helper()
	c, err := discovery.NewDiscoveryClientForConfig(world.ControlPlane.Config())
	Expect(err).NotTo(HaveOccurred())
	groups, err := c.ServerGroups()
	Expect(err).NotTo(HaveOccurred())
	var versions []string
	for _, group := range groups.Groups {
		if group.Name == k.group {
			for _, v := range group.Versions {
				versions = append(versions, v.Version)
			}
		}
	}
	return versions
}

func (k *bandKind) remove(t testing.TB) {
	t.Helper()
	Expect(k.definitions().Delete(t.Context(), k.resource(), metav1.DeleteOptions{})).To(Succeed())
	suite.Eventually(t, func() string {
		if _, err := k.definitions().Get(t.Context(), k.resource(), metav1.GetOptions{}); err == nil {
			return "the definition is still there"
		}
		if served := k.served(t); len(served) > 0 {
			return fmt.Sprintf("%q are still served", served)
		}
		return ""
	})
}

// create makes an object with the fields of all versions.
func (k *bandKind) create(t testing.TB, namespace string, versions []string) {
	t.Helper()
	spec := map[string]any{}
	for _, v := range versions {
		spec[v] = true
	}
	band := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": k.group + "/" + versions[0], "kind": "RockBand", "metadata": map[string]any{"name": "beatles"}, "spec": spec,
	}}
	if _, err := k.in(versions[0], namespace).Create(t.Context(), band, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// fields returns the fields that the object has.
func (k *bandKind) fields(t testing.TB, namespace, version string) []string {
	t.Helper()
	band, err := k.in(version, namespace).Get(t.Context(), "beatles", metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	spec, _, err := unstructured.NestedMap(band.Object, "spec")
	Expect(err).NotTo(HaveOccurred())
	return slices.Sorted(maps.Keys(spec))
}
