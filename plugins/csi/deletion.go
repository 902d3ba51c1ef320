// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/grapnel-dev/grapnel/sdk"
	deletev1 "github.com/grapnel-dev/grapnel/sdk/deleteaction/v1"
	"github.com/grapnel-dev/grapnel/sdk/hook"
	"github.com/grapnel-dev/grapnel/sdk/item"
)

// maxConcurrentRemovals limits how many snapshots are deleted at the same time.
const maxConcurrentRemovals = 16

// deleteSnapshots is a DeleteAction: it deletes all snapshots of a backup that have objects in this
// cluster, also if they are not in the archive.
type deleteSnapshots struct{ cluster *cluster }

// AppliesTo selects all Backups.
func (deleteSnapshots) AppliesTo(context.Context) (deletev1.Selector, error) {
	return deletev1.Selector{}, nil
}

// Execute deletes the snapshots of a Backup and waits until they no longer exist.
func (d deleteSnapshots) Execute(ctx context.Context, req *deletev1.DeleteRequest) error {
	removed, err := d.cluster.removeSnapshotsOfRun(ctx, req.Backup.UID)
	if removed > 0 {
		sdk.Logger(ctx).Info("Deleted the snapshots of a backup", "backup", req.Backup.Name, "snapshots", removed)
	}
	return err
}

// discardSnapshots is a PostBackupAction that deletes the snapshots of a backup that has not become
// usable: a canceled or failed backup has no archive that names them.
type discardSnapshots struct{ cluster *cluster }

// Execute deletes the snapshots if the backup was canceled or has failed.
func (d discardSnapshots) Execute(ctx context.Context, req *hook.Request) (*hook.Response, error) {
	switch req.Backup.Phase {
	case "Completed", "PartiallyFailed":
		return hook.Done(), nil
	}
	removed, err := d.cluster.removeSnapshotsOfRun(ctx, req.Backup.UID)
	if err != nil || removed == 0 {
		return hook.Done(), err
	}
	return hook.Done().WithMessage(fmt.Sprintf(
		"deleted the snapshots of the backup (%d): it is %s, and only a backup that is Completed or PartiallyFailed can be restored", removed, req.Backup.Phase)), nil
}

// deleteContent is a DeleteItemAction for archived contents. It deletes the snapshots of a backup that
// have no objects in this cluster: another one made the backup, or they were deleted.
type deleteContent struct{ cluster *cluster }

// AppliesTo selects the contents of this plugin.
func (deleteContent) AppliesTo(context.Context) (item.Selector, error) {
	return item.Selector{
		IncludedResources: []string{"volumesnapshotcontents." + snapshotGroup, "volumegroupsnapshotcontents." + groupSnapshotGroup},
		LabelSelector:     labelRunUID,
	}, nil
}

// Execute deletes the snapshot of a content, if it belongs to the backup that is deleted: a backup may
// also have archived contents of others.
func (d deleteContent) Execute(ctx context.Context, req *item.DeleteRequest) error {
	if req.Item.GetLabels()[labelRunUID] != req.Backup.UID || d.cluster.removed.has(removedKey(req.Backup.UID, req.Item.GetName())) {
		return nil
	}
	if req.Item.GetKind() == "VolumeGroupSnapshotContent" {
		return d.cluster.removeArchivedGroup(ctx, req)
	}
	var archived snapshotv1.VolumeSnapshotContent
	if err := fromUnstructured(req.Item, &archived); err != nil {
		return err
	}
	return d.cluster.removeArchivedContent(ctx, &archived, req.Backup)
}

func removedKey(backup, content string) string { return backup + "/" + content }

