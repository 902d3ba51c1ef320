// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

// kinds are those of the application's namespaced objects, also of what controllers
// add to them.
var kinds = []schema.GroupVersionKind{
	{Version: "v1", Kind: "ConfigMap"},
	{Version: "v1", Kind: "PersistentVolumeClaim"},
	{Version: "v1", Kind: "Secret"},
	{Version: "v1", Kind: "Service"},
	{Version: "v1", Kind: "ServiceAccount"},
	{Group: "apps", Version: "v1", Kind: "Deployment"},
	{Group: "apps", Version: "v1", Kind: "ReplicaSet"},
	{Group: "interop.example.io", Version: "v1", Kind: "Gadget"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "Role"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "RoleBinding"},
}

// definition is the CustomResourceDefinition of the application.
func definition() *unstructured.Unstructured {
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	crd.SetName("gadgets.interop.example.io")
	return crd
}

func namespaceObject(name string) *unstructured.Unstructured {
	namespace := &unstructured.Unstructured{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	namespace.SetName(name)
	return namespace
}

// newApp makes the application of testdata/app.yaml in a namespace, until the test
// ends, and waits until controllers have added what they add.
func newApp(t *testing.T, namespace string) {
	t.Helper()
	content, err := os.ReadFile("testdata/app.yaml")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// A test that failed may have deleted them already.
		ctx := context.WithoutCancel(t.Context())
		if err := errors.Join(
			client.IgnoreNotFound(world.Client.Delete(ctx, namespaceObject(namespace))),
			client.IgnoreNotFound(world.Client.Delete(ctx, definition())),
		); err != nil {
			t.Error(err)
		}
	})
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(strings.ReplaceAll(string(content), "APP", namespace)), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		createServed(t, object)
	}
	for kind, name := range map[string]string{"ConfigMap": "kube-root-ca.crt", "ServiceAccount": "default"} {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
		object.SetNamespace(namespace)
		object.SetName(name)
		env.WaitFor(t, world.Client, object, "it is there", func(*unstructured.Unstructured) bool { return true })
	}
	suite.Eventually(t, func() string {
		if len(list(t, schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "ReplicaSet"}, namespace)) == 0 {
			return "the Deployment has no ReplicaSet"
		}
		return ""
	})
}

// createServed creates an object as soon as its kind is served and one that another
// test deleted no longer exists.
func createServed(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	suite.Eventually(t, func() string {
		err := world.Client.Create(t.Context(), object)
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) {
			return err.Error()
		}
		if err != nil {
			t.Fatal(err)
		}
		return ""
	})
}

// remove deletes a namespace and then the definition, and waits until nothing is left.
// The claim goes first: the namespace controller does not look again for seconds after
// it has met an object with a finalizer.
func remove(t *testing.T, namespace string) {
	t.Helper()
	claim := &unstructured.Unstructured{}
	claim.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"))
	claim.SetNamespace(namespace)
	claim.SetName("drawer")
	for _, object := range []client.Object{claim, namespaceObject(namespace), definition()} {
		if err := world.Client.Delete(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		suite.Eventually(t, func() string {
			if world.Exists(t, object) {
				return object.GetName() + " is still there"
			}
			return ""
		})
	}
}

// snapshot returns every object of an application as the API server has it, by its
// kind and name. A namespace is called "Namespace".
func snapshot(t *testing.T, namespace string) map[string]*unstructured.Unstructured {
	t.Helper()
	objects := map[string]*unstructured.Unstructured{"Namespace": namespaceObject(namespace), "CustomResourceDefinition": definition()}
	for name, object := range objects {
		if !world.Exists(t, object) {
			t.Fatalf("%s is not there", name)
		}
	}
	for _, kind := range kinds {
		for _, object := range list(t, kind, namespace) {
			objects[kind.Kind+" "+object.GetName()] = &object
		}
	}
	return objects
}

func list(t *testing.T, kind schema.GroupVersionKind, namespace string) []unstructured.Unstructured {
	t.Helper()
	objects := &unstructured.UnstructuredList{}
	objects.SetGroupVersionKind(kind)
	if err := world.Client.List(t.Context(), objects, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	return objects.Items
}
