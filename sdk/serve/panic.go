// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	gproto "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/grapnel-dev/grapnel/sdk/proto"
	veleropb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/velero/v1"
)

// maxFrames limits the detail of a status: the first frames show the location of the panic.
const maxFrames = 16

// panicError is a recovered panic with its stack.
type panicError struct {
	value any
	// stack is for the log, frames are for the host.
	stack  []byte
	frames *veleropb.Stack
}

// newPanicError is called by the deferred function that recovered value.
func newPanicError(value any) *panicError {
	return &panicError{value: value, stack: debug.Stack(), frames: capturePanicFrames()}
}

// Error returns the message for the host.
func (p *panicError) Error() string {
	return proto.PanicPrefix + fmt.Sprint(p.value)
}

// toStatusError returns the status for p, with the location of the panic as a detail.
func (p *panicError) toStatusError(text string) error {
	answer := status.New(codes.Aborted, text).Proto()
	if detail, err := gproto.Marshal(p.frames); err == nil {
		// Not anypb.New: the message has a different name here than on the wire.
		answer.Details = append(answer.Details, &anypb.Any{TypeUrl: proto.StackType, Value: detail})
	}
	return status.ErrorProto(answer)
}

// capturePanicFrames returns the frames of the panic that is being recovered: those above
// the runtime's own frames.
func capturePanicFrames() *veleropb.Stack {
	counters := make([]uintptr, 64)
	frames := runtime.CallersFrames(counters[:runtime.Callers(1, counters)])
	stack := &veleropb.Stack{}
	for more := true; more && len(stack.GetFrames()) < maxFrames; {
		var frame runtime.Frame
		frame, more = frames.Next()
		if strings.HasPrefix(frame.Function, "runtime.") {
			if frame.Function == "runtime.gopanic" {
				// The frames before that belong to the recovery.
				stack.Frames = nil
			}
			continue
		}
		stack.Frames = append(stack.Frames, &veleropb.StackFrame{
			File: frame.File, Line: int32(frame.Line), Function: frame.Function, //nolint:gosec // no file has that many lines
		})
	}
	return stack
}
