// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package sdkplugins

import (
	"context"
	"errors"
	"io"
	"maps"
	"time"

	"github.com/grapnel-dev/grapnel/sdk"
	backupitemv1 "github.com/grapnel-dev/grapnel/sdk/backupitemaction/v1"
	backupitemv2 "github.com/grapnel-dev/grapnel/sdk/backupitemaction/v2"
	deleteitemv1 "github.com/grapnel-dev/grapnel/sdk/deleteitemaction/v1"
	"github.com/grapnel-dev/grapnel/sdk/hook"
	"github.com/grapnel-dev/grapnel/sdk/item"
	objectstorev1 "github.com/grapnel-dev/grapnel/sdk/objectstore/v1"
	prebackupv1 "github.com/grapnel-dev/grapnel/sdk/prebackupaction/v1"
	restoreitemv1 "github.com/grapnel-dev/grapnel/sdk/restoreitemaction/v1"
	restoreitemv2 "github.com/grapnel-dev/grapnel/sdk/restoreitemaction/v2"
	"github.com/grapnel-dev/grapnel/sdk/serve"
	"github.com/grapnel-dev/grapnel/test/interop/plugins/actions"
)

// The registered names. Velero would not start if it got the kind of nameHook.
const (
	nameOlder = "example.io/older"
	nameNewer = "example.io/newer"
	nameBoth  = "example.io/both"
	nameHook  = "example.io/hook"
	nameStore = "example.io/store"
)

// The annotation of an object that makes an action do something else than stamp it.
const annotationDo = "example.io/do"

// servePlugin is the whole main of the plugin.
func servePlugin() {
	serve.New().
		RegisterPreBackupActionV1(nameHook, func() (prebackupv1.PreBackupAction, error) { return freeze{}, nil }).
		RegisterBackupItemActionV1(nameOlder, func() (backupitemv1.BackupItemAction, error) { return olderBackup{}, nil }).
		RegisterBackupItemActionV1(nameBoth, func() (backupitemv1.BackupItemAction, error) { return olderBackup{}, nil }).
		RegisterBackupItemActionV2(nameBoth, func() (backupitemv2.BackupItemAction, error) { return newerBackup{}, nil }).
		RegisterBackupItemActionV2(nameNewer, func() (backupitemv2.BackupItemAction, error) { return newerBackup{}, nil }).
		RegisterRestoreItemActionV1(nameOlder, func() (restoreitemv1.RestoreItemAction, error) { return olderRestore{}, nil }).
		RegisterRestoreItemActionV2(nameNewer, func() (restoreitemv2.RestoreItemAction, error) { return newerRestore{}, nil }).
		RegisterDeleteItemActionV1(nameOlder, func() (deleteitemv1.DeleteItemAction, error) { return clean{}, nil }).
		RegisterObjectStoreV1(nameStore, func() (objectstorev1.ObjectStore, error) { return directory{actions.NewDirectory()}, nil }).
		Serve()
}

// freeze is an action of a kind that Velero does not have.
type freeze struct{}

// Execute does nothing.
func (freeze) Execute(context.Context, *hook.Request) (*hook.Response, error) {
	return hook.Done(), nil
}

// pods selects what all actions want.
func pods() item.Selector {
	return item.Selector{IncludedResources: []string{"pods"}, ExcludedNamespaces: []string{"kube-system"}, LabelSelector: "app=shop"}
}

type olderBackup struct{}

// AppliesTo wants pods.
func (olderBackup) AppliesTo(context.Context) (item.Selector, error) { return pods(), nil }

