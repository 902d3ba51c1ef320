// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Command csi is the plugin of Grapnel for the data of volumes: it captures the data of
// PersistentVolumeClaims in snapshots of their CSI drivers, restores claims from these
// snapshots, and deletes the snapshots with their backup. docs/guides/volumes.md is for users.
//
//	main.go        what the plugin provides
//	names.go       labels, annotations, and the names of objects and operations
//	cluster.go     the clients, and a watch of the snapshots of this plugin
//	claim.go       which claims are captured
//	class.go       with which class
//	backup.go      an AsyncBackupItemAction for claims: it creates VolumeSnapshots
//	progress.go    what the state of a snapshot means for its operation
//	group.go       claims that are captured together, in VolumeGroupSnapshots
//	groupprogress.go  their progress, and how they are deleted
//	restore.go     an AsyncRestoreItemAction for claims: it restores them from a snapshot
//	restoreprogress.go  what the state of a restored claim means for its operation
//	content.go     a RestoreItemAction for the VolumeSnapshotContents of the archive, which have
//	               the handles that restore.go needs
//	contents.go    how both kinds of contents are read, changed and deleted
//	leftovers.go   the removal of the VolumeSnapshots of restores that are no longer needed
//	deletion.go    actions that delete snapshots with their backup, and after a failed one
//	removal.go     how a snapshot is deleted in its driver
//
// All state is in the objects of the cluster: the process may be killed at any time.
package main

import (
	"context"

	asyncbackupitemv1 "github.com/grapnel-dev/grapnel/sdk/asyncbackupitemaction/v1"
	asyncrestoreitemv1 "github.com/grapnel-dev/grapnel/sdk/asyncrestoreitemaction/v1"
	deletev1 "github.com/grapnel-dev/grapnel/sdk/deleteaction/v1"
	deleteitemv1 "github.com/grapnel-dev/grapnel/sdk/deleteitemaction/v1"
	postbackupv1 "github.com/grapnel-dev/grapnel/sdk/postbackupaction/v1"
	restoreitemv1 "github.com/grapnel-dev/grapnel/sdk/restoreitemaction/v1"
	"github.com/grapnel-dev/grapnel/sdk/serve"
)

// actionName is the registered name of all actions.
const actionName = "grapnel.dev/csi"

func main() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	c := newCluster(ctx, connectFromEnvironment)
	go c.removeLeftoversRegularly(ctx)
	newServer(c).Serve()
}

// newServer registers all actions. They connect to the cluster when they are called first.
func newServer(c *cluster) *serve.Server {
	return serve.New().
		RegisterAsyncBackupItemActionV1(actionName, func() (asyncbackupitemv1.AsyncBackupItemAction, error) {
			return captureClaim{cluster: c}, nil
		}).
		RegisterAsyncRestoreItemActionV1(actionName, func() (asyncrestoreitemv1.AsyncRestoreItemAction, error) {
			return restoreClaim{cluster: c}, nil
		}).
		RegisterRestoreItemActionV1(actionName, func() (restoreitemv1.RestoreItemAction, error) {
			return restoreContent{cluster: c}, nil
		}).
		RegisterDeleteItemActionV1(actionName, func() (deleteitemv1.DeleteItemAction, error) {
			return deleteContent{cluster: c}, nil
		}).
		RegisterDeleteActionV1(actionName, func() (deletev1.DeleteAction, error) {
			return deleteSnapshots{cluster: c}, nil
		}).
		RegisterPostBackupActionV1(actionName, func() (postbackupv1.PostBackupAction, error) {
			return discardSnapshots{cluster: c}, nil
		})
}
