// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package crash

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// comingAndGoing are the custom resources whose definitions Restores bring. Other runs
// must not meet them: they would tell that a kind has gone.
const comingAndGoing = "parts.*"

// read reads the objects of a file. LANE in it stands for a name.
func read(t *testing.T, file, name string) []*unstructured.Unstructured {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(bytes.ReplaceAll(content, []byte("LANE"), []byte(name))), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		objects = append(objects, object)
	}
}

// different returns objects in another form than they were read.
func different(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	for _, object := range objects {
		object.SetLabels(map[string]string{"crash.example.io/before": "here"})
		object.SetAnnotations(nil)
	}
	return objects
}

// createServed creates an object as soon as its kind is served, and its status.
func (s *site) createServed(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	status, wanted := object.Object["status"]
	eventually(t, "creating "+object.GetName(), func(ctx context.Context) (bool, error) {
		err := s.client.Create(ctx, object)
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			return false, nil
		}
		return true, err
	})
	if !wanted {
		return
	}
	object.Object["status"] = status // the API server dropped it
	if err := s.client.Status().Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

func eventually(t *testing.T, what string, done wait.ConditionWithContextFunc) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, patience, true, done); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// removeDefined removes the definitions and other cluster-scoped objects among some,
// but no namespaces, and returns when nothing tells of them any more.
func (s *site) removeDefined(t *testing.T, objects []*unstructured.Unstructured) {
	t.Helper()
	for _, object := range objects {
		if object.GetNamespace() != "" || object.GetKind() == "Namespace" {
			continue
		}
		eventually(t, "removing "+object.GetName(), func(ctx context.Context) (bool, error) {
			err := s.client.Delete(ctx, object)
			return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
		})
		group, defines, _ := unstructured.NestedString(object.Object, "spec", "group")
		if !defines {
			continue
		}
		eventually(t, "forgetting "+object.GetName(), func(context.Context) (bool, error) {
			served, err := s.discovery.ServerGroups()
			if err != nil {
				return false, err
			}
			return !slices.ContainsFunc(served.Groups, func(g metav1.APIGroup) bool { return g.Name == group }), nil
		})
	}
}

// written returns all objects of some kinds that a Restore wrote, without what differs
// from run to run.
func (s *site) written(t *testing.T, like []*unstructured.Unstructured, restore string) map[string]string {
	t.Helper()
	kinds := map[schema.GroupVersionKind]bool{}
	for _, object := range like {
		kinds[object.GroupVersionKind()] = true
	}
	found := map[string]string{}
	for kind := range kinds {
		var list unstructured.UnstructuredList
		list.SetGroupVersionKind(kind)
		err := s.client.List(t.Context(), &list, client.MatchingLabels{v1alpha1.LabelRestoreName: restore})
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			continue // its definition was not restored
		}
		if err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			object := &list.Items[i]
			data, err := json.Marshal(lasting(object))
			if err != nil {
				t.Fatal(err)
			}
			found[fmt.Sprintf("%s %s/%s", kind.Kind, object.GetNamespace(), object.GetName())] = string(data)
		}
	}
	return found
}

// lasting removes what the API server gives to each object again. Who wrote it stays.
func lasting(object *unstructured.Unstructured) map[string]any {
	var writers []string
	for _, m := range object.GetManagedFields() {
		writers = append(writers, fmt.Sprintf("%s %s %s", m.Manager, m.Operation, m.Subresource))
	}
	slices.Sort(writers)
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, condition := range conditions {
		delete(condition.(map[string]any), "lastTransitionTime")
	}
	if len(conditions) > 0 {
		_ = unstructured.SetNestedSlice(object.Object, conditions, "status", "conditions") // it is one
	}
	for _, name := range []string{"uid", "resourceVersion", "creationTimestamp", "managedFields"} {
		unstructured.RemoveNestedField(object.Object, "metadata", name)
	}
	object.Object["writers"] = writers
	return object.Object
}
