// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package adapter

import (
	"context"

	"google.golang.org/grpc"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/sdk"
)

// Hook makes one call of a run-once action over conn. Errors are those of gRPC,
// or a *ContractError if the answer is not one that the version allows.
type Hook func(ctx context.Context, conn grpc.ClientConnInterface, callID string, call executor.Call) (executor.Answer, error)

// Version is one version of a kind.
type Version struct {
	// Name is the version, "v1".
	Name string
	// Hook calls an action that offers this version.
	Hook Hook
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
	}
}

// find returns a version of a kind, and false if the operator does not know it.
func find(kind, version string) (Version, bool) {
	for _, k := range Kinds() {
		for _, v := range k.Versions {
			if k.Name == kind && v.Name == version {
				return v, true
			}
		}
	}
	return Version{}, false
}

// Hooks returns how to call each of the actions, by kind and name. Of an action
// that is offered in several versions the newest one is used.
func Hooks(actions []Action) map[ID]Hook {
	offered := map[Action]bool{}
	for _, action := range actions {
		offered[action] = true
	}
	hooks := map[ID]Hook{}
	for _, action := range actions {
		for _, kind := range Kinds() {
			if kind.Name != action.Kind {
				continue
			}
			for _, version := range kind.Versions {
				if offered[Action{Kind: kind.Name, Version: version.Name, Name: action.Name}] {
					hooks[action.ID()] = version.Hook
					break
				}
			}
		}
	}
	return hooks
}
