// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plugintest runs a plugin inside a test, over real gRPC, and checks its
// actions against what the operator expects of them.
//
//	func TestPlugin(t *testing.T) {
//		p := plugintest.Start(t, newServer())
//		resp, err := p.PreBackup(t.Context(), "example.io/freeze", plugintest.NewRequest())
//		...
//		resp, err = p.PreRestore(t.Context(), "example.io/freeze", plugintest.NewRestoreRequest())
//		...
//		plugintest.CheckContract(t, p, plugintest.Contract{})
//	}
//
// Actions on objects and object stores are called by the interfaces that they
// implement, version by version, as they were registered:
//
//	pod := plugintest.SampleObjects()[0]
//	resp, err := p.BackupItemActionV1("example.io/secrets").Execute(ctx, plugintest.NewBackupItemRequest(pod))
//
//	store := p.ObjectStoreV1("example.io/folder")
//	err := store.Init(ctx, map[string]string{"bucket": "backups", "folder": t.TempDir()})
//
// Where to look:
//
//	plugintest      Start, and calls of hooks
//	items           calls of actions on objects; backupitem and restoreitem by version,
//	                asyncbackupitem and asyncrestoreitem those that start operations
//	store           calls of object stores
//	delete          calls of DeleteActions
//	calls           what the operator says beside a request; following a call
//	contract        CheckContract, and the check of hooks
//	itemcheck, itemtarget, asynctarget, itemproblems, samples
//	                the check of actions on objects
//	operationcheck  the check of what they start
//	storecheck      the check of object stores
//	deletecheck     the check of DeleteActions
//
// It is NOT a test of the process around the actions (handshake, flags): that is
// code of the SDK.
package plugintest
