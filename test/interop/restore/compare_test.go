// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	velerov1 "github.com/vmware-tanzu/velero/pkg/apis/velero/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

// allowedFields may differ between an object and the restored one, for the reason
// given.
var allowedFields = map[string]string{
	"metadata.uid":               "it is a new object",
	"metadata.resourceVersion":   "it was written at another time",
	"metadata.creationTimestamp": "it was created at another time",
	"metadata.generation":        "the API server counts from 1 again",
	"metadata.managedFields":     "other programs wrote it",
	"metadata.generateName":      "the name is known already",
	"status":                     "controllers see how it is now",
}

// restored says what shows in objects about the restore they are from.
type restored struct {
	// marks are the labels of an object that was restored, with their values.
	marks map[string]string
	// from and to are the namespace in the backup and in the cluster.
	from, to string
}

func byVelero(backup, restore, namespace string) restored {
	return restored{
		marks: map[string]string{velerov1.BackupNameLabel: backup, velerov1.RestoreNameLabel: restore},
		from:  namespace, to: namespace,
	}
}

func byGrapnel(backup, restore, from, to string) restored {
	return restored{
		marks: map[string]string{"grapnel.dev/backup-name": backup, "grapnel.dev/restore-name": restore},
		from:  from, to: to,
	}
}

// same waits until the objects of an application are what they were, apart from what
// is allowed: controllers finish their work after a restore has ended.
func (r restored) same(t *testing.T, before map[string]*unstructured.Unstructured) {
	t.Helper()
	suite.Eventually(t, func() string {
		after := snapshot(t, r.to)
		var differences []string
		names := maps.Clone(before)
		maps.Copy(names, after)
		for _, name := range slices.Sorted(maps.Keys(names)) {
			if diff := cmp.Diff(r.expected(before[name]), r.actual(after[name])); diff != "" {
				differences = append(differences, fmt.Sprintf("%s (-before +after):\n%s", name, diff))
			}
		}
		return strings.Join(differences, "\n")
	})
	r.marked(t)
}

// marked checks that the objects were restored, and not created otherwise.
func (r restored) marked(t *testing.T) {
	t.Helper()
	for name, object := range snapshot(t, r.to) {
		if r.allowedUnmarked(name) {
			continue
		}
		for label, value := range r.marks {
			if object.GetLabels()[label] != value {
				t.Errorf("%s has the labels %v, want %s=%s", name, object.GetLabels(), label, value)
			}
		}
	}
}

// allowedUnmarked says which objects may be without the marks of a restore:
// controllers make some in every namespace, perhaps before they are restored, and
// Velero does not mark a namespace.
func (r restored) allowedUnmarked(name string) bool {
	_, velero := r.marks[velerov1.BackupNameLabel]
	return name == "ConfigMap kube-root-ca.crt" || name == "ServiceAccount default" || velero && name == "Namespace"
}

// expected returns what an object should be after it was restored.
func (r restored) expected(object *unstructured.Unstructured) map[string]any {
	if object == nil {
		return nil
	}
	o := object.DeepCopy()
	if o.GetNamespace() != "" {
		o.SetNamespace(r.to)
	}
	if o.GetKind() == "Namespace" {
		o.SetName(r.to)
		labels := o.GetLabels()
		labels["kubernetes.io/metadata.name"] = r.to // The API server's own.
		o.SetLabels(labels)
	}
	subjects, _, _ := unstructured.NestedSlice(o.Object, "subjects")
	for _, subject := range subjects {
		if s, ok := subject.(map[string]any); ok && s["namespace"] == r.from {
			s["namespace"] = r.to
		}
	}
	if subjects != nil {
		o.Object["subjects"] = subjects
	}
	return allowedAway(o)
}

// actual returns an object without what a restore adds to it.
func (r restored) actual(object *unstructured.Unstructured) map[string]any {
	if object == nil {
		return nil
	}
	o := object.DeepCopy()
	labels := o.GetLabels()
	for label, value := range r.marks {
		if labels[label] == value {
			delete(labels, label)
		}
	}
	if len(labels) == 0 {
		labels = nil
	}
	o.SetLabels(labels)
	annotations := o.GetAnnotations()
	delete(annotations, "grapnel.dev/restored") // It tells the Restore what it has done.
	if len(annotations) == 0 {
		annotations = nil
	}
	o.SetAnnotations(annotations)
	return allowedAway(o)
}

// allowedAway takes away what may differ.
func allowedAway(o *unstructured.Unstructured) map[string]any {
	for field := range allowedFields {
		unstructured.RemoveNestedField(o.Object, strings.Split(field, ".")...)
	}
	// The same owner has a new UID.
	owners := o.GetOwnerReferences()
	for i := range owners {
		owners[i].UID = ""
	}
	if len(owners) > 0 {
		o.SetOwnerReferences(owners)
	}
	// The cluster chooses an address, unless the Service wants none.
	if ip, _, _ := unstructured.NestedString(o.Object, "spec", "clusterIP"); o.GetKind() == "Service" && ip != "None" {
		unstructured.RemoveNestedField(o.Object, "spec", "clusterIP")
		unstructured.RemoveNestedField(o.Object, "spec", "clusterIPs")
	}
	return o.Object
}