// removeArchivedContent deletes the snapshot of an archived content.
func (c *cluster) removeArchivedContent(ctx context.Context, archived *snapshotv1.VolumeSnapshotContent, backup item.Backup) error {
	stored, err := newStoredSnapshot(archived)
	if err != nil || stored.handle == "" || isGroupMember(archived) {
		return err // without a handle, it was never taken; the snapshots of a group are deleted with it
	}
	live, err := c.snapshotContents.get(ctx, archived.Name)
	if err != nil {
		return err
	}
	if live != nil && live.Labels[labelRunUID] == backup.UID && live.Spec.Driver == stored.driver && handleOf(live) == stored.handle {
		if err := c.removeLiveContent(ctx, live); err != nil {
			return err
		}
		return c.snapshotContents.awaitRemoval(ctx, live.Name)
	}
	if user, err := c.findUserOfHandle(ctx, stored.driver, stored.handle); err != nil || user != "" {
		if err == nil {
			err = fmt.Errorf("the snapshot is not deleted, because VolumeSnapshotContent %s of this cluster uses it, too: "+
				"delete that, and the snapshot %q of the CSI driver %s by hand", user, stored.handle, stored.driver)
		}
		return err
	}
	stored.labels = runLabels(labelBackupName, backup.Name, backup.UID)
	return c.removeStoredSnapshot(ctx, stored)
}

// newStoredSnapshot returns the snapshot of an archived content, whose fields may have been changed.
func newStoredSnapshot(archived *snapshotv1.VolumeSnapshotContent) (storedSnapshot, error) {
	stored := storedSnapshot{driver: archived.Spec.Driver, handle: handleOf(archived), ref: archived.Spec.VolumeSnapshotRef}
	if archived.Spec.VolumeSnapshotClassName != nil {
		stored.class = *archived.Spec.VolumeSnapshotClassName
	}
	return stored, validateStored(stored.driver, stored.ref.Namespace, stored.handle)
}

// validateStored checks fields of an archive before they are sent to the API server and a driver.
func validateStored(driver, namespace string, handles ...string) error {
	if len(validation.IsDNS1123Subdomain(driver)) > 0 || len(driver) > maxDriverBytes || len(validation.IsDNS1123Label(namespace)) > 0 {
		return errors.New("the archived object has an invalid driver or namespace: the archive is damaged or was made by something else")
	}
	for _, handle := range handles {
		if len(handle) > maxHandleBytes {
			return errors.New("the archived object has a handle that is too long: the archive is damaged or was made by something else")
		}
	}
	return nil
}

// isGroupMember reports whether a snapshot was taken with others: it is deleted with them.
func isGroupMember(content *snapshotv1.VolumeSnapshotContent) bool {
	return groupHandleOf(content) != ""
}

// groupHandleOf returns the handle of the group that a snapshot was taken with, "" if there is none.
func groupHandleOf(content *snapshotv1.VolumeSnapshotContent) string {
	if content.Status != nil && content.Status.VolumeGroupSnapshotHandle != nil {
		return *content.Status.VolumeGroupSnapshotHandle
	}
	return content.Annotations[annotationGroupHandle]
}

// removeLiveContent requests the deletion of a content with its VolumeSnapshot.
func (c *cluster) removeLiveContent(ctx context.Context, live *snapshotv1.VolumeSnapshotContent) error {
	ref := live.Spec.VolumeSnapshotRef
	if ref.UID != "" && live.Name == contentNameOf(ref.UID) {
		return c.requestRemoval(ctx, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}, ref.UID)
	}
	if err := c.snapshotContents.patchForRemoval(ctx, live.Name, true); err != nil {
		return err
	}
	return c.snapshotContents.delete(ctx, live.Name)
}

// findUserOfHandle returns the name of a VolumeSnapshotContent of this cluster that uses a snapshot. A changed
// archive must not delete a snapshot that this cluster knows.
func (c *cluster) findUserOfHandle(ctx context.Context, driver, handle string) (string, error) {
	users, err := c.handles.get(func() (map[string]string, error) {
		users := map[string]string{}
		return users, c.eachContent(ctx, metav1.ListOptions{}, func(content *snapshotv1.VolumeSnapshotContent) {
			if content.DeletionTimestamp == nil {
				users[content.Spec.Driver+"/"+handleOf(content)] = content.Name
			}
		})
	})
	user := users[driver+"/"+handle]
	if user == nameFor("delete", driver, handle) {
		user = "" // an earlier attempt
	}
	return user, err
}

