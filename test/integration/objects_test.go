// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

var _ = Describe("The objects of a backup", Label("hooks"), func() {
	It("names volumes without data in a warning", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		app := world.CreateApp(t, 1)
		for _, name := range []string{"data", "wal"} {
			env.Create(t, world.Client, &corev1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Namespace: app, Name: name},
				Spec: corev1.PersistentVolumeClaimSpec{
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("1Gi")}},
				},
			})
		}
		b := s.NewBackup(app)
		b.Spec.IncludedResources = nil
		b = outcome(t, s.apply(t, b), v1alpha1.RunPhaseCompleted, "1 warning")
		warnings := s.results(t, b).Warnings.OfNamespace(app)
		says(t, warnings, "2 PersistentVolumeClaims have no data in this backup", app+"/data, "+app+"/wal")
		if b.Status.Warnings != 1 {
			t.Errorf("the status counts %d warnings", b.Status.Warnings)
		}
		contains(t, s.archived(t, b), "resources/persistentvolumeclaims/namespaces/"+app+"/data.json", configMap(app, "c0"))
	})

	It("archives a very large object", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		app := world.CreateApp(t, 0)
		gadget := newGadget(app, "large")
		large := strings.Repeat("0123456789abcdef", 1400<<10/16)
		gadget.Object["data"] = large
		env.Create(t, world.Client, gadget)
		b := s.NewBackup(app)
		b.Spec.IncludedResources = []v1alpha1.NamePattern{"gadgets.story.example.io", "customresourcedefinitions.apiextensions.k8s.io"}
		b = outcome(t, s.apply(t, b), v1alpha1.RunPhaseCompleted)
		objects := s.archived(t, b)
		const path = "resources/gadgets.story.example.io/namespaces/"
		contains(t, objects, path+app+"/large.json",
			"resources/customresourcedefinitions.apiextensions.k8s.io/cluster/gadgets.story.example.io.json")
		if !strings.Contains(objects[path+app+"/large.json"], large) {
			t.Error("the object is not whole")
		}
	})

	It("archives names with every legal character", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		app := world.CreateApp(t, 0)
		roles := []string{
			"system:controller:Reader.v1_X", "two words", "Größe", "!\"#$&'()*+,-", ":;<=>?@[\\]^_`{|}~", "...", ".hidden", "-dash",
			strings.Repeat("long", 60),
		}
		for _, name := range roles {
			env.Create(t, world.Client, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: app, Name: name}})
		}
		longest := strings.Repeat("a", 63) + "." + strings.Repeat("b", 63) + "." + strings.Repeat("c", 63) + "." + strings.Repeat("d", 61)
		for _, name := range []string{"0", "a.b-c.d", longest} {
			env.Create(t, world.Client, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: app, Name: name}})
		}
		b := s.NewBackup(app)
		b.Spec.IncludedResources = []v1alpha1.NamePattern{"configmaps", "roles.rbac.authorization.k8s.io"}
		b = outcome(t, s.apply(t, b), v1alpha1.RunPhaseCompleted)
		objects := s.archived(t, b)
		contains(t, objects, configMap(app, "0"), configMap(app, "a.b-c.d"), configMap(app, longest))
		for _, name := range roles {
			contains(t, objects, "resources/roles.rbac.authorization.k8s.io/namespaces/"+app+"/"+name+".json")
		}
	})

	Context("warns when nothing is selected", func() {
		for name, c := range suite.SortedByName(map[string]struct {
			change func(*v1alpha1.BackupSpec)
			says   string
		}{
			"no label matches": {
				func(spec *v1alpha1.BackupSpec) {
					spec.LabelSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"no": "body"}}
				}, "select",
			},
			"no namespace matches": {
				func(spec *v1alpha1.BackupSpec) { spec.IncludedNamespaces = []v1alpha1.NamePattern{"no-such-*"} }, "no-such-*",
			},
			"no such resource": {
				func(spec *v1alpha1.BackupSpec) { spec.IncludedResources = []v1alpha1.NamePattern{"unicorns"} }, "unicorns",
			},
		}) {
			It(name, func() {
				t := suite.Spec(GinkgoTB())
				s := site{world.SharedOperator(t)}
				app := world.CreateApp(t, 1)
				b := s.NewBackup(app)
				c.change(&b.Spec)
				b = outcome(t, s.apply(t, b), v1alpha1.RunPhaseCompleted, "warning")
				says(t, messages(s.results(t, b).Warnings), c.says)
			})
		}
	})
})

func newGadget(namespace, name string) *unstructured.Unstructured {
	gadget := &unstructured.Unstructured{Object: map[string]any{}}
	gadget.SetAPIVersion("story.example.io/v1")
	gadget.SetKind("Gadget")
	gadget.SetNamespace(namespace)
	gadget.SetName(name)
	return gadget
}
