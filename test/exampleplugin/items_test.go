// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	backupitemv2 "github.com/grapnel-dev/grapnel/sdk/backupitemaction/v2"
	"github.com/grapnel-dev/grapnel/sdk/item"
	"github.com/grapnel-dev/grapnel/sdk/plugintest"
	restoreitemv2 "github.com/grapnel-dev/grapnel/sdk/restoreitemaction/v2"
)

// samples returns sample objects: a Pod, and the claim that it mounts.
func samples() (pod, claim *unstructured.Unstructured) {
	objects := labelledSamples()
	return objects[0], objects[1]
}

// labelledSamples returns samples that the actions apply to.
func labelledSamples() []*unstructured.Unstructured {
	objects := plugintest.SampleObjects()
	for _, object := range objects {
		object.SetLabels(map[string]string{labelSnapshot: "true", labelWait: "true", labelCopy: "true", labelMove: "true"})
	}
	return objects
}

func TestSecrets_Execute(t *testing.T) {
	p := plugintest.Start(t, newServer(t.TempDir()))
	pod, _ := samples()
	plain, err := p.BackupItemActionV1(nameSecrets).Execute(t.Context(), plugintest.NewBackupItemRequest(pod))
	if err != nil {
		t.Fatal(err)
	}
	if len(plain.AdditionalItems) > 0 || len(plain.BackupLabels) > 0 {
		t.Errorf("an object without the annotation: %+v", plain)
	}
	pod.SetAnnotations(map[string]string{annotationSecret: "credentials"})
	resp, err := p.BackupItemActionV1(nameSecrets).Execute(t.Context(), plugintest.NewBackupItemRequest(pod))
	if err != nil {
		t.Fatal(err)
	}
	if want := []item.Ref{{Resource: "secrets", Namespace: "shop", Name: "credentials"}}; !reflect.DeepEqual(resp.AdditionalItems, want) {
		t.Errorf("additional items are %v, want %v", resp.AdditionalItems, want)
	}
	if resp.BackupLabels[labelSecrets] != "true" || !reflect.DeepEqual(resp.Item, pod) {
		t.Errorf("labels are %v, the object is %v", resp.BackupLabels, resp.Item)
	}
}

