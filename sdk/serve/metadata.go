// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/grapnel-dev/grapnel/sdk"
	"github.com/grapnel-dev/grapnel/sdk/internal/wire"
	"github.com/grapnel-dev/grapnel/sdk/item"
	"github.com/grapnel-dev/grapnel/sdk/proto"
	itempb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/item/v1"
)

// metadataService is the common part of the services whose calls are described by metadata:
// those of Velero's kinds and of asynchronous item actions.
type metadataService struct {
	server  *Server
	kind    sdk.Kind
	version string
}

// newMetadataService returns the common part of the service of a kind and version.
func (s *Server) newMetadataService(kind sdk.Kind, version string) metadataService {
	return metadataService{server: s, kind: kind, version: version}
}

// callInfoFromMetadata returns the attributes of a call to the action with a name. The messages
// have no fields for them: a Grapnel host sends them beside the messages.
func (m metadataService) callInfoFromMetadata(ctx context.Context, name string) callInfo {
	in := callInfo{id: actionID{kind: m.kind, version: m.version, name: name}}
	in.callID = callMetadataValue(ctx, proto.MetadataCall)
	in.key = callMetadataValue(ctx, proto.MetadataKey)
	if encoded := callMetadataValue(ctx, proto.MetadataParameters); encoded != "" {
		if err := json.Unmarshal([]byte(encoded), &in.parameters); err != nil {
			in.requestErr = newStatusError(codes.InvalidArgument, fmt.Errorf("reading the parameters of the call: %w", err))
		}
	}
	return in
}

// callMetadataValue returns one value of the metadata of a call.
func callMetadataValue(ctx context.Context, name string) string {
	if values := metadata.ValueFromIncomingContext(ctx, name); len(values) > 0 {
		return values[0]
	}
	return ""
}

// selectingAction is the common interface of the kinds of actions on items.
type selectingAction interface {
	AppliesTo(ctx context.Context) (item.Selector, error)
}

func (m metadataService) serveAppliesTo(ctx context.Context, in *itempb.AppliesToRequest) (*itempb.AppliesToResponse, error) {
	return serveCall(ctx, m.server, m.callInfoFromMetadata(ctx, in.GetPlugin()),
		func(ctx context.Context, action selectingAction) (*itempb.AppliesToResponse, error) {
			selector, err := action.AppliesTo(ctx)
			if err != nil {
				return nil, err
			}
			return wire.SelectorTo(selector), nil
		})
}

// callActionMethod passes a request to a method of an action, and converts the result to a message.
// unreadable is the error if the request could not be read.
func callActionMethod[Req, Resp, Out any](
	ctx context.Context, req *Req, unreadable error,
	method func(ctx context.Context, req *Req) (Resp, error), message func(resp Resp) (*Out, error),
) (*Out, error) {
	if unreadable != nil {
		return nil, newStatusError(codes.InvalidArgument, unreadable)
	}
	resp, err := method(ctx, req)
	if err != nil {
		return nil, err
	}
	return message(resp)
}

// callActionMethodWithoutResponse is callActionMethod for a method that returns only an
// error.
func callActionMethodWithoutResponse[Req any](
	ctx context.Context, req *Req, unreadable error, method func(ctx context.Context, req *Req) error,
) (*emptypb.Empty, error) {
	if unreadable != nil {
		return nil, newStatusError(codes.InvalidArgument, unreadable)
	}
	return &emptypb.Empty{}, method(ctx, req)
}

// callActionProgress is callActionMethod for Progress, and callActionCancel is
// callActionMethodWithoutResponse for Cancel. Both return a separate code if the action does not
// know the operation.
func callActionProgress[Req, Out any](
	ctx context.Context, req *Req, unreadable error,
	method func(ctx context.Context, req *Req) (*item.Progress, error), message func(p *item.Progress) (*Out, error),
) (*Out, error) {
	out, err := callActionMethod(ctx, req, unreadable, method, message)
	return out, operationStatusError(err)
}

func callActionCancel[Req any](
	ctx context.Context, req *Req, unreadable error, method func(ctx context.Context, req *Req) error,
) (*emptypb.Empty, error) {
	out, err := callActionMethodWithoutResponse(ctx, req, unreadable, method)
	return out, operationStatusError(err)
}

// operationStatusError adds the status code to an error about an operation.
func operationStatusError(err error) error {
	if errors.Is(err, item.ErrUnknownOperation) {
		return newStatusError(codes.NotFound, err)
	}
	return err
}
