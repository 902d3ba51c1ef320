// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/grapnel-dev/grapnel/internal/testing/csi"
	"github.com/grapnel-dev/grapnel/sdk"
	"github.com/grapnel-dev/grapnel/sdk/item"
	"github.com/grapnel-dev/grapnel/sdk/plugintest"
)

// TestContract checks all actions, over gRPC, with a claim of the driver.
func TestContract(t *testing.T) {
	w := newWorld(t)
	claim := w.createVolume("data")
	sample := plugintest.NewBackupItemRequest(claim).Backup
	w.backup.UID = sample.UID
	// A later call takes over what is ready.
	b, deleted := w.backUp(claim), w.backUp(w.createVolume("deleted"))
	plugintest.CheckContract(t, plugintest.Start(t, newServer(w.cluster)), plugintest.Contract{
		Objects: func(action plugintest.Action) []*unstructured.Unstructured {
			switch action.Kind {
			case sdk.KindAsyncBackupItemAction:
				return []*unstructured.Unstructured{claim}
			case sdk.KindAsyncRestoreItemAction:
				// The sample Restore maps the namespace shop, which does not exist: it restores into that of the claim.
				return []*unstructured.Unstructured{b.claim}
			case sdk.KindDeleteItemAction:
				return []*unstructured.Unstructured{deleted.content}
			default:
				return []*unstructured.Unstructured{b.content}
			}
		},
	})
}

func TestChooseClass(t *testing.T) {
	const driver = "a.example.org"
	class := func(name string) snapshotClass { return snapshotClass{name: name, driver: driver} }
	labeled, isDefault := class("labeled"), class("default")
	labeled.isLabeled, isDefault.isDefault = true, true
	other := snapshotClass{name: "other", driver: "b.example.org", isDefault: true, isLabeled: true}
	for name, tc := range map[string]struct {
		classes    []snapshotClass
		parameters map[string]string
		want, why  string
	}{
		"none":                        {classes: []snapshotClass{other}, why: "there is no VolumeSnapshotClass of the CSI driver a.example.org"},
		"the only one":                {classes: []snapshotClass{other, class("one")}, want: "one"},
		"the default one":             {classes: []snapshotClass{class("one"), isDefault}, want: "default"},
		"the labeled one":             {classes: []snapshotClass{isDefault, labeled}, want: "labeled"},
		"several":                     {classes: []snapshotClass{class("two"), class("one")}, why: "(one, two): set the label"},
		"several defaults":            {classes: []snapshotClass{isDefault, {name: "d2", driver: driver, isDefault: true}}, why: "(d2, default)"},
		"several labeled":             {classes: []snapshotClass{labeled, {name: "l2", driver: driver, isLabeled: true}, isDefault}, why: "(l2, labeled)"},
		"a parameter":                 {classes: []snapshotClass{labeled, class("one")}, parameters: map[string]string{parameterClass: "one"}, want: "one"},
		"a parameter for the driver":  {classes: []snapshotClass{labeled, class("one")}, parameters: map[string]string{parameterClass: "labeled", parameterClass + "." + driver: "one"}, want: "one"},
		"a parameter for another":     {classes: []snapshotClass{class("one")}, parameters: map[string]string{parameterClass + ".b.example.org": "x"}, want: "one"},
		"a parameter that is missing": {classes: []snapshotClass{labeled, other}, parameters: map[string]string{parameterClass: "other"}, why: "does not exist or is not of the CSI driver"},
		"a long parameter":            {classes: []snapshotClass{labeled}, parameters: map[string]string{parameterClass: strings.Repeat("ä", 5000)}, why: "…"},
	} {
		t.Run(name, func(t *testing.T) {
			got, why := chooseClass("VolumeSnapshotClass", parameterClass, tc.classes, driver, tc.parameters)
			if got != tc.want || !strings.Contains(why, tc.why) || (why == "") != (tc.why == "") || len(why) > 1000 {
				t.Errorf("the class is %q, because %q; want %q, %q", got, why, tc.want, tc.why)
			}
		})
	}
}