// eachContent calls visit for each content. It is not an error if the cluster does not serve them.
func (c *cluster) eachContent(ctx context.Context, options metav1.ListOptions, visit func(*snapshotv1.VolumeSnapshotContent)) error {
	api, err := c.connect()
	if err != nil {
		return err
	}
	for options.Limit = 500; ; {
		list, err := api.snapshots.SnapshotV1().VolumeSnapshotContents().List(ctx, options)
		switch {
		case isNotServed(err):
			return nil
		case err != nil:
			return fmt.Errorf("listing VolumeSnapshotContents: %w", err)
		}
		for i := range list.Items {
			visit(&list.Items[i])
		}
		if options.Continue = list.Continue; options.Continue == "" {
			return nil
		}
	}
}

// removeSnapshotsOfRun deletes all snapshots with the label of a Backup, waits until they no longer
// exist, and returns how many there were.
func (c *cluster) removeSnapshotsOfRun(ctx context.Context, uid string) (removed int, err error) {
	if errs := validation.IsValidLabelValue(uid); uid == "" || len(errs) > 0 {
		return 0, fmt.Errorf("the UID %q of the Backup is not valid", truncate(uid))
	}
	if err := c.removeGroupsOfRun(ctx, uid); err != nil {
		return 0, err
	}
	options := metav1.ListOptions{LabelSelector: labelRunUID + "=" + uid}
	var contents []*snapshotv1.VolumeSnapshotContent
	if err := c.eachContent(ctx, options, func(content *snapshotv1.VolumeSnapshotContent) {
		if !isGroupMember(content) {
			contents = append(contents, content)
		}
	}); err != nil {
		return 0, err
	}
	snapshots, err := c.listSnapshots(ctx, metav1.NamespaceAll, options)
	if err != nil {
		return 0, err
	}
	// A VolumeSnapshot without a content has none yet, or it has no label yet.
	err = concurrently(len(snapshots), func(i int) error {
		s := &snapshots[i]
		if s.Spec.Source.PersistentVolumeClaimName == nil {
			return nil
		}
		if err := c.requestRemoval(ctx, types.NamespacedName{Namespace: s.Namespace, Name: s.Name}, s.UID); err != nil {
			return err
		}
		return c.snapshotContents.awaitRemoval(ctx, contentNameOf(s.UID))
	})
	err = errors.Join(err, concurrently(len(contents), func(i int) error {
		if err := c.removeLiveContent(ctx, contents[i]); err != nil {
			return err
		}
		err := c.snapshotContents.awaitRemoval(ctx, contents[i].Name)
		if err == nil {
			c.removed.add(removedKey(uid, contents[i].Name))
		}
		return err
	}))
	return max(len(snapshots), len(contents)), err
}

// listSnapshots lists VolumeSnapshots. It is not an error if the cluster does not serve them.
func (c *cluster) listSnapshots(ctx context.Context, namespace string, options metav1.ListOptions) ([]snapshotv1.VolumeSnapshot, error) {
	api, err := c.connect()
	if err != nil {
		return nil, err
	}
	list, err := api.snapshots.SnapshotV1().VolumeSnapshots(namespace).List(ctx, options)
	switch {
	case isNotServed(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("listing VolumeSnapshots: %w", err)
	}
	return list.Items, nil
}

// concurrently calls do for 0 to n-1, several at the same time, and returns the first few errors.
func concurrently(n int, do func(i int) error) error {
	const maxErrors = 5
	var mu sync.Mutex
	var errs []error
	places := make(chan struct{}, maxConcurrentRemovals)
	var wg sync.WaitGroup
	for i := range n {
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			if err := do(i); err != nil {
				mu.Lock()
				defer mu.Unlock()
				if len(errs) < maxErrors {
					errs = append(errs, err)
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
