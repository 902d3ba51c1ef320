// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"slices"

	"google.golang.org/grpc"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/sdk"
)

// Hook makes one call of a run-once action over conn. Errors are errors of gRPC, or a
// *ContractError if the response is not allowed by the version.
type Hook func(ctx context.Context, conn grpc.ClientConnInterface, callID string, call executor.Call) (executor.Answer, error)

// ActionVersion is one version of a kind. Besides Name, the field of its kind is set: the
// client for actions that offer this version.
type ActionVersion struct {
	// Name is the version, "v1".
	Name string
	// Hook is for the run-once kinds.
	Hook Hook
	// BackupItem and the others are for the kinds with these names. The first two are also
	// for the asynchronous kinds, and the first for ItemBlockAction.
	BackupItem  BackupItemAction
	RestoreItem RestoreItemAction
	DeleteItem  DeleteItemAction
	// Delete is for the kind with this name, which also has Hook: an executor can run it.
	Delete      DeleteAction
	ObjectStore ObjectStore
}

// ActionKind is a kind of action with all versions that the operator can call.
type ActionKind struct {
	// Name is the kind, "PreBackupAction".
	Name string
	// Versions are ordered newest first: the first one that a plugin offers is used.
	Versions []ActionVersion
}

// SupportedKinds returns all kinds that the operator supports.
func SupportedKinds() []ActionKind {
	return []ActionKind{
		{Name: string(sdk.KindPreBackupAction), Versions: []ActionVersion{{Name: sdk.V1, Hook: preBackupActionV1}}},
		{Name: string(sdk.KindPostBackupAction), Versions: []ActionVersion{{Name: sdk.V1, Hook: postBackupActionV1}}},
		{Name: string(sdk.KindPreRestoreAction), Versions: []ActionVersion{{Name: sdk.V1, Hook: preRestoreActionV1}}},
		{Name: string(sdk.KindPostRestoreAction), Versions: []ActionVersion{{Name: sdk.V1, Hook: postRestoreActionV1}}},
		{Name: string(sdk.KindBackupItemAction), Versions: []ActionVersion{
			{Name: sdk.V2, BackupItem: backupItemActionV2{}}, {Name: sdk.V1, BackupItem: backupItemActionV1{}},
		}},
		{Name: kindItemBlockAction, Versions: []ActionVersion{{Name: sdk.V1, BackupItem: itemBlockActionV1{}}}},
		{Name: string(sdk.KindRestoreItemAction), Versions: []ActionVersion{
			{Name: sdk.V2, RestoreItem: restoreItemActionV2{}}, {Name: sdk.V1, RestoreItem: restoreItemActionV1{}},
		}},
		{Name: string(sdk.KindAsyncBackupItemAction), Versions: []ActionVersion{{Name: sdk.V1, BackupItem: asyncBackupItemActionV1{}}}},
		{Name: string(sdk.KindAsyncRestoreItemAction), Versions: []ActionVersion{{Name: sdk.V1, RestoreItem: asyncRestoreItemActionV1{}}}},
		{Name: string(sdk.KindDeleteAction), Versions: []ActionVersion{
			{Name: sdk.V1, Hook: deleteActionV1{}.executeAsHook, Delete: deleteActionV1{}},
		}},
		{Name: string(sdk.KindDeleteItemAction), Versions: []ActionVersion{{Name: sdk.V1, DeleteItem: deleteItemActionV1{}}}},
		{Name: string(sdk.KindObjectStore), Versions: []ActionVersion{{Name: sdk.V1, ObjectStore: objectStoreV1{}}}},
	}
}

// SelectVersions returns the version to call for each action, by kind and name: the newest
// known version that the action offers. An action that is offered only in unknown versions is
// omitted.
func SelectVersions(kinds []ActionKind, actions []ListedAction) map[ActionID]ActionVersion {
	offered := map[ListedAction]bool{}
	for _, action := range actions {
		offered[action] = true
	}
	chosen := map[ActionID]ActionVersion{}
	for _, action := range actions {
		for _, version := range supportedVersions(kinds, action.Kind) {
			if offered[ListedAction{Kind: action.Kind, Version: version.Name, Name: action.Name}] {
				chosen[action.ID()] = version
				break
			}
		}
	}
	return chosen
}

// isSupportedKind reports whether any version of a kind can be called.
func isSupportedKind(kinds []ActionKind, kind string) bool {
	return len(supportedVersions(kinds, kind)) > 0
}

// isSupportedVersion reports whether an action is offered in a version that can be called.
func isSupportedVersion(kinds []ActionKind, action ListedAction) bool {
	return slices.ContainsFunc(supportedVersions(kinds, action.Kind), func(v ActionVersion) bool { return v.Name == action.Version })
}

// supportedVersions returns the known versions of a kind, newest first; none if the kind is
// unknown.
func supportedVersions(kinds []ActionKind, kind string) []ActionVersion {
	for _, k := range kinds {
		if k.Name == kind {
			return k.Versions
		}
	}
	return nil
}