func TestDecideCapture(t *testing.T) {
	const driver = "a.example.org"
	isTrue := true
	observed := func(edits ...func(*observedClaim)) observedClaim {
		o := observedClaim{
			claim: &corev1.PersistentVolumeClaim{
				Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pv"}, Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
			},
			volume: &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{
				PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: "h"}},
			}},
			classes: observedClasses{classes: []snapshotClass{{name: "class", driver: driver}}},
		}
		for _, edit := range edits {
			edit(&o)
		}
		return o
	}
	block := corev1.PersistentVolumeBlock
	for name, tc := range map[string]struct {
		edit func(*observedClaim)
		want string
	}{
		"captured": {edit: func(*observedClaim) {}},
		"block":    {edit: func(o *observedClaim) { o.claim.Spec.VolumeMode, o.volume.Spec.VolumeMode = &block, &block }},
		"retained": {edit: func(o *observedClaim) {
			o.volume.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		}},
		"no API": {edit: func(o *observedClaim) { o.classes = observedClasses{notServed: true} }, want: "does not serve snapshot.storage.k8s.io/v1: install"},
		"ephemeral": {edit: func(o *observedClaim) {
			o.claim.OwnerReferences = []metav1.OwnerReference{{Kind: "Pod", Controller: &isTrue}}
		}, want: "ephemeral"},
		"of a StatefulSet": {edit: func(o *observedClaim) {
			o.claim.OwnerReferences = []metav1.OwnerReference{{Kind: "StatefulSet", Controller: &isTrue}}
		}},
		"unbound":  {edit: func(o *observedClaim) { o.claim.Spec.VolumeName = ""; o.claim.Status.Phase = corev1.ClaimPending }, want: "not bound"},
		"reserved": {edit: func(o *observedClaim) { o.claim.Status.Phase = corev1.ClaimPending }, want: "not bound"},
		"lost":     {edit: func(o *observedClaim) { o.volume = nil }, want: "does not exist anymore"},
		"no CSI": {edit: func(o *observedClaim) {
			o.volume.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}
		}, want: "no CSI volume (hostPath)"},
		"no class": {edit: func(o *observedClaim) { o.classes.classes = nil }, want: "there is no VolumeSnapshotClass of the CSI driver " + driver},
	} {
		t.Run(name, func(t *testing.T) {
			plan, why := decideCapture(observed(tc.edit))
			if !strings.Contains(why, tc.want) || (why == "") != (tc.want == "") || why == "" && (plan != capturePlan{driver: driver, volumeHandle: "h", class: "class"}) {
				t.Errorf("the plan is %+v, because %q; want %q", plan, why, tc.want)
			}
		})
	}
}

func TestDecideRestore(t *testing.T) {
	claimOf := func(source string, phase corev1.PersistentVolumeClaimPhase) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{
			Spec:   corev1.PersistentVolumeClaimSpec{DataSourceRef: &corev1.TypedObjectReference{Name: source}},
			Status: corev1.PersistentVolumeClaimStatus{Phase: phase},
		}
	}
	snapshotWith := func(message string, ready bool) *snapshotv1.VolumeSnapshot {
		content := "c"
		s := &snapshotv1.VolumeSnapshot{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{annotationOperation: "t", annotationDriver: "d"}}}
		s.Status = &snapshotv1.VolumeSnapshotStatus{ReadyToUse: &ready, BoundVolumeSnapshotContentName: &content}
		if message != "" {
			s.Status.Error = &snapshotv1.VolumeSnapshotError{Message: &message}
		}
		return s
	}
	for name, tc := range map[string]struct {
		o          observedRestore
		want       string
		completed  bool
		wantRemove bool
	}{
		"bound":                    {o: observedRestore{snapshot: snapshotWith("", true), claim: claimOf("s", corev1.ClaimBound)}, want: "removing", wantRemove: true},
		"bound, and clean":         {o: observedRestore{claim: claimOf("s", corev1.ClaimBound)}, want: "is bound", completed: true, wantRemove: true},
		"bound, but not removable": {o: observedRestore{snapshot: snapshotWith("", true), claim: claimOf("s", corev1.ClaimBound), leavingFor: time.Hour}, want: "is bound", completed: true, wantRemove: true},
		"not created yet":          {o: observedRestore{snapshot: snapshotWith("", true)}, want: "waiting for the claim"},
		"removed meanwhile":        {want: "was deleted before the claim was created", completed: true},
		"not created":              {o: observedRestore{snapshot: snapshotWith("", true), age: time.Hour}, want: "was not created", completed: true, wantRemove: true},
		"other data":               {o: observedRestore{snapshot: snapshotWith("", true), claim: claimOf("x", corev1.ClaimBound), age: time.Hour}, want: "existed before", completed: true, wantRemove: true},
		"still the old claim":      {o: observedRestore{snapshot: snapshotWith("", true), claim: claimOf("x", corev1.ClaimBound)}, want: "waiting for the claim"},
		"deleted":                  {o: observedRestore{claim: claimOf("s", corev1.ClaimPending), age: time.Hour}, want: "was deleted before", completed: true, wantRemove: true},
		"gone":                     {o: observedRestore{snapshot: snapshotWith("could not find snapshot for snapshotID 1", false), claim: claimOf("s", corev1.ClaimPending)}, want: "does not have the snapshot", completed: true, wantRemove: true},
		"gone, without a list":     {o: observedRestore{snapshot: snapshotWith("", true), claim: claimOf("s", corev1.ClaimPending), provisioningError: "rpc error: code = NotFound"}, want: "cannot be provisioned", completed: true, wantRemove: true},
		"slow":                     {o: observedRestore{snapshot: snapshotWith("", true), claim: claimOf("s", corev1.ClaimPending), age: time.Hour, provisioningError: "rpc error: code = Unavailable"}, want: "not provisioned yet: rpc"},
		"no pod yet":               {o: observedRestore{snapshot: snapshotWith("", true), claim: claimOf("s", corev1.ClaimPending), waitsForConsumer: true}, want: "waiting for a pod"},
		"no pod":                   {o: observedRestore{snapshot: snapshotWith("", true), claim: claimOf("s", corev1.ClaimPending), waitsForConsumer: true, age: time.Hour}, want: "when a pod uses", completed: true},
		"no pod, not ready":        {o: observedRestore{snapshot: snapshotWith("", false), claim: claimOf("s", corev1.ClaimPending), waitsForConsumer: true, age: time.Hour}, want: "waiting for snapshot-controller"},
	} {
		t.Run(name, func(t *testing.T) {
			tc.o.operation = operationID{token: "t", member: "data"}
			tc.o.operation.object.Name = "s"
			progress, remove := decideRestore(tc.o)
			if progress.Completed != tc.completed || remove != tc.wantRemove || !strings.Contains(progress.Description+progress.Err, tc.want) {
				t.Errorf("the progress is %+v, removed %v; want %+v", progress, remove, tc)
			}
		})
	}
}

