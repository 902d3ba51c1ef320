// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package adapter

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/grapnel-dev/grapnel/sdk"
	"github.com/grapnel-dev/grapnel/sdk/proto"
	pluginpb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/plugin/v1"
)

// maxActions is how many actions one plugin may provide: all of them are shown in
// the status of its Plugin object.
const maxActions = 256

// The values of ListError.Reason.
const (
	// ReasonNotAGrapnelPlugin means that the process serves no lister of ours.
	ReasonNotAGrapnelPlugin = "NotAGrapnelPlugin"
	// ReasonInvalidRegistration means that what it lists breaks a rule.
	ReasonInvalidRegistration = "InvalidRegistration"
	// ReasonListFailed means that the lister answered with an error.
	ReasonListFailed = "ListFailed"
)

// ListError says why what a plugin provides could not be found out.
type ListError struct {
	// Reason is one of the Reason constants.
	Reason string
	// Message is for people and says what to do. It may quote the plugin: redact it.
	Message string
	// Err is the cause, if there is one.
	Err error
}

// Error returns the message.
func (e *ListError) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *ListError) Unwrap() error { return e.Err }

// Action is one action that a plugin provides.
type Action struct {
	// Kind is for example "PreBackupAction".
	Kind string
	// Version of the kind's interface, "v1".
	Version string
	// Name is the registered name, "example.io/quiesce".
	Name string
}

// ID returns what identifies the action whatever its version.
func (a Action) ID() ID { return ID{Kind: a.Kind, Name: a.Name} }

// ID identifies an action in the operator.
type ID struct {
	// Kind and Name are those of Action.
	Kind, Name string
}

// String returns "PreBackupAction(example.io/quiesce)".
func (i ID) String() string { return i.Kind + "(" + i.Name + ")" }

// Listing is what a plugin says about itself.
type Listing struct {
	// Actions are those the operator knows how to call, sorted.
	Actions []Action
	// SDKVersion is the version of the SDK it was built with.
	SDKVersion string
	// LogEnd says that it marks the end of each call in its log.
	LogEnd bool
}

// List asks the process at the other end of conn what it provides. Apart from the
// errors of ctx and of a broken connection (a status Unavailable), every error is a
// *ListError.
func List(ctx context.Context, conn grpc.ClientConnInterface) (Listing, error) {
	response, err := pluginpb.NewPluginListerClient(conn).ListPlugins(ctx, &pluginpb.ListPluginsRequest{}, callOptions()...)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return Listing{}, ctx.Err()
	case status.Code(err) == codes.Unimplemented:
		return Listing{}, &ListError{Reason: ReasonNotAGrapnelPlugin, Err: err, Message: "it is a plugin, perhaps one for Velero, " +
			"but it provides no actions of Grapnel: build it with Grapnel's SDK, or remove the Plugin"}
	case status.Code(err) == codes.Unavailable:
		return Listing{}, err
	default:
		return Listing{}, &ListError{Reason: ReasonListFailed, Err: err, Message: "it did not list its actions: " + status.Convert(err).Message()}
	}
	actions, err := checkActions(response.GetPlugins())
	if err != nil {
		return Listing{}, err
	}
	return Listing{
		Actions: actions, SDKVersion: response.GetSdkVersion(),
		LogEnd: slices.Contains(response.GetCapabilities(), proto.CapabilityLogEnd),
	}, nil
}

// checkActions applies the rules for names and leaves out kinds and versions that
// a newer operator may know.
func checkActions(in []*pluginpb.PluginIdentifier) ([]Action, error) {
	if len(in) > maxActions {
		return nil, invalid("it provides %d actions, at most %d are allowed", len(in), maxActions)
	}
	seen := map[Action]bool{}
	var actions []Action
	var unknown []string
	for _, p := range in {
		action := Action{Kind: p.GetKind(), Version: p.GetVersion(), Name: p.GetName()}
		if err := sdk.ValidateName(action.Name); err != nil {
			return nil, invalid("a %s has a name that is not allowed: %s", action.Kind, err)
		}
		if seen[action] {
			return nil, invalid("it lists %s %s twice: every name may be registered once per kind and version", action.ID(), action.Version)
		}
		seen[action] = true
		if _, ok := find(action.Kind, action.Version); !ok {
			unknown = append(unknown, action.Kind+" "+action.Version)
			continue
		}
		actions = append(actions, action)
	}
	if len(actions) == 0 && len(unknown) > 0 {
		return nil, invalid("all it provides is %s, which this version of Grapnel does not know: "+
			"upgrade Grapnel or use an older version of the plugin", strings.Join(slices.Compact(slices.Sorted(slices.Values(unknown))), ", "))
	}
	if len(actions) == 0 {
		return nil, invalid("it provides no actions: register some before serving")
	}
	slices.SortFunc(actions, func(a, b Action) int {
		return strings.Compare(a.Kind+" "+a.Name+" "+a.Version, b.Kind+" "+b.Name+" "+b.Version)
	})
	return actions, nil
}

func invalid(format string, args ...any) *ListError {
	return &ListError{Reason: ReasonInvalidRegistration, Message: fmt.Sprintf(format, args...)}
}