// Execute stamps an object, or fails in the way that its annotation says.
func (olderBackup) Execute(ctx context.Context, req *item.BackupRequest) (*item.BackupResponse, error) {
	switch req.Item.GetAnnotations()[annotationDo] {
	case "fail":
		return nil, errors.New("the volume is busy")
	case "panic":
		panic("the plugin has a bug")
	case "nothing":
		return nil, nil
	}
	sdk.Logger(ctx).Warn("stamping", "object", req.Item.GetName())
	stamped := req.Item.DeepCopy()
	annotations := maps.Clone(stamped.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations["example.io/backup"] = req.Backup.Namespace + "/" + req.Backup.Name + " to " + req.Backup.StorageLocation
	stamped.SetAnnotations(annotations)
	return &item.BackupResponse{
		Item: stamped, AdditionalItems: []item.Ref{{Group: "apps", Resource: "deployments", Namespace: "shop", Name: "web"}},
	}, nil
}

type newerBackup struct{ olderBackup }

// Execute starts an operation, too.
func (n newerBackup) Execute(ctx context.Context, req *item.BackupRequest) (*backupitemv2.Response, error) {
	answer, err := n.olderBackup.Execute(ctx, req)
	if answer == nil || err != nil {
		return nil, err
	}
	return &backupitemv2.Response{
		BackupResponse: *answer, OperationID: "copy",
		PostOperationItems: []item.Ref{{Resource: "pods", Namespace: req.Item.GetNamespace(), Name: req.Item.GetName()}},
	}, nil
}

// Progress knows one operation.
func (newerBackup) Progress(_ context.Context, req *backupitemv2.OperationRequest) (*item.Progress, error) {
	if req.OperationID != "copy" {
		return nil, errors.New("there is no operation " + req.OperationID)
	}
	return &item.Progress{Completed: true, NCompleted: 3, NTotal: 3, OperationUnits: "files", Description: "for " + req.Backup.Name}, nil
}

// Cancel does nothing.
func (newerBackup) Cancel(context.Context, *backupitemv2.OperationRequest) error { return nil }

type olderRestore struct{}

// AppliesTo wants pods.
func (olderRestore) AppliesTo(context.Context) (item.Selector, error) { return pods(), nil }

// Execute leaves everything out.
func (olderRestore) Execute(context.Context, *item.RestoreRequest) (*item.RestoreResponse, error) {
	return &item.RestoreResponse{SkipRestore: true}, nil
}

type newerRestore struct{}

// AppliesTo wants pods.
func (newerRestore) AppliesTo(context.Context) (item.Selector, error) { return pods(), nil }

// Execute labels an object and waits for another one.
func (newerRestore) Execute(_ context.Context, req *item.RestoreRequest) (*restoreitemv2.Response, error) {
	labelled := req.Item.DeepCopy()
	labelled.SetLabels(map[string]string{"restore": req.Restore.Name, "archived-as": string(req.ItemFromBackup.GetUID())})
	return &restoreitemv2.Response{
		RestoreResponse: item.RestoreResponse{Item: labelled, AdditionalItems: []item.Ref{{Resource: "secrets", Namespace: "shop", Name: "token"}}},
		OperationID:     "fill", WaitForAdditionalItems: true, AdditionalItemsReadyTimeout: time.Minute,
	}, nil
}

// Progress knows every operation.
func (newerRestore) Progress(_ context.Context, req *restoreitemv2.OperationRequest) (*item.Progress, error) {
	return &item.Progress{NCompleted: 1, NTotal: 2, OperationUnits: "files", Description: req.OperationID + " for " + req.Restore.Name}, nil
}

// Cancel does nothing.
func (newerRestore) Cancel(context.Context, *restoreitemv2.OperationRequest) error { return nil }

// AreAdditionalItemsReady wants one item.
func (newerRestore) AreAdditionalItemsReady(_ context.Context, req *restoreitemv2.ReadyRequest) (bool, error) {
	return len(req.AdditionalItems) == 1 && req.AdditionalItems[0].Name == "token", nil
}

type clean struct{}

// AppliesTo wants pods.
func (clean) AppliesTo(context.Context) (item.Selector, error) { return pods(), nil }

// Execute fails, so that its input is visible in the error.
func (clean) Execute(_ context.Context, req *item.DeleteRequest) error {
	return errors.New("cannot clean up after " + req.Item.GetName() + " of " + req.Backup.Name)
}

// directory is the store of package actions in the form of the SDK.
type directory struct{ store *actions.DirectoryStore }

func (f directory) Init(_ context.Context, config map[string]string) error {
	return f.store.Init(config)
}

func (f directory) PutObject(_ context.Context, bucket, key string, body io.Reader) error {
	return f.store.PutObject(bucket, key, body)
}

func (f directory) ObjectExists(_ context.Context, bucket, key string) (bool, error) {
	return f.store.ObjectExists(bucket, key)
}

func (f directory) GetObject(_ context.Context, bucket, key string) (io.ReadCloser, error) {
	return f.store.GetObject(bucket, key)
}

func (f directory) ListCommonPrefixes(_ context.Context, bucket, prefix, delimiter string) ([]string, error) {
	return f.store.ListCommonPrefixes(bucket, prefix, delimiter)
}

func (f directory) ListObjects(_ context.Context, bucket, prefix string) ([]string, error) {
	return f.store.ListObjects(bucket, prefix)
}

func (f directory) DeleteObject(_ context.Context, bucket, key string) error {
	return f.store.DeleteObject(bucket, key)
}

func (f directory) CreateSignedURL(_ context.Context, bucket, key string, ttl time.Duration) (string, error) {
	return f.store.CreateSignedURL(bucket, key, ttl)
}
