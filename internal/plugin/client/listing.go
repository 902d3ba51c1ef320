// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/grapnel-dev/grapnel/sdk/proto"
	pluginpb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/plugin/v1"
	velerov1 "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/velero/v1"
)

// The values of ListError.Reason.
const (
	// ReasonNotAGrapnelPlugin means that the process serves neither Grapnel's lister nor
	// Velero's.
	ReasonNotAGrapnelPlugin = "NotAGrapnelPlugin"
	// ReasonInvalidRegistration means that the listed actions violate a rule.
	ReasonInvalidRegistration = "InvalidRegistration"
	// ReasonNotAdaptable means that the process offers an action only in versions that the
	// operator does not know.
	ReasonNotAdaptable = "NotAdaptable"
	// ReasonListFailed means that the lister returned an error.
	ReasonListFailed = "ListFailed"
	// ReasonFirstCallFailed means that the first call of one of its actions failed.
	ReasonFirstCallFailed = "FirstCallFailed"
)

// ListError says why listing the actions of a plugin failed.
type ListError struct {
	// Reason is one of the Reason constants.
	Reason string
	// Message is for users and says what to do. It may quote the plugin: redact it.
	Message string
	// Err is the cause, if there is one.
	Err error
}

// Error returns the message.
func (e *ListError) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *ListError) Unwrap() error { return e.Err }

// ListedAction is one action that a plugin provides.
type ListedAction struct {
	// Kind is for example "PreBackupAction".
	Kind string
	// Version of the kind's interface, "v1".
	Version string
	// Name is the registered name, "example.io/quiesce".
	Name string
}

// ID returns the ID of the action, which does not depend on its version.
func (a ListedAction) ID() ActionID { return ActionID{Kind: a.Kind, Name: a.Name} }

// ActionID identifies an action in the operator.
type ActionID struct {
	// Kind and Name are the kind and name of an Action.
	Kind, Name string
}

// String returns "PreBackupAction(example.io/quiesce)".
func (i ActionID) String() string { return i.Kind + "(" + i.Name + ")" }

// Listing is the result of listing a plugin.
type Listing struct {
	// Actions are the actions that the operator can call, sorted.
	Actions []ListedAction
	// Ignored are the actions of unknown kinds, as the plugin lists them and sorted:
	// "VolumeSnapshotter example.io/disks".
	Ignored []string
	// SDKVersion is the version of the SDK that the plugin was built with.
	SDKVersion string
	// MarksLogEnd is true if the plugin marks the end of each call in its log.
	MarksLogEnd bool
	// BuiltWithVelero is true if the plugin was built with Velero's framework: see
	// WarmUpHandlers.
	BuiltWithVelero bool
}

// ListActions lists the actions of the process at the other end of conn; kinds are the known
// kinds. It calls Grapnel's lister and, if there is none, Velero's. Apart from the errors of
// ctx and of a broken connection (a status Unavailable), every error is a *ListError.
func ListActions(ctx context.Context, conn grpc.ClientConnInterface, kinds []ActionKind) (Listing, error) {
	response, err := pluginpb.NewPluginListerClient(conn).ListPlugins(ctx, &pluginpb.ListPluginsRequest{}, callOptions()...)
	if status.Code(err) == codes.Unimplemented {
		return listVeleroActions(ctx, conn, kinds)
	}
	if err != nil {
		return Listing{}, toListError(ctx, err)
	}
	var offers []listedAction
	for _, p := range response.GetPlugins() {
		action := ListedAction{Kind: p.GetKind(), Version: p.GetVersion(), Name: p.GetName()}
		offers = append(offers, listedAction{action: action, supported: isSupportedKind(kinds, action.Kind), listedName: action.Kind + " " + action.Name})
	}
	listing, err := buildListing(kinds, offers)
	listing.SDKVersion = response.GetSdkVersion()
	listing.MarksLogEnd = slices.Contains(response.GetCapabilities(), proto.CapabilityLogEnd)
	return listing, err
}

// listVeleroActions calls Velero's lister. It ignores the listed command: the user named the
// binary that runs.
func listVeleroActions(ctx context.Context, conn grpc.ClientConnInterface, kinds []ActionKind) (Listing, error) {
	response, err := velerov1.NewPluginListerClient(proto.VeleroConn(conn)).ListPlugins(ctx, &emptypb.Empty{}, callOptions()...)
	if status.Code(err) == codes.Unimplemented {
		return Listing{}, &ListError{Reason: ReasonNotAGrapnelPlugin, Err: err, Message: "it is a plugin of go-plugin, " +
			"but neither one of Grapnel nor one of Velero: build it with Grapnel's SDK, or remove the Plugin"}
	}
	if err != nil {
		return Listing{}, toListError(ctx, err)
	}
	var offers []listedAction
	for _, p := range response.GetPlugins() {
		offers = append(offers, newVeleroListedAction(kinds, p))
	}
	listing, err := buildListing(kinds, offers)
	listing.BuiltWithVelero = true
	return listing, err
}

func toListError(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case status.Code(err) == codes.Unavailable:
		return err
	default:
		return &ListError{Reason: ReasonListFailed, Err: err, Message: "it did not list its actions: " + status.Convert(err).Message()}
	}
}
