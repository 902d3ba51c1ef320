// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plugintest runs a plugin inside a test, over real gRPC, and checks that its
// actions meet the expectations of the operator.
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
// Actions on objects and object stores are called through the interface and version with
// which they were registered:
//
//	pod := plugintest.SampleObjects()[0]
//	resp, err := p.BackupItemActionV1("example.io/secrets").Execute(ctx, plugintest.NewBackupItemRequest(pod))
//
//	store := p.ObjectStoreV1("example.io/directory")
//	err := store.Init(ctx, map[string]string{"bucket": "backups", "directory": t.TempDir()})
//
// Where to look:
//
//	plugintest      Start, and calls of hooks
//	items           calls of actions on objects; backupitem and restoreitem for each version,
//	                asyncbackupitem and asyncrestoreitem for actions that start operations
//	store           calls of object stores
//	deleteaction    calls of DeleteActions
//	calls           what the operator sends beside a request; tracking of calls
//	contract        CheckContract, and the check of hooks
//	itemcheck, itemtarget, asynctarget, itemproblems, samples
//	                the check of actions on objects
//	operationcheck  the check of operations that actions start
//	storecheck      the check of object stores
//	deletecheck     the check of DeleteActions
//
// It does not test the process around the actions (handshake, flags), which is code of the
// SDK.
package plugintest
