// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Command exampleplugin is a small plugin that shows how to write one; see
// README.md for what it does and how to try it.
//
//	main.go          what the plugin provides
//	freeze.go        the pairs example.io/freeze, around a backup and around a restore
//	runinfo.go       the fields of the Backup or Restore that actions need
//	notify.go        the post action example.io/notify
//	demoparameters.go  the parameters that make the hooks slow or fail in a demo
//	state.go         the state of the hooks between calls
//	secrets.go       a BackupItemAction that adds another object
//	takesnapshot.go  a BackupItemAction that starts an operation
//	snapshots.go     a DeleteItemAction that removes the snapshots
//	registry.go      a RestoreItemAction that changes or skips objects
//	claims.go        a RestoreItemAction that waits for other objects
//	copydata.go      actions that start operations: they copy data in the background
//	copies.go        these copies and their outcomes
//	transfer.go      one copy
//	removecopies.go  a DeleteAction that removes all copies of a backup
//	movedata.go      an action that starts operations that another program executes:
//	                 the one in mover, through the kind of package datamove
//	directory.go        an ObjectStore
//
// It imports nothing of Grapnel except the SDK. Only movedata.go needs the Kubernetes
// clients.
package main

import (
	"os"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"

	asyncbackupitemv1 "github.com/grapnel-dev/grapnel/sdk/asyncbackupitemaction/v1"
	asyncrestoreitemv1 "github.com/grapnel-dev/grapnel/sdk/asyncrestoreitemaction/v1"
	backupitemv1 "github.com/grapnel-dev/grapnel/sdk/backupitemaction/v1"
	backupitemv2 "github.com/grapnel-dev/grapnel/sdk/backupitemaction/v2"
	deletev1 "github.com/grapnel-dev/grapnel/sdk/deleteaction/v1"
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
	nameFreeze    = "example.io/freeze"
	nameNotify    = "example.io/notify"
	nameSecrets   = "example.io/secrets" //nolint:gosec // the name of an action
	nameSnapshot  = "example.io/snapshot"
	nameRegistry  = "example.io/registry"
	nameClaims    = "example.io/claims"
	nameDirectory = "example.io/directory"
	nameCopy      = "example.io/copy"
	nameMove      = "example.io/move"
)

func main() {
	newServer(os.Getenv("EXAMPLE_STATE_DIR")).Serve()
}

// newServer registers everything. State that must outlive the process is stored in dir.
func newServer(dir string) *serve.Server {
	return newServerWithDeps(dir, newCopies(dir), newAPIServerClient)
}

// newServerWithDeps is newServer with dependencies for tests.
func newServerWithDeps(dir string, c *copies, newClient func() (client.Client, error)) *serve.Server {
	server := serve.New()
	registerHooks(server, newState(dir))
	registerItemActions(server, newSnapshots(dir))
	registerAsyncActions(server, c, newClient)
	return server.RegisterObjectStoreV1(nameDirectory, func() (objectstorev1.ObjectStore, error) { return &directoryStore{}, nil })
}

// registerHooks registers the hooks, which share the state.
func registerHooks(server *serve.Server, s *state) {
	server.
		RegisterPreBackupActionV1(nameFreeze, func() (prebackupv1.PreBackupAction, error) {
			return &freeze{state: s}, s.ensureStateDir()
		}).
		RegisterPostBackupActionV1(nameFreeze, func() (postbackupv1.PostBackupAction, error) {
			return &thaw{state: s}, s.ensureStateDir()
		}).
		RegisterPreRestoreActionV1(nameFreeze, func() (prerestorev1.PreRestoreAction, error) {
			return &freeze{state: s}, s.ensureStateDir()
		}).
		RegisterPostRestoreActionV1(nameFreeze, func() (postrestorev1.PostRestoreAction, error) {
			return &thaw{state: s}, s.ensureStateDir()
		}).
		RegisterPostBackupActionV1(nameNotify, func() (postbackupv1.PostBackupAction, error) {
			return &notify{state: s}, s.ensureStateDir()
		})
}

// registerItemActions registers the actions on single objects.
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

// registerAsyncActions registers the actions that start operations on single objects, and
// related actions.
func registerAsyncActions(server *serve.Server, c *copies, newClient func() (client.Client, error)) {
	server.
		RegisterAsyncBackupItemActionV1(nameCopy, func() (asyncbackupitemv1.AsyncBackupItemAction, error) {
			return copyOut{copies: c}, nil
		}).
		RegisterAsyncRestoreItemActionV1(nameCopy, func() (asyncrestoreitemv1.AsyncRestoreItemAction, error) {
			return copyBack{copies: c}, nil
		}).
		RegisterDeleteItemActionV1(nameCopy, func() (deleteitemv1.DeleteItemAction, error) {
			return removeCopy{copies: c}, nil
		}).
		RegisterDeleteActionV1(nameCopy, func() (deletev1.DeleteAction, error) {
			return removeCopies{copies: c}, nil
		}).
		// Only this action needs the API server, and only when there is something to move.
		RegisterAsyncBackupItemActionV1(nameMove, func() (asyncbackupitemv1.AsyncBackupItemAction, error) {
			return moveData{client: sync.OnceValues(newClient)}, nil
		}).
		RegisterRestoreItemActionV1(nameMove, func() (restoreitemv1.RestoreItemAction, error) {
			return skipMoves{}, nil
		})
}
