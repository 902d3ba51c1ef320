// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package action_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/restore/action"
	"github.com/grapnel-dev/grapnel/internal/testing/controlplane"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

const patience = 2 * time.Minute

func TestActions(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Restore actions")
}

// plane is the API server of the suite.
var plane *controlplane.ControlPlane

var _ = BeforeSuite(func() {
	var err error
	plane, err = controlplane.Start(context.Background(), controlplane.Options{ControllerManager: true})
	Expect(err).NotTo(HaveOccurred())
})

var _ = AfterSuite(func() {
	if plane != nil {
		Expect(plane.Stop()).To(Succeed())
	}
})

// A real API server and its controllers accept the results of the actions for their own objects.
var _ = Describe("What the restore actions return", Label("restore"), func() {
	for name, check := range suite.SortedByName(map[string]func(cluster, testing.TB){
		"is accepted for every object":                             cluster.testAccepted,
		"distinguishes fields set by a user from allocated fields": cluster.testServices,
		"is adopted by a Deployment":                               cluster.testAdoption,
		"finds a retained volume again":                            cluster.testVolume,
		"does not give an empty volume to a PersistentVolumeClaim": cluster.testMissingVolume,
	}) {
		It(name, func() {
			c, err := client.New(plane.Config(), client.Options{})
			Expect(err).NotTo(HaveOccurred())
			check(cluster{c}, suite.Spec(GinkgoTB()))
		})
	}
})

type cluster struct{ client.Client }

// namespace creates a namespace in which pods can be created.
func (c cluster) namespace(t testing.TB, name string) {
	t.Helper()
	c.create(t, fmt.Sprintf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, name))
	account := parse(t, fmt.Sprintf(`{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"default","namespace":%q}}`, name))
	c.await(t, "the default ServiceAccount of "+name, func() bool { return c.Get(t.Context(), client.ObjectKeyFromObject(account), account) == nil })
}

func parse(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(text), object); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return object
}

// create creates an object and returns it from the API server.
func (c cluster) create(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	object := parse(t, text)
	if err := c.Create(t.Context(), object); err != nil {
		t.Fatalf("creating %s %s: %v", object.GetKind(), object.GetName(), err)
	}
	return object
}

// refresh reads an object again.
func (c cluster) refresh(t testing.TB, object *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		t.Fatal(err)
	}
	return object
}

func (c cluster) remove(t testing.TB, object *unstructured.Unstructured) {
	t.Helper()
	if err := c.Delete(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	c.await(t, object.GetKind()+" "+object.GetName()+" to be gone", func() bool {
		return apierrors.IsNotFound(c.Get(t.Context(), client.ObjectKeyFromObject(object), object.DeepCopy()))
	})
}

func (cluster) await(t testing.TB, what string, condition func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, patience, true,
		func(context.Context) (bool, error) { return condition(), nil })
	if err != nil {
		t.Fatalf("waiting for %s: %v", what, err)
	}
}

// run maps namespace from to namespace to, with an otherwise empty archive.
func run(from, to string) *itemaction.RestoreContext {
	return &itemaction.RestoreContext{
		NamespaceMapping: map[string]string{from: to},
		IsArchived:       func(schema.GroupResource, string, string) bool { return false },
		ReadArchived:     func(schema.GroupResource, string, string) map[string]any { return nil },
		HasVolumeData:    func(string, string) bool { return false },
	}
}

// restorable returns the result of the actions for an object.
func restorable(t testing.TB, c client.Client, archived *unstructured.Unstructured, run *itemaction.RestoreContext) *unstructured.Unstructured {
	t.Helper()
	gvk := archived.GroupVersionKind()
	mapping, err := c.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		t.Fatal(err)
	}
	object, err := action.CopyForRestore(archived, action.RestoreNames{Backup: "b", Restore: "r"})
	if err != nil {
		t.Fatal(err)
	}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		object.SetNamespace(run.MapNamespace(object.GetNamespace()))
	}
	item := &itemaction.RestoreItem{Resource: mapping.Resource, Object: object, Archived: archived, Restore: run}
	for _, action := range action.NewActions() {
		if !action.AppliesTo(mapping.Resource.GroupResource()) {
			continue
		}
		result, err := action.Execute(t.Context(), item)
		if err != nil || result.Skip != "" {
			t.Fatalf("%s of %s %s: skipped %q, error %v", action.Name(), gvk.Kind, archived.GetName(), result.Skip, err)
		}
	}
	return object
}

// restore creates the result of the actions for an object.
func (c cluster) restore(t testing.TB, archived *unstructured.Unstructured, run *itemaction.RestoreContext) *unstructured.Unstructured {
	t.Helper()
	object := restorable(t, c, archived, run)
	if err := c.Create(t.Context(), object); err != nil {
		t.Fatalf("restoring %s %s: %v", object.GetKind(), object.GetName(), err)
	}
	return object
}
