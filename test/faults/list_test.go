// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
)

// anythingCRD returns the definition of a namespaced kind in which tenants may store
// anything.
func anythingCRD(plural, kind string) *unstructured.Unstructured {
	preserve := true
	crd := &apiextensionsv1.CustomResourceDefinition{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{Name: plural + ".faults.example.org"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "faults.example.org", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Kind: kind},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: &preserve,
				}},
			}},
		},
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(crd)
	Expect(err).NotTo(HaveOccurred())
	delete(fields, "status")
	return &unstructured.Unstructured{Object: fields}
}

func anything(kind, namespace, name string, spec any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "faults.example.org/v1", "kind": kind,
		"metadata": map[string]any{"namespace": namespace, "name": name}, "spec": spec,
	}}
}

// nestedLists returns lists within each other.
func nestedLists(depth int) any {
	var value any = []any{}
	for range depth - 1 {
		value = []any{value}
	}
	return value
}

var _ = Describe("The list of a kind in all namespaces", func() {
	It("is not broken by the object of a tenant that is nested as deeply as the API server takes it", func(ctx SpecContext) {
		t := GinkgoTB()
		s := world.StartOperator(t)
		crd := anythingCRD("deepthings", "DeepThing")
		env.Create(t, world.Client, crd)
		DeferCleanup(func(ctx SpecContext) { Expect(world.Client.Delete(ctx, crd)).To(Succeed()) })
		tenant, other := world.CreateNamespace(t, "tenant-"), world.CreateNamespace(t, "other-")
		deep := anything("DeepThing", tenant, "deep", map[string]any{"x": nestedLists(9_998)})
		objects := []*unstructured.Unstructured{deep, anything("DeepThing", tenant, "plain", map[string]any{})}
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			objects = append(objects, anything("DeepThing", other, name, map[string]any{"of": name}))
		}
		for _, object := range objects {
			Eventually(func() error { return world.Client.Create(ctx, object.DeepCopy()) }).Should(Succeed())
		}

		b := s.NewBackup()
		b.Spec.IncludedResources = []v1alpha1.NamePattern{"deepthings.faults.example.org"}
		env.Create(t, world.Client, b)
		b = env.WaitFor(t, world.Client, b, "it has ended", func(b *v1alpha1.Backup) bool { return b.Status.CompletionTimestamp != nil })
		Expect(b.Status.Phase).To(Equal(v1alpha1.RunPhaseCompleted), b.Status.Message)

		for _, object := range objects {
			Expect(world.Client.Delete(ctx, object)).To(Succeed())
		}
		r := &v1alpha1.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: s.Name, GenerateName: "story-"}}
		r.Spec.BackupName = b.Name
		env.Create(t, world.Client, r)
		r = env.WaitFor(t, world.Client, r, "it has ended", func(r *v1alpha1.Restore) bool { return r.Status.CompletionTimestamp != nil })
		Expect(r.Status.Phase).To(Equal(v1alpha1.RunPhaseCompleted), r.Status.Message)
		for _, object := range objects {
			Expect(world.Exists(t, object)).To(BeTrue(), "%s/%s is restored", object.GetNamespace(), object.GetName())
		}
	})
})
