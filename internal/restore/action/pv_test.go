// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
)

var mapped = itemaction.RestoreContext{NamespaceMapping: map[string]string{"a": "b"}}

// bound is a volume with a claim, in the state that a controller creates.
func bound(policy, phase string) string {
	return fmt.Sprintf(`{"metadata":{"name":"v","uid":"u","finalizers":["kubernetes.io/pv-protection","external-attacher/csi-x"],
		"annotations":{"pv.kubernetes.io/bound-by-controller":"yes","pv.kubernetes.io/provisioned-by":"csi.x"}},
		"spec":{"persistentVolumeReclaimPolicy":%q,"csi":{"driver":"csi.x","volumeHandle":"h"},"capacity":{"storage":"1Gi"},
		"claimRef":{"kind":"PersistentVolumeClaim","namespace":"a","name":"data","uid":"c","resourceVersion":"7"}},
		"status":{"phase":%q}}`, policy, phase)
}

// waiting is the same volume restored for the claim of a namespace.
func waiting(policy, namespace string) string {
	return fmt.Sprintf(`{"metadata":{"name":"v","finalizers":["kubernetes.io/pv-protection"],
		"annotations":{"pv.kubernetes.io/provisioned-by":"csi.x"}},
		"spec":{"persistentVolumeReclaimPolicy":%q,"csi":{"driver":"csi.x","volumeHandle":"h"},"capacity":{"storage":"1Gi"},
		"claimRef":{"kind":"PersistentVolumeClaim","namespace":%q,"name":"data"}}}`, policy, namespace)
}

func TestPVAction_Execute(t *testing.T) {
	resource := schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumes"}
	warned := itemaction.Result{Warnings: []string{
		"the backup does not hold the data of this volume: it refers to the storage that it had, and its claim gets the current content of that storage",
	}}
	const free = `{"metadata":{"name":"v"},"spec":{"persistentVolumeReclaimPolicy":"Delete","local":{"path":"/disk"}}}`
	RunCases(t, NewPVAction(), map[string]Case{
		"never bound": {
			Resource: resource,
			Archived: `{"metadata":{"name":"v"},"spec":{"persistentVolumeReclaimPolicy":"Delete","local":{"path":"/disk"}},"status":{"phase":"Available"}}`,
			Want:     free,
		},
		"reserved, in a mapped namespace": {
			Resource: resource, Restore: mapped,
			Archived: `{"metadata":{"name":"v"},"spec":{"persistentVolumeReclaimPolicy":"Delete","claimRef":{"namespace":"a","name":"data"}},"status":{"phase":"Available"}}`,
			Want:     `{"metadata":{"name":"v"},"spec":{"persistentVolumeReclaimPolicy":"Delete","claimRef":{"namespace":"b","name":"data"}}}`,
		},
		"bound, Retain": {
			Resource: resource, Archived: bound("Retain", "Bound"), Want: waiting("Retain", "a"), Result: warned,
		},
		"bound, Retain, mapped": {
			Resource: resource, Restore: mapped, Archived: bound("Retain", "Bound"), Want: waiting("Retain", "b"), Result: warned,
		},
		"bound, no policy": {
			Resource: resource,
			Archived: `{"metadata":{"name":"v"},"spec":{"nfs":{"server":"s","path":"/"},"claimRef":{"namespace":"a","name":"data","uid":"c"}}}`,
			Want:     `{"metadata":{"name":"v"},"spec":{"nfs":{"server":"s","path":"/"},"claimRef":{"namespace":"a","name":"data"}}}`,
			Result:   warned,
		},
		"bound, Delete": {
			Resource: resource, Archived: bound("Delete", "Bound"),
			Result: itemaction.Result{Skip: "its storage was deleted with its claim, because its reclaim policy is Delete: the claim gets a new volume"},
		},
		"bound, Recycle": {
			Resource: resource, Archived: bound("Recycle", "Bound"),
			Result: itemaction.Result{Skip: "its storage was deleted with its claim, because its reclaim policy is Recycle: the claim gets a new volume"},
		},
		"bound, Delete, with its data": {
			Resource: resource, Archived: bound("Delete", "Bound"), WithData: []string{"a/data"},
			Result: itemaction.Result{Skip: "its claim gets a new volume with the data from the backup"},
		},
		"bound, Delete, with another's data": {
			Resource: resource, Archived: bound("Delete", "Bound"), WithData: []string{"b/data"}, Restore: mapped,
			Result: itemaction.Result{Skip: "its storage was deleted with its claim, because its reclaim policy is Delete: the claim gets a new volume"},
		},
		"released, Delete": {
			Resource: resource, Archived: bound("Delete", "Failed"),
			Result: itemaction.Result{Skip: "it was released, and its reclaim policy Delete released its storage"},
		},
		"released, Retain: no other claim gets the data": {
			Resource: resource, Restore: mapped,
			Archived: `{"metadata":{"name":"v"},"spec":{"persistentVolumeReclaimPolicy":"Retain","claimRef":{"namespace":"a","name":"data","uid":"c"}},"status":{"phase":"Released"}}`,
			Want:     `{"metadata":{"name":"v"},"spec":{"persistentVolumeReclaimPolicy":"Retain","claimRef":{"namespace":"a","name":"data","uid":"c"}}}`,
		},
	})
}
