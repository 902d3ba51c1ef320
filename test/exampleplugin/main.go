// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Command exampleplugin is a small plugin that shows how to write one; see
// README.md for what it does and how to try it.
//
//	main.go          what the plugin provides
//	freeze.go        the pairs example.io/freeze, around a backup and around a restore
//	subject.go       what is asked of the Backup or Restore
//	notify.go        the post action example.io/notify
//	control.go       the parameters that make the hooks slow or fail in a demo
//	state.go         what the hooks remember between calls
//	secrets.go       a BackupItemAction that takes another object along
//	takesnapshot.go  a BackupItemAction that begins an operation
//	snapshots.go     a DeleteItemAction that removes what that one made
//	registry.go      a RestoreItemAction that changes objects, or leaves them out
//	claims.go        a RestoreItemAction that waits for other objects
//	folder.go        an ObjectStore
//
// It imports nothing of Grapnel but the SDK.
package main

import (
	"os"

	backupitemv1 "github.com/grapnel-dev/grapnel/sdk/backupitemaction/v1"
	backupitemv2 "github.com/grapnel-dev/grapnel/sdk/backupitemaction/v2"
	deleteitemv1 "github.com/grapnel-dev/grapnel/sdk/deleteitemaction/v1"
	objectstorev1 "github.com/grapnel-dev/grapnel/sdk/objectstore/v1"
	postbackupv1 "github.com/grapnel-dev/grapnel/sdk/postbackupaction/v1"
	postrestorev1 "github.com/grapnel-dev/grapnel/sdk/postrestoreaction/v1"
	prebackupv1 "github.com/grapnel-dev/grapnel/sdk/prebackupaction/v1"
	prerestorev1 "github.com/grapnel-dev/grapnel/sdk/prerestoreaction/v1"
	restoreitemv1 "github.com/grapnel-dev/grapnel/sdk/restoreitemaction/v1"
	restoreitemv2 "github.com/grapnel-dev/grapnel/sdk/restoreitemaction/v2"
	"github.com/grapnel-dev/grapnel/sdk/serve"
)

// The registered names.
const (
	nameFreeze   = "example.io/freeze"
	nameNotify   = "example.io/notify"
	nameSecrets  = "example.io/secrets" //nolint:gosec // the name of an action
	nameSnapshot = "example.io/snapshot"
	nameRegistry = "example.io/registry"
	nameClaims   = "example.io/claims"
	nameFolder   = "example.io/folder"
)

func main() {
	newServer(os.Getenv("EXAMPLE_STATE_DIR")).Serve()
}

// newServer registers everything. What has to outlive the process is kept in dir.
func newServer(dir string) *serve.Server {
	server := serve.New()
	registerHooks(server, newState(dir))
	registerItemActions(server, newSnapshots(dir))
	return server.RegisterObjectStoreV1(nameFolder, func() (objectstorev1.ObjectStore, error) { return &folder{}, nil })
}

// registerHooks registers what runs once; the hooks share the state.
func registerHooks(server *serve.Server, s *state) {
	server.
		RegisterPreBackupActionV1(nameFreeze, func() (prebackupv1.PreBackupAction, error) {
			return &freeze{state: s}, s.check()
		}).
		RegisterPostBackupActionV1(nameFreeze, func() (postbackupv1.PostBackupAction, error) {
			return &thaw{state: s}, s.check()
		}).
		RegisterPreRestoreActionV1(nameFreeze, func() (prerestorev1.PreRestoreAction, error) {
			return &freeze{state: s}, s.check()
		}).
		RegisterPostRestoreActionV1(nameFreeze, func() (postrestorev1.PostRestoreAction, error) {
			return &thaw{state: s}, s.check()
		}).
		RegisterPostBackupActionV1(nameNotify, func() (postbackupv1.PostBackupAction, error) {
			return &notify{state: s}, s.check()
		})
}

// registerItemActions registers what sees single objects.
func registerItemActions(server *serve.Server, s *snapshots) {
	server.
		RegisterBackupItemActionV1(nameSecrets, func() (backupitemv1.BackupItemAction, error) {
			return secrets{}, nil
		}).
		RegisterBackupItemActionV2(nameSnapshot, func() (backupitemv2.BackupItemAction, error) {
			return takeSnapshot{snapshots: s}, nil
		}).
		RegisterDeleteItemActionV1(nameSnapshot, func() (deleteitemv1.DeleteItemAction, error) {
			return removeSnapshot{snapshots: s}, nil
		}).
		RegisterRestoreItemActionV1(nameRegistry, func() (restoreitemv1.RestoreItemAction, error) {
			return registry{}, nil
		}).
		RegisterRestoreItemActionV2(nameClaims, func() (restoreitemv2.RestoreItemAction, error) {
			return &waitClaims{asked: map[string]bool{}}, nil
		})
}
