// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/grapnel-dev/grapnel/sdk"
	velerov1 "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/velero/v1"
)

// veleroKinds are the kinds that Velero's lister may list and that have the same meaning
// here. Other kinds of Velero are ignored, even if they share a name with a kind of
// Grapnel.
func veleroKinds() []string {
	return []string{
		string(sdk.KindBackupItemAction), kindItemBlockAction, string(sdk.KindRestoreItemAction),
		string(sdk.KindDeleteItemAction), string(sdk.KindObjectStore),
	}
}

// newVeleroListedAction translates an entry of Velero's lister: "BackupItemActionV2" is version 2
// of a kind, "BackupItemAction" its version 1.
func newVeleroListedAction(kinds []ActionKind, p *velerov1.PluginIdentifier) listedAction {
	action := ListedAction{Kind: p.GetKind(), Version: sdk.V1, Name: p.GetName()}
	if parts := regexp.MustCompile(`^(.+)V([1-9][0-9]*)$`).FindStringSubmatch(action.Kind); parts != nil {
		action.Kind, action.Version = parts[1], "v"+parts[2]
	}
	o := listedAction{
		action: action, listedName: p.GetKind() + " " + p.GetName(),
		supported: slices.Contains(veleroKinds(), action.Kind) && isSupportedKind(kinds, action.Kind),
	}
	if !strings.Contains(action.Name, "/") {
		o.problem = fmt.Sprintf("its %s has the name %q, the names of Velero's plugins have a slash: use one like \"example.io/freeze\"",
			p.GetKind(), action.Name)
	}
	return o
}

// WarmUpHandlers makes the first call to every action that will be called, one after another. A
// process built with Velero's framework creates an action in its first call and does not expect
// concurrent first calls: it may crash. Object stores are skipped because their first call is
// Init. Errors are as for ListActions.
func WarmUpHandlers(ctx context.Context, conn grpc.ClientConnInterface, kinds []ActionKind, actions []ListedAction) error {
	chosen := SelectVersions(kinds, actions)
	for _, action := range actions {
		version := chosen[action.ID()]
		first := version.selectorProvider()
		if first == nil || version.Name != action.Version {
			continue
		}
		_, err := first.AppliesTo(ctx, ItemCall{Conn: conn, Action: action.Name})
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return ctx.Err()
		case status.Code(err) == codes.Unavailable:
			return err
		default:
			return &ListError{Reason: ReasonFirstCallFailed, Err: err, Message: fmt.Sprintf(
				"the first call of its %s %s %s failed: %s", action.Kind, action.Version, action.Name, status.Convert(err).Message())}
		}
	}
	return nil
}

// selectorProvider returns the client for the method AppliesTo, nil if the kind has none.
func (v ActionVersion) selectorProvider() SelectorProvider {
	switch {
	case v.BackupItem != nil:
		return v.BackupItem
	case v.RestoreItem != nil:
		return v.RestoreItem
	case v.DeleteItem != nil:
		return v.DeleteItem
	default:
		return nil
	}
}
