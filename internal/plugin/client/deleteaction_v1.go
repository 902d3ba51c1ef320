// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"

	"google.golang.org/grpc"
	protobuf "google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/grapnel-dev/grapnel/internal/executor"
	deletev1 "github.com/grapnel-dev/grapnel/sdk/deleteaction/v1"
	"github.com/grapnel-dev/grapnel/sdk/proto"
	deletepb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/deleteaction/v1"
)

// deleteActionV1 calls version 1 of DeleteAction.
type deleteActionV1 struct{}

var _ DeleteAction = deleteActionV1{}

// AppliesTo requests the selector.
func (deleteActionV1) AppliesTo(ctx context.Context, call ItemCall) (labels.Selector, error) {
	request := &deletepb.AppliesToRequest{
		Plugin: call.Action, IdempotencyKey: call.Key, Parameters: call.Parameters, CallId: call.CallID,
	}
	response, err := deletepb.NewDeleteActionClient(call.Conn).AppliesTo(ctx, request, callOptions()...)
	if err != nil {
		return nil, explainSizeError(err, protobuf.Size(request), proto.MaxResponseBytes)
	}
	selector, err := deletev1.Selector{LabelSelector: response.GetSelector()}.Parse()
	if err != nil {
		return nil, &ContractError{Message: "answered with an invalid selector: " + err.Error()}
	}
	return selector, nil
}

// Execute makes one attempt.
func (deleteActionV1) Execute(ctx context.Context, conn grpc.ClientConnInterface, callID string, call executor.Call) error {
	request := &deletepb.ExecuteRequest{
		Plugin: call.Action, IdempotencyKey: call.Key, Attempt: call.Attempt, Backup: call.Subject,
		Parameters: call.Parameters, BackupOutputs: toHookOutputsV1(call.BackupOutputs), CallId: callID,
	}
	_, err := deletepb.NewDeleteActionClient(conn).Execute(ctx, request, callOptions()...)
	if err != nil {
		return explainSizeError(err, protobuf.Size(request), proto.MaxResponseBytes)
	}
	return nil
}

// executeAsHook is Execute in the form that executors call: an action that did not fail is
// done.
func (a deleteActionV1) executeAsHook(ctx context.Context, conn grpc.ClientConnInterface, callID string, call executor.Call) (executor.Answer, error) {
	return executor.Answer{}, a.Execute(ctx, conn, callID, call)
}