func TestOnlyStorageClass(t *testing.T) {
	class := func(name, provisioner string, isDefault bool) storagev1.StorageClass {
		c := storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner}
		if isDefault {
			c.Annotations = map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}
		}
		return c
	}
	for name, tc := range map[string]struct {
		classes   []storagev1.StorageClass
		want, why string
	}{
		"one":     {classes: []storagev1.StorageClass{class("a", "d", false), class("b", "x", true)}, want: "a"},
		"default": {classes: []storagev1.StorageClass{class("a", "d", false), class("b", "d", true)}, want: "b"},
		"several": {classes: []storagev1.StorageClass{class("a", "d", false), class("b", "d", false)}, why: "(a, b): set the annotation"},
		"none":    {classes: []storagev1.StorageClass{class("b", "x", true)}, why: "create one, and restore again"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := onlyStorageClass(tc.classes, "d")
			if got != tc.want || (err == nil) != (tc.why == "") || err != nil && !strings.Contains(err.Error(), tc.why) {
				t.Errorf("the class is %q, %v; want %q, %q", got, err, tc.want, tc.why)
			}
		})
	}
}

func TestParseOperationID(t *testing.T) {
	id := operationID{kind: operationRestore, uid: "u", token: "t", member: "data", started: time.Unix(1_800_000_000, 0)}
	id.object.Namespace, id.object.Name = "shop", "grapnel-1"
	if got, err := parseOperationID(id.String(), operationRestore); err != nil || got != id {
		t.Errorf("the ID is %+v, %v", got, err)
	}
	for _, text := range []string{"", "x", id.String() + "/x", strings.Replace(id.String(), "restore", "snapshot", 1), strings.Replace(id.String(), "1800000000", "x", 1)} {
		if _, err := parseOperationID(text, operationRestore); !errors.Is(err, item.ErrUnknownOperation) {
			t.Errorf("%q: the error is %v", text, err)
		}
	}
}

// TestNotServed uses a cluster without the API of snapshots: every claim has the same reason, and there is nothing to delete.
func TestNotServed(t *testing.T) {
	w := newWorld(t)
	claim := w.createVolume("data")
	w.pluginAPI.snapshots = unservedClient(t)
	w.restartPlugin()
	started, err := captureClaim{w.cluster}.Start(t.Context(), &item.BackupRequest{Item: claim, Backup: w.backup})
	w.must(err)
	wantContains(t, "the reason", started.DataNotCaptured, errNotServed.Error())
	if selector, err := (captureClaim{w.cluster}).AppliesTo(t.Context()); err != nil || len(selector.IncludedResources) != 1 {
		t.Errorf("the selector is %v, %v", selector, err)
	}
	removed, err := w.removeSnapshotsOfRun(t.Context(), w.backup.UID)
	if err != nil || removed != 0 {
		t.Errorf("removed %d, %v", removed, err)
	}
	w.must(w.removeLeftovers(t.Context()))
	b := backedUp{claim: claim.DeepCopy()}
	b.claim.SetAnnotations(map[string]string{annotationSnapshot: `{"driver":"` + csi.DriverName + `","content":"c"}`})
	_, err = w.startRestore(b, w.namespace)
	content := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": snapshotv1.SchemeGroupVersion.String(), "kind": "VolumeSnapshotContent",
		"metadata": map[string]any{"name": "c", "labels": map[string]any{labelRunUID: w.backup.UID}},
		"spec":     map[string]any{"driver": csi.DriverName, "volumeSnapshotRef": map[string]any{"namespace": w.namespace}},
		"status":   map[string]any{"snapshotHandle": "h"},
	}}
	for what, err := range map[string]error{"restoring": err, "deleting": w.deleteArchived(content)} {
		if err == nil || !strings.Contains(err.Error(), "the snapshot-controller of kubernetes-csi/external-snapshotter") {
			t.Errorf("%s: the error is %v", what, err)
		}
	}
}
