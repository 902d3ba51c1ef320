// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	protobuf "google.golang.org/protobuf/proto"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/sdk/hook"
	"github.com/grapnel-dev/grapnel/sdk/proto"
	hookpb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/hook/v1"
)

// ContractError means that a plugin returned a response that its interface does not allow.
type ContractError struct {
	// Message describes the response, without the name of the plugin.
	Message string
}

// Error returns the message.
func (e *ContractError) Error() string { return e.Message }

// callOptions limits the size of responses: go-plugin removes gRPC's limit.
func callOptions() []grpc.CallOption {
	return []grpc.CallOption{grpc.MaxCallRecvMsgSize(proto.MaxResponseBytes)}
}

// executeFuncV1 is the method Execute of a client of any kind that uses the messages of
// grapnel.hook.v1.
type executeFuncV1 func(context.Context, *hookpb.ExecuteRequest, ...grpc.CallOption) (*hookpb.ExecuteResponse, error)

// callHookV1 makes one call with the messages of grapnel.hook.v1.
func callHookV1(ctx context.Context, execute executeFuncV1, callID string, call executor.Call) (executor.Answer, error) {
	request := newHookRequestV1(call, callID)
	response, err := execute(ctx, request, callOptions()...)
	if err != nil {
		return executor.Answer{}, explainSizeError(err, protobuf.Size(request), proto.MaxResponseBytes)
	}
	return toHookAnswerV1(response)
}

// newHookRequestV1 returns the message of grapnel.hook.v1 for a call.
func newHookRequestV1(call executor.Call, callID string) *hookpb.ExecuteRequest {
	return &hookpb.ExecuteRequest{
		Plugin: call.Action, IdempotencyKey: call.Key, Attempt: call.Attempt, Subject: call.Subject,
		Parameters: call.Parameters, Outputs: toHookOutputsV1(call.Outputs), CallId: callID,
		BackupName: call.BackupName, BackupOutputs: toHookOutputsV1(call.BackupOutputs),
	}
}

func toHookOutputsV1(in map[string]map[string]string) map[string]*hookpb.Outputs {
	out := make(map[string]*hookpb.Outputs, len(in))
	for name, values := range in {
		out[name] = &hookpb.Outputs{Values: values}
	}
	return out
}

// toHookAnswerV1 validates a response of grapnel.hook.v1 and translates it.
func toHookAnswerV1(in *hookpb.ExecuteResponse) (executor.Answer, error) {
	answer := executor.Answer{Message: in.GetMessage()}
	switch in.GetStatus() {
	case hookpb.ExecuteResponse_STATUS_DONE:
	case hookpb.ExecuteResponse_STATUS_AGAIN:
		after := in.GetCallAgainAfter()
		if err := after.CheckValid(); err != nil {
			return executor.Answer{}, &ContractError{Message: "answered \"call again\" without a valid time, which is not part of the contract"}
		}
		if d := after.AsDuration(); d <= 0 || d > executor.MaxRetryAfter {
			return executor.Answer{}, &ContractError{Message: fmt.Sprintf(
				"answered \"call again after %s\", which is not part of the contract: more than 0s and at most %s is allowed", d, executor.MaxRetryAfter)}
		}
		answer.RetryAfter = max(after.AsDuration(), executor.MinRetryAfter)
		return answer, nil
	default:
		return executor.Answer{}, &ContractError{Message: fmt.Sprintf(
			"answered status %d, which is not part of the contract", int32(in.GetStatus()))}
	}
	if err := hook.ValidateOutputs(in.GetOutputs()); err != nil {
		return executor.Answer{}, &ContractError{Message: "answered with invalid outputs: " + err.Error()}
	}
	answer.Outputs = in.GetOutputs()
	return answer, nil
}
