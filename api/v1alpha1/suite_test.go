// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/controlplane"
)

// The API server that all tests of the package share. Each test has its own
// namespace.
var (
	plane *controlplane.ControlPlane
	admin client.Client
)

func TestMain(m *testing.M) {
	code, err := runTests(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(code)
}

func runTests(m *testing.M) (code int, err error) {
	plane, err = controlplane.Start(context.Background(), controlplane.Options{CRDPaths: []string{"../../config/crd/bases"}})
	if err != nil {
		return 0, err
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return 0, err
		}
	}
	if admin, err = client.New(plane.Config(), client.Options{Scheme: scheme}); err != nil {
		return 0, err
	}
	code = m.Run()
	return code, plane.Stop()
}

// newNamespace creates a namespace for one test.
func newNamespace(t *testing.T) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "api-"}}
	if err := admin.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	return ns.Name
}

// parse reads an object as a user writes it, with arbitrary fields and values.
func parse(t *testing.T, kind, namespace, body string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{}}
	if err := yaml.Unmarshal([]byte(body), &object.Object); err != nil {
		t.Fatal(err)
	}
	if object.Object == nil {
		object.Object = map[string]any{}
	}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
	if object.GetName() == "" {
		object.SetGenerateName("x-")
	}
	if kind != "Plugin" {
		object.SetNamespace(namespace)
	}
	return object
}

// create creates an object that the API server must accept.
func create(t *testing.T, kind, namespace, body string) *unstructured.Unstructured {
	t.Helper()
	object := parse(t, kind, namespace, body)
	if err := admin.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	return object
}

// createForNow creates an object and deletes it at the end of the test:
// cluster-scoped objects are visible to all tests.
func createForNow(t *testing.T, kind, namespace, body string) *unstructured.Unstructured {
	t.Helper()
	object := create(t, kind, namespace, body)
	t.Cleanup(func() {
		if err := admin.Delete(context.WithoutCancel(t.Context()), object); err != nil {
			t.Error(err)
		}
	})
	return object
}

// start sets a phase, which is the first thing that the operator does.
func start(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	if err := admin.Status().Patch(t.Context(), object, merge(`{"status":{"phase":"InProgress"}}`)); err != nil {
		t.Fatal(err)
	}
}

func merge(change string) client.Patch {
	return client.RawPatch("application/merge-patch+json", []byte(change))
}

// typed decodes an object as every client and informer of the kind does. A failure
// here would stop the operator from reading any object of the kind.
func typed(t *testing.T, object *unstructured.Unstructured) runtime.Object {
	t.Helper()
	content, err := object.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	into, err := admin.Scheme().New(object.GroupVersionKind())
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(content, into); err != nil {
		t.Fatalf("the API server accepts what the operator cannot read: %v\n%s", err, content)
	}
	return into
}

// wantMessage checks an answer of the API server: no error if text is empty,
// otherwise an error that contains it.
func wantMessage(t *testing.T, err error, text string) {
	t.Helper()
	switch {
	case text == "" && err != nil:
		t.Errorf("want it to be accepted, got: %v", err)
	case text != "" && err == nil:
		t.Errorf("the object was accepted, want an error with %q", text)
	case text != "" && !strings.Contains(err.Error(), text):
		t.Errorf("want a message with %q, got: %v", text, err)
	}
}
