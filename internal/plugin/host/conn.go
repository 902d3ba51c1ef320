// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	protobuf "google.golang.org/protobuf/proto"

	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/internal/text"
	"github.com/grapnel-dev/grapnel/internal/tracing"
	"github.com/grapnel-dev/grapnel/sdk/proto"
	velerov1 "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/velero/v1"
)

// callConn is a connection to a child that distinguishes statuses of the child from
// failures of the connection. gRPC uses one code for both: a plugin that passes on
// Unavailable from another service would look as if it had ended.
type callConn struct {
	grpc.ClientConnInterface
	// used is true after a call began.
	used atomic.Bool
}

func newCallConn(inner grpc.ClientConnInterface) *callConn {
	return &callConn{ClientConnInterface: inner}
}

// Invoke makes a call.
func (c *callConn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	c.used.Store(true)
	ctx, answered := withAnswerMark(withTraceparent(ctx))
	return maskUnavailable(c.ClientConnInterface.Invoke(ctx, method, args, reply, opts...), answered)
}

// NewStream starts a streaming call.
func (c *callConn) NewStream(
	ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	c.used.Store(true)
	ctx, answered := withAnswerMark(withTraceparent(ctx))
	inner, err := c.ClientConnInterface.NewStream(ctx, desc, method, opts...)
	if err != nil {
		return nil, maskUnavailable(err, answered)
	}
	return &callStream{ClientStream: inner, answered: answered}, nil
}

// callStream does for a stream what callConn does for a call.
type callStream struct {
	grpc.ClientStream
	answered *atomic.Bool
}

// RecvMsg receives a message, or the status of the call.
func (s *callStream) RecvMsg(m any) error {
	return maskUnavailable(s.ClientStream.RecvMsg(m), s.answered)
}

// maskUnavailable replaces the code Unavailable in a status that the child sent.
func maskUnavailable(err error, answered *atomic.Bool) error {
	if !isConnectionLost(err) || !answered.Load() {
		return err
	}
	own := status.Convert(err).Proto()
	own.Code = int32(codes.Unknown)
	return status.ErrorProto(own)
}

// answeredKey is the context key of the mark of a call.
type answeredKey struct{}

func withAnswerMark(ctx context.Context) (context.Context, *atomic.Bool) {
	answered := new(atomic.Bool)
	return context.WithValue(ctx, answeredKey{}, answered), answered
}

// withTraceparent returns the context of a call that passes on the trace that it is part of.
func withTraceparent(ctx context.Context) context.Context {
	if traceparent := tracing.Traceparent(ctx); traceparent != "" {
		return metadata.AppendToOutgoingContext(ctx, tracing.Header, traceparent)
	}
	return ctx
}

// answerMarker marks the calls that the other side has ended with a status: a broken
// connection has none.
type answerMarker struct{}

var _ stats.Handler = answerMarker{}

// TagRPC does nothing.
func (answerMarker) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC records the end of a call.
func (answerMarker) HandleRPC(ctx context.Context, event stats.RPCStats) {
	if _, ok := event.(*stats.InTrailer); !ok {
		return
	}
	if answered, ok := ctx.Value(answeredKey{}).(*atomic.Bool); ok {
		answered.Store(true)
	}
}

// TagConn does nothing.
func (answerMarker) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn does nothing.
func (answerMarker) HandleConn(context.Context, stats.ConnStats) {}

// errorOrigin returns where in the plugin an error was created, if the plugin reports it:
// Velero's framework adds that to its errors. It is for logs, never for a status.
func errorOrigin(err error, redactor *redact.Redactor) (string, bool) {
	for _, detail := range status.Convert(err).Proto().GetDetails() {
		if detail.GetTypeUrl() != proto.StackType {
			continue
		}
		var stack velerov1.Stack
		// Our type has a different name than the type on the wire, and the same fields.
		if err := protobuf.Unmarshal(detail.GetValue(), &stack); err != nil || len(stack.GetFrames()) == 0 {
			return "", false
		}
		frame := innermostFrame(stack.GetFrames())
		return text.Truncate(SanitizeLine(redactor.String(fmt.Sprintf("%s:%d %s", frame.GetFile(), frame.GetLine(), frame.GetFunction()))), maxOriginBytes), true
	}
	return "", false
}

// innermostFrame returns the frame in which an error was created or a panic began. Velero's
// framework lists that frame first or, since it uses another package for errors, last.
// frames has at least one frame.
func innermostFrame(frames []*velerov1.StackFrame) *velerov1.StackFrame {
	if strings.HasSuffix(frames[0].GetFunction(), "goexit") {
		frames = slices.Clone(frames)
		slices.Reverse(frames)
	}
	panicking := slices.IndexFunc(frames, func(f *velerov1.StackFrame) bool { return strings.HasSuffix(f.GetFunction(), "gopanic") })
	if panicking < 0 {
		return frames[0]
	}
	for _, frame := range frames[panicking:] {
		if !strings.Contains("/"+frame.GetFile(), "/runtime/") {
			return frame
		}
	}
	return frames[0]
}

// maxOriginBytes is the largest length of an origin.
const maxOriginBytes = 512
