// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package plugins

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vmware-tanzu/velero/pkg/plugin/velero"
	biav1 "github.com/vmware-tanzu/velero/pkg/plugin/velero/backupitemaction/v1"
	biav2 "github.com/vmware-tanzu/velero/pkg/plugin/velero/backupitemaction/v2"
	riav1 "github.com/vmware-tanzu/velero/pkg/plugin/velero/restoreitemaction/v1"
	riav2 "github.com/vmware-tanzu/velero/pkg/plugin/velero/restoreitemaction/v2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/grapnel-dev/grapnel/internal/plugin/catalog"
	pluginclient "github.com/grapnel-dev/grapnel/internal/plugin/client"
	"github.com/grapnel-dev/grapnel/sdk/item"
	"github.com/grapnel-dev/grapnel/test/interop/plugins/actions"
)

// The actions are what Velero says that they are.
var (
	_ biav1.BackupItemAction  = (*actions.BackupActionV1)(nil)
	_ biav2.BackupItemAction  = (*actions.BackupActionV2)(nil)
	_ riav1.RestoreItemAction = (*actions.RestoreActionV1)(nil)
	_ riav2.RestoreItemAction = (*actions.RestoreActionV2)(nil)
	_ velero.DeleteItemAction = (*actions.DeleteAction)(nil)
	_ velero.ObjectStore      = (*actions.DirectoryStore)(nil)
)

