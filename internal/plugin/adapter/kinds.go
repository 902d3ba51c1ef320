// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package adapter

import (
	"context"
	"slices"

	"google.golang.org/grpc"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/sdk"
)

// Hook makes one call of a run-once action over conn. Errors are those of gRPC,
// or a *ContractError if the answer is not one that the version allows.
type Hook func(ctx context.Context, conn grpc.ClientConnInterface, callID string, call executor.Call) (executor.Answer, error)

// Version is one version of a kind. Besides Name, the field of its kind is set: what
// calls an action that offers this version.
type Version struct {
	// Name is the version, "v1".
	Name string
	// Hook is for the run-once kinds.
	Hook Hook
	// BackupItem and the others are for the kinds of these names. The first two are for the
	// asynchronous kinds as well.
	BackupItem  BackupItemAction
	RestoreItem RestoreItemAction
	DeleteItem  DeleteItemAction
	// Delete is for the kind of this name, which has Hook as well: an executor can run it.
	Delete      DeleteAction
	ObjectStore ObjectStore
}

// Kind is a kind of action with all versions that the operator can call.
type Kind struct {
	// Name is the kind, "PreBackupAction".
	Name string
	// Versions are ordered newest first: the first one that a plugin offers is used.
	Versions []Version
}

// Kinds returns every kind that the operator knows.
func Kinds() []Kind {
	return []Kind{
		{Name: string(sdk.KindPreBackupAction), Versions: []Version{{Name: sdk.V1, Hook: preBackupActionV1}}},
		{Name: string(sdk.KindPostBackupAction), Versions: []Version{{Name: sdk.V1, Hook: postBackupActionV1}}},
		{Name: string(sdk.KindPreRestoreAction), Versions: []Version{{Name: sdk.V1, Hook: preRestoreActionV1}}},
		{Name: string(sdk.KindPostRestoreAction), Versions: []Version{{Name: sdk.V1, Hook: postRestoreActionV1}}},
		{Name: string(sdk.KindBackupItemAction), Versions: []Version{
			{Name: sdk.V2, BackupItem: backupItemActionV2{}}, {Name: sdk.V1, BackupItem: backupItemActionV1{}},
		}},
		{Name: string(sdk.KindRestoreItemAction), Versions: []Version{
			{Name: sdk.V2, RestoreItem: restoreItemActionV2{}}, {Name: sdk.V1, RestoreItem: restoreItemActionV1{}},
		}},
		{Name: string(sdk.KindAsyncBackupItemAction), Versions: []Version{{Name: sdk.V1, BackupItem: asyncBackupItemActionV1{}}}},
		{Name: string(sdk.KindAsyncRestoreItemAction), Versions: []Version{{Name: sdk.V1, RestoreItem: asyncRestoreItemActionV1{}}}},
		{Name: string(sdk.KindDeleteAction), Versions: []Version{
			{Name: sdk.V1, Hook: deleteActionV1{}.hook, Delete: deleteActionV1{}},
		}},
		{Name: string(sdk.KindDeleteItemAction), Versions: []Version{{Name: sdk.V1, DeleteItem: deleteItemActionV1{}}}},
		{Name: string(sdk.KindObjectStore), Versions: []Version{{Name: sdk.V1, ObjectStore: objectStoreV1{}}}},
	}
}

// Choose returns how to call each of the actions, by kind and name: of an action that
// is offered in several versions the newest one that is known. An action that is
// offered in unknown versions only is left out.
func Choose(kinds []Kind, actions []Action) map[ID]Version {
	offered := map[Action]bool{}
	for _, action := range actions {
		offered[action] = true
	}
	chosen := map[ID]Version{}
	for _, action := range actions {
		for _, version := range versionsOf(kinds, action.Kind) {
			if offered[Action{Kind: action.Kind, Version: version.Name, Name: action.Name}] {
				chosen[action.ID()] = version
				break
			}
		}
	}
	return chosen
}

// isKnown reports whether some version of a kind can be called.
func isKnown(kinds []Kind, kind string) bool { return len(versionsOf(kinds, kind)) > 0 }

// isCallable reports whether an action is offered in a version that can be called.
func isCallable(kinds []Kind, action Action) bool {
	return slices.ContainsFunc(versionsOf(kinds, action.Kind), func(v Version) bool { return v.Name == action.Version })
}

// versionsOf returns the known versions of a kind, newest first; none if the kind is
// unknown.
func versionsOf(kinds []Kind, kind string) []Version {
	for _, k := range kinds {
		if k.Name == kind {
			return k.Versions
		}
	}
	return nil
}
