// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"encoding/json"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

// CreateApp creates a namespace with the ConfigMaps 0, 1 and so on.
func (w *Env) CreateApp(t testing.TB, configMaps int) string {
	t.Helper()
	namespace := w.CreateNamespace(t, "app-")
	for i := range configMaps {
		Create(t, w.Client, NewConfigMap(namespace, i))
	}
	return namespace
}

// NewConfigMap returns the ConfigMap c0, c1 and so on, with its number as data "n".
func NewConfigMap(namespace string, i int) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("c%d", i)},
		Data:       map[string]string{"n": fmt.Sprint(i)},
	}
}

// Create creates an object and returns it as stored.
func Create[T client.Object](t testing.TB, c client.Client, object T) T {
	t.Helper()
	if err := c.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	return object
}

// Patch applies a JSON merge patch to an object. The object in memory is unchanged.
func (w *Env) Patch(t testing.TB, object client.Object, change string) {
	t.Helper()
	if err := w.Client.Patch(t.Context(), deepCopyObject(object), client.RawPatch(types.MergePatchType, []byte(change))); err != nil {
		t.Fatal(err)
	}
}

// Delete deletes an object without waiting for its removal.
func (w *Env) Delete(t testing.TB, object client.Object) {
	t.Helper()
	if err := w.Client.Delete(t.Context(), deepCopyObject(object)); err != nil {
		t.Fatal(err)
	}
}

// Exists reads an object again, and reports whether it exists.
func (w *Env) Exists(t testing.TB, object client.Object) bool {
	t.Helper()
	return getIfExists(t, w.Client, object)
}

func getIfExists(t testing.TB, c client.Client, object client.Object) bool {
	t.Helper()
	err := c.Get(t.Context(), client.ObjectKeyFromObject(object), object)
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	return err == nil
}

// WaitFor waits until an object meets a condition, and returns it.
func WaitFor[T client.Object](t testing.TB, c client.Client, object T, what string, right func(T) bool) T {
	t.Helper()
	object = deepCopyObject(object)
	suite.Eventually(t, func() string {
		if getIfExists(t, c, object) && right(object) {
			return ""
		}
		text, _ := json.Marshal(object)
		return fmt.Sprintf("%s never met the condition: %s\n%s", object.GetName(), what, text)
	})
	return object
}

// WaitForDeletion waits until an object no longer exists.
func (w *Env) WaitForDeletion(t testing.TB, object client.Object) {
	t.Helper()
	object = deepCopyObject(object)
	suite.Eventually(t, func() string {
		if w.Exists(t, object) {
			return object.GetName() + " still exists"
		}
		return ""
	})
}

func deepCopyObject[T client.Object](object T) T {
	return object.DeepCopyObject().(T) //nolint:forcetypeassert // a copy has the type of the original
}
