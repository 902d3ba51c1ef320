// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"github.com/grapnel-dev/grapnel/sdk"
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
)

// RegisterPreBackupActionV1 registers a PreBackupAction under a name, see the package
// comment. create is called once per process, before the first call; an error it returns
// fails that call, and the next one tries again. Serve reports an invalid name.
func (s *Server) RegisterPreBackupActionV1(name string, create func() (prebackupv1.PreBackupAction, error)) *Server {
	return registerAction(s, actionID{kind: sdk.KindPreBackupAction, version: sdk.V1, name: name}, create)
}

// RegisterPostBackupActionV1 registers a PostBackupAction in the same way as
// RegisterPreBackupActionV1.
func (s *Server) RegisterPostBackupActionV1(name string, create func() (postbackupv1.PostBackupAction, error)) *Server {
	return registerAction(s, actionID{kind: sdk.KindPostBackupAction, version: sdk.V1, name: name}, create)
}

// RegisterPreRestoreActionV1 registers a PreRestoreAction in the same way as
// RegisterPreBackupActionV1.
func (s *Server) RegisterPreRestoreActionV1(name string, create func() (prerestorev1.PreRestoreAction, error)) *Server {
	return registerAction(s, actionID{kind: sdk.KindPreRestoreAction, version: sdk.V1, name: name}, create)
}

// RegisterPostRestoreActionV1 registers a PostRestoreAction in the same way as
// RegisterPreBackupActionV1.
func (s *Server) RegisterPostRestoreActionV1(name string, create func() (postrestorev1.PostRestoreAction, error)) *Server {
	return registerAction(s, actionID{kind: sdk.KindPostRestoreAction, version: sdk.V1, name: name}, create)
}

// RegisterBackupItemActionV1 registers a BackupItemAction in the same way as
// RegisterPreBackupActionV1. If an action is registered in several versions, the operator
// uses the newest version that it knows.
func (s *Server) RegisterBackupItemActionV1(name string, create func() (backupitemv1.BackupItemAction, error)) *Server {
	return registerAction(s, actionID{kind: sdk.KindBackupItemAction, version: sdk.V1, name: name}, create)
}

// RegisterBackupItemActionV2 registers a BackupItemAction that may start operations, in
// the same way as RegisterBackupItemActionV1.
func (s *Server) RegisterBackupItemActionV2(name string, create func() (backupitemv2.BackupItemAction, error)) *Server {
	return registerAction(s, actionID{kind: sdk.KindBackupItemAction, version: sdk.V2, name: name}, create)
}

// RegisterRestoreItemActionV1 registers a RestoreItemAction in the same way as
// RegisterBackupItemActionV1.
func (s *Server) RegisterRestoreItemActionV1(name string, create func() (restoreitemv1.RestoreItemAction, error)) *Server {
	return registerAction(s, actionID{kind: sdk.KindRestoreItemAction, version: sdk.V1, name: name}, create)
}

// RegisterRestoreItemActionV2 registers a RestoreItemAction that may start operations
// and wait for other objects, in the same way as RegisterBackupItemActionV1.
func (s *Server) RegisterRestoreItemActionV2(name string, create func() (restoreitemv2.RestoreItemAction, error)) *Server {
	return registerAction(s, actionID{kind: sdk.KindRestoreItemAction, version: sdk.V2, name: name}, create)
}

// RegisterAsyncBackupItemActionV1 registers an AsyncBackupItemAction in the same way as
// RegisterBackupItemActionV1. Velero does not see it.
func (s *Server) RegisterAsyncBackupItemActionV1(
	name string, create func() (asyncbackupitemv1.AsyncBackupItemAction, error),
) *Server {
	return registerAction(s, actionID{kind: sdk.KindAsyncBackupItemAction, version: sdk.V1, name: name}, create)
}

// RegisterAsyncRestoreItemActionV1 registers an AsyncRestoreItemAction in the same way as
// RegisterBackupItemActionV1. Velero does not see it.
func (s *Server) RegisterAsyncRestoreItemActionV1(
	name string, create func() (asyncrestoreitemv1.AsyncRestoreItemAction, error),
) *Server {
	return registerAction(s, actionID{kind: sdk.KindAsyncRestoreItemAction, version: sdk.V1, name: name}, create)
}

// RegisterDeleteActionV1 registers a DeleteAction in the same way as
// RegisterPreBackupActionV1. Velero does not see it.
func (s *Server) RegisterDeleteActionV1(name string, create func() (deletev1.DeleteAction, error)) *Server {
	return registerAction(s, actionID{kind: sdk.KindDeleteAction, version: sdk.V1, name: name}, create)
}

// RegisterDeleteItemActionV1 registers a DeleteItemAction in the same way as
// RegisterBackupItemActionV1.
func (s *Server) RegisterDeleteItemActionV1(name string, create func() (deleteitemv1.DeleteItemAction, error)) *Server {
	return registerAction(s, actionID{kind: sdk.KindDeleteItemAction, version: sdk.V1, name: name}, create)
}

// RegisterObjectStoreV1 registers an ObjectStore in the same way as
// RegisterPreBackupActionV1. Its name is the provider of a BackupStorageLocation. Under a
// Velero server, create is called again whenever the store is initialized again. With
// Listen, it is called for every connection, by several goroutines concurrently.
func (s *Server) RegisterObjectStoreV1(name string, create func() (objectstorev1.ObjectStore, error)) *Server {
	checked := func() (objectstorev1.ObjectStore, error) {
		store, err := create()
		if err == nil && store == nil {
			err = errNilAction
		}
		return store, err
	}
	return registerAction(s, actionID{kind: sdk.KindObjectStore, version: sdk.V1, name: name}, func() (*storesByConnection, error) {
		store, err := checked()
		if err != nil {
			return nil, err
		}
		return &storesByConnection{create: checked, unused: store}, nil
	})
}
