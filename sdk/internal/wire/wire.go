// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package wire converts between the types that authors see (package hook) and the messages
// on the wire. The host does not use it: it has its own types.
package wire

import (
	"fmt"
	"maps"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/grapnel-dev/grapnel/sdk"
	"github.com/grapnel-dev/grapnel/sdk/hook"
	hookpb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/hook/v1"
)

// maxRetryAfter is the longest delay that the operator accepts.
const maxRetryAfter = 24 * time.Hour

// RequestFrom returns the request that an action of a kind gets. For a kind of a Restore it
// also has the outputs and the name of the backup.
func RequestFrom(kind sdk.Kind, in *hookpb.ExecuteRequest) (*hook.Request, error) {
	out := &hook.Request{
		Action: in.GetPlugin(), IdempotencyKey: in.GetIdempotencyKey(), Attempt: in.GetAttempt(),
		Parameters: map[string]string{}, Outputs: outputsFrom(in.GetOutputs()), BackupOutputs: map[string]map[string]string{},
	}
	maps.Copy(out.Parameters, in.GetParameters())
	var err error
	if isRestoreKind(kind) {
		out.Restore, err = restoreFrom(in)
		out.BackupOutputs = outputsFrom(in.GetBackupOutputs())
	} else {
		out.Backup, err = hook.ParseBackup(in.GetSubject())
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// restoreFrom returns the subject. If the object names a schedule, only the host knows the
// backup.
func restoreFrom(in *hookpb.ExecuteRequest) (hook.Restore, error) {
	restore, err := hook.ParseRestore(in.GetSubject())
	if name := in.GetBackupName(); name != "" {
		restore.BackupName = name
	}
	return restore, err
}

// RequestTo is the reverse of RequestFrom.
func RequestTo(kind sdk.Kind, in *hook.Request, callID string) *hookpb.ExecuteRequest {
	out := &hookpb.ExecuteRequest{
		Plugin: in.Action, IdempotencyKey: in.IdempotencyKey, Attempt: in.Attempt,
		Subject: in.Backup.Raw, Parameters: in.Parameters, Outputs: outputsTo(in.Outputs), CallId: callID,
	}
	if isRestoreKind(kind) {
		out.Subject, out.BackupName, out.BackupOutputs = in.Restore.Raw, in.Restore.BackupName, outputsTo(in.BackupOutputs)
	}
	return out
}

// isRestoreKind reports whether the subject of a kind is a Restore.
func isRestoreKind(kind sdk.Kind) bool {
	return kind == sdk.KindPreRestoreAction || kind == sdk.KindPostRestoreAction
}

func outputsFrom(in map[string]*hookpb.Outputs) map[string]map[string]string {
	out := make(map[string]map[string]string, len(in))
	for name, values := range in {
		out[name] = values.GetValues()
	}
	return out
}

func outputsTo(in map[string]map[string]string) map[string]*hookpb.Outputs {
	out := make(map[string]*hookpb.Outputs, len(in))
	for name, values := range in {
		out[name] = &hookpb.Outputs{Values: values}
	}
	return out
}

// ResponseTo returns the message for an action's response; nil means done. It returns an
// error if the response violates the contract.
func ResponseTo(in *hook.Response) (*hookpb.ExecuteResponse, error) {
	if in == nil {
		in = hook.Done()
	}
	if err := hook.ValidateOutputs(in.Outputs); err != nil {
		return nil, fmt.Errorf("the action returned %w", err)
	}
	out := &hookpb.ExecuteResponse{
		Status: hookpb.ExecuteResponse_STATUS_DONE, Message: Cut(in.Message, hook.MaxMessageBytes), Outputs: in.Outputs,
	}
	switch {
	case in.Again < 0:
		return nil, fmt.Errorf("the action asked to be called again after %s, which is negative", in.Again)
	case in.Again > maxRetryAfter:
		return nil, fmt.Errorf("the action asked to be called again after %s, at most %s is allowed", in.Again, maxRetryAfter)
	case in.Again > 0:
		out.Status = hookpb.ExecuteResponse_STATUS_AGAIN
		out.CallAgainAfter = durationpb.New(in.Again)
	}
	return out, nil
}

// ResponseFrom is the reverse of ResponseTo.
func ResponseFrom(in *hookpb.ExecuteResponse) *hook.Response {
	return &hook.Response{
		Outputs: in.GetOutputs(), Again: in.GetCallAgainAfter().AsDuration(), Message: in.GetMessage(),
	}
}