func TestTakeSnapshot_Lifecycle(t *testing.T) {
	dir := t.TempDir()
	p := plugintest.Start(t, newServer(dir))
	taken := func() int {
		found, err := filepath.Glob(filepath.Join(dir, "example-snapshots", "snapshot_*"))
		if err != nil {
			t.Fatal(err)
		}
		return len(found)
	}
	_, claim := samples()
	req := plugintest.NewBackupItemRequest(claim)
	backedUp, err := p.BackupItemActionV2(nameSnapshot).Execute(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.BackupItemActionV2(nameSnapshot).Execute(t.Context(), req); err != nil || taken() != 1 {
		t.Errorf("after a second call: %d snapshots, %v; want the existing one", taken(), err)
	}
	operation := &backupitemv2.OperationRequest{OperationID: backedUp.OperationID, Backup: req.Backup}
	if progress, err := p.BackupItemActionV2(nameSnapshot).Progress(t.Context(), operation); err != nil || !progress.Completed || progress.Err != "" {
		t.Errorf("the progress is %+v, %v", progress, err)
	}
	// When the backup is deleted, only the archived claim is available.
	for range 2 {
		if err := p.DeleteItemActionV1(nameSnapshot).Execute(t.Context(), plugintest.NewDeleteItemRequest(backedUp.Item)); err != nil {
			t.Fatal(err)
		}
	}
	if taken() != 0 {
		t.Error("the snapshot outlives its backup")
	}
	if progress, err := p.BackupItemActionV2(nameSnapshot).Progress(t.Context(), operation); err != nil || progress.Err == "" {
		t.Errorf("the progress of a lost snapshot is %+v, %v", progress, err)
	}
}

func TestRemoveSnapshot_InvalidName(t *testing.T) {
	dir := t.TempDir()
	p := plugintest.Start(t, newServer(dir))
	victim := filepath.Join(dir, "victim")
	if err := os.WriteFile(victim, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, claim := samples()
	claim.SetAnnotations(map[string]string{annotationSnapshot: "../victim"})
	if err := p.DeleteItemActionV1(nameSnapshot).Execute(t.Context(), plugintest.NewDeleteItemRequest(claim)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(victim); err != nil {
		t.Error("a name in an archive removed a file elsewhere")
	}
}

func TestRegistry_Execute(t *testing.T) {
	p := plugintest.Start(t, newServer(t.TempDir()))
	for name, tc := range map[string]struct{ image, registry, want string }{
		"with a registry":    {image: "registry.example.com/shop/web:1", registry: "mirror.example.com", want: "mirror.example.com/shop/web:1"},
		"with a port":        {image: "localhost:5000/web", registry: "mirror.example.com", want: "mirror.example.com/web"},
		"without a registry": {image: "library/nginx", registry: "mirror.example.com", want: "mirror.example.com/library/nginx"},
		"no parameter":       {image: "library/nginx", want: "library/nginx"},
	} {
		t.Run(name, func(t *testing.T) {
			pod, _ := samples()
			containers := []any{map[string]any{"name": "web", "image": tc.image}}
			if err := unstructured.SetNestedSlice(pod.Object, containers, "spec", "containers"); err != nil {
				t.Fatal(err)
			}
			ctx := plugintest.WithParameters(t.Context(), map[string]string{"registry": tc.registry})
			resp, err := p.RestoreItemActionV1(nameRegistry).Execute(ctx, plugintest.NewRestoreItemRequest(pod))
			if err != nil {
				t.Fatal(err)
			}
			got, _, err := unstructured.NestedSlice(resp.Item.Object, "spec", "containers")
			if want := []any{map[string]any{"name": "web", "image": tc.want}}; err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("containers are %v, want %v", got, want)
			}
		})
	}
}

func TestRegistry_ExecuteSkip(t *testing.T) {
	p := plugintest.Start(t, newServer(t.TempDir()))
	for value, want := range map[string]bool{"true": true, "false": false} {
		pod, _ := samples()
		pod.SetAnnotations(map[string]string{annotationSkip: value})
		resp, err := p.RestoreItemActionV1(nameRegistry).Execute(t.Context(), plugintest.NewRestoreItemRequest(pod))
		if err != nil || resp.SkipRestore != want {
			t.Errorf("%s: skipped is %v, %v", value, resp.SkipRestore, err)
		}
	}
}

func TestWaitClaims_AreAdditionalItemsReady(t *testing.T) {
	p := plugintest.Start(t, newServer(t.TempDir()))
	pod, claim := samples()
	req := plugintest.NewRestoreItemRequest(pod)
	resp, err := p.RestoreItemActionV2(nameClaims).Execute(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	want := []item.Ref{{Resource: "persistentvolumeclaims", Namespace: "shop", Name: claim.GetName()}}
	if !resp.WaitForAdditionalItems || !reflect.DeepEqual(resp.AdditionalItems, want) {
		t.Fatalf("it waits for %v, want %v", resp.AdditionalItems, want)
	}
	restored := &restoreitemv2.ReadyRequest{
		AdditionalItems: []item.Ref{{Resource: "persistentvolumeclaims", Namespace: "shop-restored", Name: claim.GetName()}}, Restore: req.Restore,
	}
	for _, want := range []bool{false, true} {
		if ready, err := p.RestoreItemActionV2(nameClaims).AreAdditionalItemsReady(t.Context(), restored); err != nil || ready != want {
			t.Errorf("ready is %v, %v; want %v", ready, err, want)
		}
	}
}

func TestDirectoryStore_InvalidKeys(t *testing.T) {
	outside := t.TempDir()
	inside := filepath.Join(outside, "directory")
	store := plugintest.Start(t, newServer(t.TempDir())).ObjectStoreV1(nameDirectory)
	if err := store.Init(t.Context(), map[string]string{"bucket": "b"}); err == nil || !strings.Contains(err.Error(), "set directory in spec.plugin.config") {
		t.Errorf("error without a directory is %v", err)
	}
	if err := store.Init(t.Context(), map[string]string{"bucket": "b", "directory": inside}); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"../../victim", "/victim", "a/../../../victim", "", "a//b"} {
		if err := store.PutObject(t.Context(), "b", key, strings.NewReader("x")); err == nil {
			t.Errorf("%q was stored", key)
		}
	}
	if err := os.Symlink(outside, filepath.Join(inside, "b")); err != nil {
		t.Fatal(err)
	}
	if err := store.PutObject(t.Context(), "b", "victim", strings.NewReader("x")); err == nil {
		t.Error("an object was stored through a link")
	}
	if found := files(t, outside); found != 1 {
		t.Errorf("%d files outside the directory, want none besides the directory itself", found)
	}
	if left := files(t, filepath.Join(inside, uploadsDir)); left != 0 {
		t.Errorf("%d parts of uploads are left", left)
	}
}
