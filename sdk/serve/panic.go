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

// maxFrames keeps the detail of a status small: the first frames say where it was.
const maxFrames = 16

// panicError is a recovered panic with its stack.
type panicError struct {
	value any
	// stack is for the log, and frames are for the host.
	stack  []byte
	frames *veleropb.Stack
}

// newPanicError is called by the deferred function that recovered value.
func newPanicError(value any) *panicError {
	return &panicError{value: value, stack: debug.Stack(), frames: capturePanicFrames()}
}

// Error returns what the host is told.
func (p *panicError) Error() string {
	return proto.PanicPrefix + fmt.Sprint(p.value)
}

// toStatusError returns the status for p, with a detail that says where it was.
func (p *panicError) toStatusError(text string) error {
	answer := status.New(codes.Aborted, text).Proto()
	if detail, err := gproto.Marshal(p.frames); err == nil {
		// Not anypb.New: the message has another name here than on the wire.
		answer.Details = append(answer.Details, &anypb.Any{TypeUrl: proto.StackType, Value: detail})
	}
	return status.ErrorProto(answer)
}

// capturePanicFrames returns where the panic was that is being recovered from: what is above
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
				// What came before is how the panic was recovered from.
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
