// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package sdkplugins

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	api "github.com/vmware-tanzu/velero/pkg/apis/velero/v1"
	"github.com/vmware-tanzu/velero/pkg/plugin/framework/common"
	"github.com/vmware-tanzu/velero/pkg/plugin/velero"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/test/interop/plugins/actions"
)

func pod(do string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod"}}
	object.SetNamespace("shop")
	object.SetName("web-0")
	object.SetUID("the-uid-in-the-backup")
	if do != "" {
		object.SetAnnotations(map[string]string{annotationDo: do})
	}
	return object
}

func backup() *api.Backup {
	b := &api.Backup{Spec: api.BackupSpec{StorageLocation: "main"}}
	b.Namespace, b.Name = "velero", "nightly"
	return b
}

func restore() *api.Restore {
	r := &api.Restore{}
	r.Namespace, r.Name = "velero", "again"
	return r
}

func ref(group, resource, name string) velero.ResourceIdentifier {
	return velero.ResourceIdentifier{GroupResource: schema.GroupResource{Group: group, Resource: resource}, Namespace: "shop", Name: name}
}

func TestListPlugins(t *testing.T) {
	t.Parallel()
	s := withPlugin(t)
	for kind, want := range map[common.PluginKind][]string{
		// What is offered in both versions is listed in the newer one, and what is
		// offered in the older one is listed by Velero in both.
		common.PluginKindBackupItemAction:    {nameOlder},
		common.PluginKindBackupItemActionV2:  {nameOlder, nameBoth, nameNewer},
		common.PluginKindRestoreItemAction:   {nameOlder},
		common.PluginKindRestoreItemActionV2: {nameOlder, nameNewer},
		common.PluginKindDeleteItemAction:    {nameOlder},
		common.PluginKindObjectStore:         {nameStore},
	} {
		var got []string
		for _, id := range s.List(kind) {
			got = append(got, id.Name)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", kind, diff)
		}
	}
}

func TestBackupItemAction_Execute(t *testing.T) {
	t.Parallel()
	s := withPlugin(t)
	found, err := s.GetBackupItemActionsV2()
	if err != nil {
		t.Fatal(err)
	}
	for _, action := range found {
		selector, err := action.AppliesTo()
		want := velero.ResourceSelector{IncludedResources: []string{"pods"}, ExcludedNamespaces: []string{"kube-system"}, LabelSelector: "app=shop"}
		if diff := cmp.Diff(want, selector); err != nil || diff != "" {
			t.Errorf("%s: error %v, selector (-want +got):\n%s", action.Name(), err, diff)
		}
		changed, more, operation, post, err := action.Execute(pod(""), backup())
		if err != nil {
			t.Errorf("%s: %v", action.Name(), err)
			continue
		}
		if text := annotation(changed, "example.io/backup"); text != "velero/nightly to main" {
			t.Errorf("%s was told about the backup %q", action.Name(), text)
		}
		if diff := cmp.Diff([]velero.ResourceIdentifier{ref("apps", "deployments", "web")}, more); diff != "" {
			t.Errorf("%s adds (-want +got):\n%s", action.Name(), diff)
		}
		wantOperation, wantPost := "copy", []velero.ResourceIdentifier{ref("", "pods", "web-0")}
		if action.Name() == nameOlder {
			wantOperation, wantPost = "", nil
		}
		if diff := cmp.Diff(wantPost, post); operation != wantOperation || diff != "" {
			t.Errorf("%s starts operation %q, want %q; then (-want +got):\n%s", action.Name(), operation, wantOperation, diff)
		}
	}
	if text := s.log.String(); !strings.Contains(text, "level=warning msg=stamping") || !strings.Contains(text, "object=web-0") {
		t.Errorf("Velero's log lacks the line of the actions:\n%s", text)
	}
}

func annotation(object runtime.Unstructured, key string) string {
	text, _, _ := unstructured.NestedString(object.UnstructuredContent(), "metadata", "annotations", key)
	return text
}

func TestBackupItemAction_Failures(t *testing.T) {
	t.Parallel()
	s := withPlugin(t)
	action, err := s.GetBackupItemAction(nameOlder)
	if err != nil {
		t.Fatal(err)
	}
	unchanged, more, err := action.Execute(pod("nothing"), backup())
	if err != nil || len(more) > 0 {
		t.Fatalf("error %v, additional items %v", err, more)
	}
	if diff := cmp.Diff(pod("nothing").Object, unchanged.UnstructuredContent()); diff != "" {
		t.Errorf("an action that answers nothing changes the object (-want +got):\n%s", diff)
	}
	for do, want := range map[string]string{"fail": "the volume is busy", "panic": "the plugin has a bug"} {
		if _, _, err := action.Execute(pod(do), backup()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", do, err, want)
		}
	}
	// The process survives both.
	if _, _, err := action.Execute(pod(""), backup()); err != nil {
		t.Errorf("after its failures: %v", err)
	}
}

