// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	protobuf "google.golang.org/protobuf/proto"

	"github.com/grapnel-dev/grapnel/internal/plugin/logline"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/sdk/proto"
	velerov1 "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/velero/v1"
)

// conn is a connection to a child that tells what the child said from what happened to
// the connection. gRPC uses one code for both: a plugin that hands on "unavailable",
// which it got from elsewhere, would look as if it were gone.
type conn struct {
	grpc.ClientConnInterface
	// used says that a call was begun.
	used atomic.Bool
}

func newConn(inner grpc.ClientConnInterface) *conn {
	return &conn{ClientConnInterface: inner}
}

// Invoke makes a call.
func (c *conn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	c.used.Store(true)
	ctx, answered := expectAnswer(ctx)
	return ownStatus(c.ClientConnInterface.Invoke(ctx, method, args, reply, opts...), answered)
}

// NewStream begins a call with a stream.
func (c *conn) NewStream(
	ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	c.used.Store(true)
	ctx, answered := expectAnswer(ctx)
	inner, err := c.ClientConnInterface.NewStream(ctx, desc, method, opts...)
	if err != nil {
		return nil, ownStatus(err, answered)
	}
	return &stream{ClientStream: inner, answered: answered}, nil
}

// stream does for a stream what conn does for a call.
type stream struct {
	grpc.ClientStream
	answered *atomic.Bool
}

// RecvMsg receives a message, or the status of the call.
func (s *stream) RecvMsg(m any) error {
	return ownStatus(s.ClientStream.RecvMsg(m), s.answered)
}

// ownStatus takes the code Unavailable from a status that the child sent.
func ownStatus(err error, answered *atomic.Bool) error {
	if !isBroken(err) || !answered.Load() {
		return err
	}
	own := status.Convert(err).Proto()
	own.Code = int32(codes.Unknown)
	return status.ErrorProto(own)
}

// answeredKey is the key of the mark of a call in its context.
type answeredKey struct{}

func expectAnswer(ctx context.Context) (context.Context, *atomic.Bool) {
	answered := new(atomic.Bool)
	return context.WithValue(ctx, answeredKey{}, answered), answered
}

// answers marks the calls that the other side has ended with a status: a connection
// that breaks has none.
type answers struct{}

var _ stats.Handler = answers{}

// TagRPC does nothing.
func (answers) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC notes the end of a call.
func (answers) HandleRPC(ctx context.Context, event stats.RPCStats) {
	if _, ok := event.(*stats.InTrailer); !ok {
		return
	}
	if answered, ok := ctx.Value(answeredKey{}).(*atomic.Bool); ok {
		answered.Store(true)
	}
}

// TagConn does nothing.
func (answers) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn does nothing.
func (answers) HandleConn(context.Context, stats.ConnStats) {}

// origin returns where in the plugin an error was made, if the plugin says so: Velero's
// framework adds that to its errors. It is for a log, never for a status.
func origin(err error, redactor *redact.Redactor) (string, bool) {
	for _, detail := range status.Convert(err).Proto().GetDetails() {
		if detail.GetTypeUrl() != proto.StackType {
			continue
		}
		var stack velerov1.Stack
		// Our type has another name than the one on the wire, and the same fields.
		if err := protobuf.Unmarshal(detail.GetValue(), &stack); err != nil || len(stack.GetFrames()) == 0 {
			return "", false
		}
		frame := innermost(stack.GetFrames())
		return shorten(logline.Clean(redactor.String(fmt.Sprintf("%s:%d %s", frame.GetFile(), frame.GetLine(), frame.GetFunction()))), maxOrigin), true
	}
	return "", false
}

// innermost returns the frame in which an error was made, or in which a panic began.
// Velero's framework lists that frame first, and since it makes its errors with another
// package, last. frames has one frame at least.
func innermost(frames []*velerov1.StackFrame) *velerov1.StackFrame {
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

// maxOrigin is the largest length of an origin.
const maxOrigin = 512