func TestLoad_Actions(t *testing.T) {
	forReleases(t, func(t *testing.T, release string) {
		want := []catalog.Action{
			{Kind: "BackupItemAction", Version: "v1", Name: actions.BackupBoth},
			{Kind: "BackupItemAction", Version: "v2", Name: actions.BackupBoth},
			{Kind: "BackupItemAction", Version: "v1", Name: actions.BackupV1},
			{Kind: "BackupItemAction", Version: "v2", Name: actions.BackupV2},
			{Kind: "DeleteItemAction", Version: "v1", Name: actions.Delete},
			{Kind: "DeleteItemAction", Version: "v1", Name: actions.DeleteToo},
			{Kind: "ItemBlockAction", Version: "v1", Name: actions.Block},
			{Kind: "ObjectStore", Version: "v1", Name: actions.Directory},
			{Kind: "ObjectStore", Version: "v1", Name: actions.DirectoryToo},
			{Kind: "RestoreItemAction", Version: "v1", Name: actions.RestoreBoth},
			{Kind: "RestoreItemAction", Version: "v2", Name: actions.RestoreBoth},
			{Kind: "RestoreItemAction", Version: "v1", Name: actions.RestoreV1},
			{Kind: "RestoreItemAction", Version: "v2", Name: actions.RestoreV2},
		}
		if release == "v1.14" { // ItemBlockAction came with Velero 1.15
			want = slices.DeleteFunc(want, func(a catalog.Action) bool { return a.Kind == "ItemBlockAction" })
		}
		info := loaded(t, release).info
		if diff := cmp.Diff(want, info.Actions); diff != "" {
			t.Errorf("actions (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"VolumeSnapshotter " + actions.Snapshots}, info.Ignored); diff != "" {
			t.Errorf("ignored (-want +got):\n%s", diff)
		}
	})
}

// TestItemBlockAction_GetRelatedItems: what an action of Velero 1.15 and later groups is archived together.
func TestItemBlockAction_GetRelatedItems(t *testing.T) {
	t.Parallel()
	h := loaded(t, "v1.18")
	block := target[pluginclient.BackupItemAction]{h.catalog.BackupItemAction(pluginObject, "ItemBlockAction", actions.Block), actions.Block, h.log.Logger()}
	selector, err := ask(t.Context(), h, block, func(ctx context.Context, action pluginclient.BackupItemAction, on pluginclient.ItemCall) (item.Selector, error) {
		return action.AppliesTo(ctx, on)
	})
	if diff := cmp.Diff(item.Selector{IncludedResources: []string{"configmaps"}}, selector); diff != "" || err != nil {
		t.Errorf("error %v, selector (-want +got):\n%s", err, diff)
	}
	related := func(annotations map[string]string) (pluginclient.BackupItemAnswer, error) {
		return ask(t.Context(), h, block, func(ctx context.Context, action pluginclient.BackupItemAction, on pluginclient.ItemCall) (pluginclient.BackupItemAnswer, error) {
			return action.Execute(ctx, on, encode(t, configMap(annotations)), encode(t, veleroBackup()))
		})
	}
	for name, tc := range map[string]struct {
		annotations map[string]string
		want        pluginclient.BackupItemAnswer
	}{
		"something": {
			annotations: map[string]string{actions.AnnotationBelongsTo: "token"},
			want:        pluginclient.BackupItemAnswer{RelatedItems: []item.Ref{{Resource: "secrets", Namespace: "shop", Name: "token"}}},
		},
		"nothing": {},
	} {
		got, err := related(tc.annotations)
		if diff := cmp.Diff(tc.want, got); diff != "" || err != nil {
			t.Errorf("if %s belongs with an object: error %v, answer (-want +got):\n%s", name, err, diff)
		}
	}
	if _, err := related(map[string]string{actions.AnnotationBelongsTo: ""}); err == nil || !strings.Contains(err.Error(), "the Secret of backup nightly has no name") {
		t.Errorf("the error of an action is %v", err)
	}
}

// itemCases are the annotations of objects with which an action succeeds.
func itemCases() map[string]map[string]string {
	return map[string]map[string]string{
		"changed":   nil,
		"unchanged": {actions.AnnotationDo: actions.DoNothing},
		"more":      {actions.AnnotationAdd: "apps/deployments/shop/web,/persistentvolumes//pv-1"},
		"skipped":   {actions.AnnotationDo: actions.DoSkip, actions.AnnotationAdd: "/secrets/shop/token"},
		"waiting":   {actions.AnnotationDo: actions.DoWait, actions.AnnotationAdd: "/secrets/shop/token"},
		"operation": {actions.AnnotationDo: actions.DoOperation},
		"logging":   {actions.AnnotationDo: actions.DoLog},
	}
}

// directBackup calls an action without Grapnel, in the version that Grapnel is
// expected to use.
func directBackup(t *testing.T, name string, annotations map[string]string) pluginclient.BackupItemAnswer {
	t.Helper()
	object := configMap(annotations)
	if name == actions.BackupV1 {
		changed, more, err := actions.NewBackupV1(name, silent()).Execute(object, veleroBackup())
		if err != nil {
			t.Fatal(err)
		}
		return pluginclient.BackupItemAnswer{Item: encode(t, expected(t, changed, object)), RelatedItems: refs(more)}
	}
	changed, more, id, post, err := actions.NewBackupV2(name, silent()).Execute(object, veleroBackup())
	if err != nil {
		t.Fatal(err)
	}
	return pluginclient.BackupItemAnswer{
		Item: encode(t, expected(t, changed, object)), RelatedItems: refs(more), OperationID: id, PostOperationItems: refs(post),
	}
}

func TestBackupItemAction_Execute(t *testing.T) {
	forReleases(t, func(t *testing.T, release string) {
		h := loaded(t, release)
		for _, name := range []string{actions.BackupV1, actions.BackupV2, actions.BackupBoth} {
			for what, annotations := range itemCases() {
				got, err := h.archive(t.Context(), name, configMap(annotations))
				if err != nil {
					t.Errorf("%s, %s: %v", name, what, err)
					continue
				}
				if diff := cmp.Diff(directBackup(t, name, annotations), got, asObjects(t)); diff != "" {
					t.Errorf("%s, %s: through Grapnel (+) it answers something else:\n%s", name, what, diff)
				}
			}
		}
	})
}

// asObjects compares encoded objects by what they say.
func asObjects(t *testing.T) cmp.Option {
	t.Helper()
	return cmp.Transformer("object", func(data []byte) map[string]any { return decode(t, data) })
}

// directRestore is directBackup for a restore.
func directRestore(t *testing.T, name string, annotations map[string]string) pluginclient.RestoreItemAnswer {
	t.Helper()
	object := configMap(annotations)
	execute := actions.NewRestoreV2(name, silent()).Execute
	if name == actions.RestoreV1 {
		execute = actions.NewRestoreV1(name, silent()).Execute
	}
	out, err := execute(&velero.RestoreItemActionExecuteInput{
		Item: object, ItemFromBackup: archived(), Restore: veleroRestore(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return pluginclient.RestoreItemAnswer{
		Item: encode(t, expected(t, out.UpdatedItem, object)), Skip: out.SkipRestore, RelatedItems: refs(out.AdditionalItems),
		WaitForRelatedItems: out.WaitForAdditionalItems, WaitTimeout: out.AdditionalItemsReadyTimeout, OperationID: out.OperationID,
	}
}

// archived is the object as it is in the backup.
func archived() *unstructured.Unstructured {
	object := configMap(map[string]string{"archived": "yes"})
	object.SetUID("the-uid-in-the-backup")
	return object
}

func TestRestoreItemAction_Execute(t *testing.T) {
	forReleases(t, func(t *testing.T, release string) {
		h := loaded(t, release)
		for _, name := range []string{actions.RestoreV1, actions.RestoreV2, actions.RestoreBoth} {
			for what, annotations := range itemCases() {
				got, err := h.bring(t.Context(), name, configMap(annotations))
				if err != nil {
					t.Errorf("%s, %s: %v", name, what, err)
					continue
				}
				if diff := cmp.Diff(directRestore(t, name, annotations), got, asObjects(t)); diff != "" {
					t.Errorf("%s, %s: through Grapnel (+) it answers something else:\n%s", name, what, diff)
				}
			}
		}
	})
}

func TestDeleteItemAction_Execute(t *testing.T) {
	forReleases(t, func(t *testing.T, release string) {
		h := loaded(t, release)
		for _, name := range []string{actions.Delete, actions.DeleteToo} {
			if err := h.remove(t.Context(), name, configMap(nil)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, words := range []string{"Deleting what belongs to settings", actions.DescribeBackup("v1", veleroBackup())} {
			if got := strings.Count(h.log.Text(), words); got != 2 {
				t.Errorf("%d of 2 actions wrote %q to the log of the run", got, words)
			}
		}
	})
}

func TestItemActions_AppliesTo(t *testing.T) {
	forReleases(t, func(t *testing.T, release string) {
		h := loaded(t, release)
		for name, direct := range map[string]velero.Applicable{
			actions.BackupV1: actions.NewBackupV1(actions.BackupV1, silent()), actions.BackupV2: actions.NewBackupV2(actions.BackupV2, silent()),
			actions.BackupBoth: actions.NewBackupV2(actions.BackupBoth, silent()),
		} {
			checkSelector(t, h, h.backup(name), direct)
		}
		for name, direct := range map[string]velero.Applicable{
			actions.RestoreV1: actions.NewRestoreV1(actions.RestoreV1, silent()), actions.RestoreV2: actions.NewRestoreV2(actions.RestoreV2, silent()),
			actions.RestoreBoth: actions.NewRestoreV2(actions.RestoreBoth, silent()),
		} {
			checkSelector(t, h, h.restore(name), direct)
		}
		for _, name := range []string{actions.Delete, actions.DeleteToo} {
			checkSelector(t, h, h.delete(name), actions.NewDelete(name, silent()))
		}
	})
}

// checkSelector compares the objects that an action wants.
func checkSelector[A pluginclient.SelectorProvider](t *testing.T, h *host, to target[A], direct velero.Applicable) {
	t.Helper()
	want, err := direct.AppliesTo()
	if err != nil {
		t.Fatal(err)
	}
	got, err := ask(t.Context(), h, to, func(ctx context.Context, action A, on pluginclient.ItemCall) (item.Selector, error) {
		return action.AppliesTo(ctx, on)
	})
	if err != nil {
		t.Errorf("%s: %v", to.name, err)
	}
	if diff := cmp.Diff(selector(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", to.name, diff)
	}
}