func TestBackupItemAction_Operations(t *testing.T) {
	t.Parallel()
	s := withPlugin(t)
	action, err := s.GetBackupItemActionV2(nameNewer)
	if err != nil {
		t.Fatal(err)
	}
	progress, err := action.Progress("copy", backup())
	if err != nil || !progress.Completed || progress.NCompleted != 3 || progress.Description != "for nightly" {
		t.Errorf("progress %+v, error %v", progress, err)
	}
	if _, err := action.Progress("none", backup()); err == nil || !strings.Contains(err.Error(), "there is no operation none") {
		t.Errorf("progress of an unknown operation: %v", err)
	}
	if err := action.Cancel("copy", backup()); err != nil {
		t.Errorf("cancelling: %v", err)
	}
}

func TestRestoreItemAction_Execute(t *testing.T) {
	t.Parallel()
	s := withPlugin(t)
	input := func() *velero.RestoreItemActionExecuteInput {
		return &velero.RestoreItemActionExecuteInput{Item: pod(""), ItemFromBackup: pod(""), Restore: restore()}
	}
	older, err := s.GetRestoreItemAction(nameOlder)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := older.Execute(input()); err != nil || !out.SkipRestore {
		t.Errorf("%s: %+v, error %v; want that the object is left out", nameOlder, out, err)
	}
	newer, err := s.GetRestoreItemActionV2(nameNewer)
	if err != nil {
		t.Fatal(err)
	}
	out, err := newer.Execute(input())
	if err != nil {
		t.Fatal(err)
	}
	labelled := pod("")
	labelled.SetLabels(map[string]string{"restore": "again", "archived-as": "the-uid-in-the-backup"})
	want := &velero.RestoreItemActionExecuteOutput{
		UpdatedItem: labelled, AdditionalItems: []velero.ResourceIdentifier{ref("", "secrets", "token")},
		OperationID: "fill", WaitForAdditionalItems: true, AdditionalItemsReadyTimeout: time.Minute,
	}
	if diff := cmp.Diff(want, out); diff != "" {
		t.Errorf("%s (-want +got):\n%s", nameNewer, diff)
	}
	for name, wanted := range map[string]bool{"token": true, "other": false} {
		if ready, err := newer.AreAdditionalItemsReady([]velero.ResourceIdentifier{ref("", "secrets", name)}, restore()); err != nil || ready != wanted {
			t.Errorf("%s is ready: %t, error %v; want %t", name, ready, err, wanted)
		}
	}
	if progress, err := newer.Progress("fill", restore()); err != nil || progress.Description != "fill for again" {
		t.Errorf("progress %+v, error %v", progress, err)
	}
}

func TestDeleteItemAction_Execute(t *testing.T) {
	t.Parallel()
	action, err := withPlugin(t).GetDeleteItemAction(nameOlder)
	if err != nil {
		t.Fatal(err)
	}
	err = action.Execute(&velero.DeleteItemActionExecuteInput{Item: pod(""), Backup: backup()})
	if err == nil || !strings.Contains(err.Error(), "cannot clean up after web-0 of nightly") {
		t.Errorf("error %v, want that of the action", err)
	}
}

func TestObjectStore(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "bucket"), 0o755); err != nil {
		t.Fatal(err)
	}
	store, err := withPlugin(t).GetObjectStore(nameStore)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Init(map[string]string{actions.ConfigRoot: root}); err != nil {
		t.Fatal(err)
	}
	content := strings.Repeat("content ", 100_000)
	if err := store.PutObject("bucket", "backups/one/one.tar.gz", strings.NewReader(content)); err != nil {
		t.Fatal(err)
	}
	body, err := store.GetObject("bucket", "backups/one/one.tar.gz")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(body); err != nil || string(got) != content {
		t.Errorf("read %d bytes, error %v; want %d", len(got), err, len(content))
	}
	if err := body.Close(); err != nil {
		t.Error(err)
	}
	if found, err := store.ListCommonPrefixes("bucket", "backups/", "/"); err != nil || !cmp.Equal(found, []string{"backups/one/"}) {
		t.Errorf("common prefixes %q, error %v", found, err)
	}
	if err := store.DeleteObject("bucket", "backups/one/one.tar.gz"); err != nil {
		t.Error(err)
	}
	if exists, err := store.ObjectExists("bucket", "backups/one/one.tar.gz"); err != nil || exists {
		t.Errorf("after it was deleted the object exists: %t, error %v", exists, err)
	}
}
