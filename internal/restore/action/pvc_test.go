// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
)

func TestPVCAction_Execute(t *testing.T) {
	resource := schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"}
	volume := itemaction.RelatedItem{Resource: volumes, Name: "v"}
	waits := []string{
		`the backup does not hold the data of this claim: it binds to PersistentVolume "v" and no other, ` +
			"and stays Pending while that is missing or reserved for another claim",
	}
	mapped := itemaction.RestoreContext{NamespaceMapping: map[string]string{"a": "b"}}
	const bound = `{"metadata":{"name":"data","namespace":"a","finalizers":["kubernetes.io/pvc-protection"],"annotations":{
		"pv.kubernetes.io/bind-completed":"yes","pv.kubernetes.io/bound-by-controller":"yes",
		"volume.kubernetes.io/selected-node":"n","volume.kubernetes.io/storage-provisioner":"csi.x",
		"volume.beta.kubernetes.io/storage-provisioner":"csi.x","x":"y"}},
		"spec":{"volumeName":"v","storageClassName":"fast","dataSource":{"kind":"VolumeSnapshot","name":"s"},
		"dataSourceRef":{"kind":"VolumeSnapshot","name":"s"}},"status":{"phase":"Bound"}}`
	const waiting = `{"metadata":{"name":"data","namespace":"a","finalizers":["kubernetes.io/pvc-protection"],"annotations":{"x":"y"}},
		"spec":{"volumeName":"v","storageClassName":"fast","dataSource":{"kind":"VolumeSnapshot","name":"s"},
		"dataSourceRef":{"kind":"VolumeSnapshot","name":"s"}}}`
	RunCases(t, NewPVCAction(), map[string]Case{
		"bound, its volume is in the archive": {
			Resource: resource, Archived: bound, InArchive: []itemaction.RelatedItem{volume}, Want: waiting,
			Result: itemaction.Result{Warnings: waits, RelatedItems: []itemaction.RelatedItem{volume}},
		},
		"bound, its volume is not in the archive": {
			Resource: resource, Archived: bound, Want: waiting, Result: itemaction.Result{Warnings: waits},
		},
		"bound, its volume is in the archive and retained": {
			Resource: resource, Archived: bound, InArchive: []itemaction.RelatedItem{volume}, Want: waiting,
			ArchivedVolumes: []string{`{"metadata":{"name":"v"},"spec":{"persistentVolumeReclaimPolicy":"Retain"}}`},
			Result:          itemaction.Result{Warnings: waits, RelatedItems: []itemaction.RelatedItem{volume}},
		},
		"bound, its volume is in the archive and deleted with it": {
			Resource: resource, Archived: bound, InArchive: []itemaction.RelatedItem{volume},
			ArchivedVolumes: []string{`{"metadata":{"name":"v"},"spec":{"persistentVolumeReclaimPolicy":"Delete"}}`},
			Want: `{"metadata":{"name":"data","namespace":"a","finalizers":["kubernetes.io/pvc-protection"],"annotations":{"x":"y"}},
				"spec":{"storageClassName":"fast"}}`,
			Result: itemaction.Result{Warnings: []string{"the backup does not hold the data of this claim, and the reclaim policy Delete of its " +
				"PersistentVolume \"v\" deletes the storage with the claim: it gets a new, empty volume"}},
		},
		"not bound, of a volume that is deleted": {
			Resource:        resource,
			Archived:        `{"metadata":{"name":"data","namespace":"a"},"spec":{"volumeName":"v"},"status":{"phase":"Pending"}}`,
			ArchivedVolumes: []string{`{"metadata":{"name":"v"},"spec":{"persistentVolumeReclaimPolicy":"Delete"}}`},
			Want:            `{"metadata":{"name":"data","namespace":"a"},"spec":{"volumeName":"v"}}`,
		},
		"bound, with its data": {
			Resource: resource, Archived: bound, InArchive: []itemaction.RelatedItem{volume},
			WithData: []string{"a/data"}, Restore: mapped,
			Want: `{"metadata":{"name":"data","namespace":"b","finalizers":["kubernetes.io/pvc-protection"],"annotations":{"x":"y"}},
				"spec":{"storageClassName":"fast"}}`,
		},
		"lost": {
			Resource: resource,
			Archived: `{"metadata":{"name":"data","namespace":"a"},"spec":{"volumeName":"v"},"status":{"phase":"Lost"}}`,
			Want:     `{"metadata":{"name":"data","namespace":"a"},"spec":{"volumeName":"v"}}`,
			Result:   itemaction.Result{Warnings: waits},
		},
		"not bound, waiting for a volume of its choice": {
			Resource: resource, InArchive: []itemaction.RelatedItem{volume},
			Archived: `{"metadata":{"name":"data","namespace":"a"},"spec":{"volumeName":"v"},"status":{"phase":"Pending"}}`,
			Want:     `{"metadata":{"name":"data","namespace":"a"},"spec":{"volumeName":"v"}}`,
			Result:   itemaction.Result{RelatedItems: []itemaction.RelatedItem{volume}},
		},
		"not bound, waiting for its first pod": {
			Resource: resource,
			Archived: `{"metadata":{"name":"data","namespace":"a","annotations":{"volume.kubernetes.io/selected-node":"n"}},
				"spec":{"dataSource":{"kind":"VolumeSnapshot","name":"s"}},"status":{"phase":"Pending"}}`,
			Want: `{"metadata":{"name":"data","namespace":"a"},"spec":{"dataSource":{"kind":"VolumeSnapshot","name":"s"}}}`,
		},
		"of an ephemeral volume": {
			Resource: resource,
			Archived: `{"metadata":{"name":"p-tmp","namespace":"a","ownerReferences":[{"kind":"Pod","name":"p","controller":true}]},
				"spec":{"volumeName":"v"},"status":{"phase":"Bound"}}`,
			Result: itemaction.Result{Skip: "it belongs to an ephemeral volume, for which its Pod creates a new one"},
		},
		"of a StatefulSet that owns its claims": {
			Resource: resource,
			Archived: `{"metadata":{"name":"d-0","namespace":"a","ownerReferences":[{"kind":"StatefulSet","name":"d"}]},"spec":{}}`,
			Want:     `{"metadata":{"name":"d-0","namespace":"a"},"spec":{}}`,
		},
	})
}
