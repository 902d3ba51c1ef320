// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	protobuf "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/grapnel-dev/grapnel/sdk/item"
	"github.com/grapnel-dev/grapnel/sdk/proto"
	itempb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/item/v1"
)

// maxItemResponseBytes is the size of the largest response for an object: the object itself
// and the names of others.
const maxItemResponseBytes = item.MaxBytes + 2<<20

// unaryMethod is a method of a generated client.
type unaryMethod[In, Out protobuf.Message] func(ctx context.Context, in In, opts ...grpc.CallOption) (Out, error)

// callItemAction makes one call for an object. Attributes without fields in the messages, most
// of which are Velero's, are sent as metadata.
func callItemAction[In, Out protobuf.Message](ctx context.Context, call ItemCall, method unaryMethod[In, Out], in In) (Out, error) {
	limit := cmp.Or(call.MaxResponseBytes, maxItemResponseBytes)
	out, err := method(withCallMetadata(ctx, call), in, grpc.MaxCallRecvMsgSize(limit))
	if err == nil {
		return out, nil
	}
	var none Out
	return none, explainSizeError(err, protobuf.Size(in), limit)
}

// withCallMetadata adds the attributes of a call to the outgoing metadata.
func withCallMetadata(ctx context.Context, call ItemCall) context.Context {
	var pairs []string
	if call.CallID != "" {
		pairs = append(pairs, proto.MetadataCall, call.CallID)
	}
	if call.Key != "" {
		pairs = append(pairs, proto.MetadataKey, call.Key)
	}
	if encoded, err := json.Marshal(call.Parameters); err == nil && len(call.Parameters) > 0 {
		pairs = append(pairs, proto.MetadataParameters, string(encoded))
	}
	return metadata.AppendToOutgoingContext(ctx, pairs...)
}

// explainSizeError determines whose limit a message exceeded: gRPC uses the same code and
// text for both directions. Only the number differs.
func explainSizeError(err error, sent, limit int) error {
	if status.Code(err) != codes.ResourceExhausted {
		return err
	}
	text := status.Convert(err).Message()
	switch {
	case strings.HasSuffix(text, fmt.Sprintf("vs. %d)", limit)):
		return &ContractError{Message: fmt.Sprintf(
			"answered with more than %d bytes, which is not part of the contract: it has to answer with less", limit)}
	case strings.HasPrefix(text, "grpc: "):
		return status.Errorf(codes.ResourceExhausted,
			"the call has %d bytes, which is more than the plugin accepts: make the object smaller, exclude it, or build the plugin with an SDK that accepts more", sent)
	default:
		return err
	}
}

func toItemSelector(in *itempb.ResourceSelector) item.Selector {
	return item.Selector{
		IncludedNamespaces: in.GetIncludedNamespaces(), ExcludedNamespaces: in.GetExcludedNamespaces(),
		IncludedResources: in.GetIncludedResources(), ExcludedResources: in.GetExcludedResources(),
		LabelSelector: in.GetSelector(),
	}
}

// toItemRefs translates the names of objects, or returns a *ContractError if there are too
// many. what describes the objects.
func toItemRefs(what string, in []*itempb.ResourceIdentifier) ([]item.Ref, error) {
	if len(in) > item.MaxRefs {
		return nil, &ContractError{Message: fmt.Sprintf(
			"named %d %s, which is not part of the contract: at most %d are allowed", len(in), what, item.MaxRefs)}
	}
	var out []item.Ref
	for _, ref := range in {
		out = append(out, item.Ref{Group: ref.GetGroup(), Resource: ref.GetResource(), Namespace: ref.GetNamespace(), Name: ref.GetName()})
	}
	return out, nil
}

func toResourceIdentifiers(refs []item.Ref) []*itempb.ResourceIdentifier {
	var out []*itempb.ResourceIdentifier
	for _, ref := range refs {
		out = append(out, &itempb.ResourceIdentifier{Group: ref.Group, Resource: ref.Resource, Namespace: ref.Namespace, Name: ref.Name})
	}
	return out
}

func toItemProgress(in *itempb.OperationProgress) item.Progress {
	out := item.Progress{
		Completed: in.GetCompleted(), Err: in.GetErr(), NCompleted: in.GetNCompleted(), NTotal: in.GetNTotal(),
		OperationUnits: in.GetOperationUnits(), Description: in.GetDescription(),
	}
	if t := in.GetStarted(); t.IsValid() {
		out.Started = t.AsTime()
	}
	if t := in.GetUpdated(); t.IsValid() {
		out.Updated = t.AsTime()
	}
	return out
}

// toVeleroItemProgress translates a message without a field for captured data: an operation that
// reports progress has captured its data. Velero's plugins for snapshots take them before they
// start the operation.
func toVeleroItemProgress(in *itempb.OperationProgress) item.Progress {
	out := toItemProgress(in)
	out.DataCaptured = out.NCompleted > 0 || out.NTotal > 0 || out.Started.Year() > 1970 // some send 1970 for a time that is not set
	return out
}

// asyncProgress is a response with the fields that only Grapnel's messages have.
type asyncProgress interface {
	GetProgress() *itempb.OperationProgress
	GetCancelled() bool
	GetDataCaptured() bool
}

// toAsyncItemProgress translates a message of Grapnel. An operation that is still running is not
// canceled yet.
func toAsyncItemProgress(in asyncProgress) item.Progress {
	out := toItemProgress(in.GetProgress())
	out.Cancelled, out.DataCaptured = in.GetCancelled() && out.Completed, in.GetDataCaptured()
	return out
}

// toNonNegativeDuration translates a duration, or returns a *ContractError if it is invalid or
// negative. Zero means none. said is the purpose of the duration in the error: "wait for".
func toNonNegativeDuration(said string, in *durationpb.Duration) (time.Duration, error) {
	if in == nil {
		return 0, nil
	}
	d := in.AsDuration()
	if in.CheckValid() != nil || d < 0 {
		return 0, &ContractError{Message: fmt.Sprintf(
			"answered \"%s %s\", which is not part of the contract: zero or more is allowed", said, d)}
	}
	return d, nil
}
