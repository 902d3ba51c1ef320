// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/grapnel-dev/grapnel/sdk"
	"github.com/grapnel-dev/grapnel/sdk/hook"
	"github.com/grapnel-dev/grapnel/sdk/proto"
	deletepb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/deleteaction/v1"
	hookpb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/hook/v1"
)

// interceptUnary records the call and commits the faults that the SDK prevents in an
// action; the action commits the others.
func (r *recorder) interceptUnary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	in, ok := req.(executeRequest)
	if !ok {
		return handler(ctx, req)
	}
	point := pointFromMethod(info.FullMethod)
	count := r.recordExecuteCall(ctx, point, in)
	if r.shouldKillAt(point, count) && r.killBefore {
		killParentProcess()
	}
	fault := r.faultForCall(point, in)
	resp, err := responseForFault(req, fault)
	if resp != nil || err != nil {
		// The SDK, which is bypassed, would mark the end of the log of the call here.
		fmt.Fprintf(r.stderr, "{%q:%q}\n", proto.FieldEnd, in.GetCallId())
	} else {
		setFaultParameter(req, fault)
		resp, err = handler(ctx, req)
	}
	if r.shouldKillAt(point, count) {
		killParentProcess()
	}
	if err != nil {
		return nil, err
	}
	return resp, nil
}

// responseForFault returns a response instead of the action, or nil. A DeleteAction has no
// response that could be invalid.
func responseForFault(req any, fault string) (any, error) {
	resp, err := rawFaultResponse(fault)
	if _, ok := req.(*hookpb.ExecuteRequest); !ok || resp == nil {
		return nil, err
	}
	return resp, nil
}

// setFaultParameter sets the fault for the action.
func setFaultParameter(req any, fault string) {
	var parameters *map[string]string
	switch in := req.(type) {
	case *hookpb.ExecuteRequest:
		parameters = &in.Parameters
	case *deletepb.ExecuteRequest:
		parameters = &in.Parameters
	default:
		return
	}
	if *parameters == nil {
		*parameters = map[string]string{}
	}
	(*parameters)["fault"] = fault
}

// pointFromMethod returns "PreBackup" for "/grapnel.prebackupaction.v1.PreBackupAction/Execute".
func pointFromMethod(method string) string {
	service, _, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	return strings.TrimSuffix(service[strings.LastIndex(service, ".")+1:], "Action")
}

// rawFaultResponse returns a response instead of the action, or nil.
func rawFaultResponse(name string) (*hookpb.ExecuteResponse, error) {
	done := &hookpb.ExecuteResponse{Status: hookpb.ExecuteResponse_STATUS_DONE}
	switch name {
	case "status":
		done.Status = 7
	case "no-status":
		done.Status = hookpb.ExecuteResponse_STATUS_UNSPECIFIED
	case "again-without-time":
		done.Status = hookpb.ExecuteResponse_STATUS_AGAIN
	case "again-in-a-year":
		done.Status, done.CallAgainAfter = hookpb.ExecuteResponse_STATUS_AGAIN, durationpb.New(8760*time.Hour)
	case "huge-message":
		done.Message = strings.Repeat("m", 2<<20)
	case "huge-output":
		done.Outputs = map[string]string{"big": strings.Repeat("o", 9<<10)}
	case "many-outputs":
		done.Outputs = map[string]string{}
		for i := range 33 {
			done.Outputs[strconv.Itoa(i)] = "x"
		}
	case "resource-exhausted":
		return nil, status.Error(codes.ResourceExhausted, "out of everything")
	default:
		return nil, nil //nolint:nilnil // nothing to return
	}
	return done, nil
}

// action commits the faults that an action built with the SDK can commit.
type action struct {
	// stderr is the real standard error: go-plugin replaces it with another file.
	stderr *os.File
}

// Execute commits the fault in the parameter "fault".
func (a action) Execute(ctx context.Context, req *hook.Request) (*hook.Response, error) {
	fault, argument, _ := strings.Cut(req.Parameters["fault"], ":")
	switch fault {
	case "hang":
		blockForever()
	case "wait":
		<-ctx.Done()
		return nil, ctx.Err()
	case "late":
		// This responds after the deadline.
		<-ctx.Done()
		time.Sleep(100 * time.Millisecond)
		sdk.Logger(ctx).Info("late line of " + req.IdempotencyKey)
		return hook.Done(), nil
	case "sleep":
		d, err := time.ParseDuration(argument)
		if err != nil {
			return nil, err
		}
		time.Sleep(d)
	case "until":
		blockUntilFile(argument)
	case "panic":
		panic("something is nil, password=hunter2")
	case "error":
		return nil, errors.New("the database said no: postgres://bob:hunter2@db/x\nsecond line")
	case "unavailable":
		return nil, status.Error(codes.Unavailable, "the database is unavailable")
	case "kill":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		blockForever()
	case "exit":
		os.Exit(4)
	case "again":
		return hook.Again(time.Millisecond, "waiting for token=abcdef123456"), nil
	case "outputs":
		return a.outputsResponse(req), nil
	case "environment":
		return hook.Done().WithOutput("env", strings.Join(os.Environ(), "\n")).WithOutput("args", strings.Join(os.Args[1:], " ")), nil
	default:
		return hook.Done(), a.writeFaultyLogs(ctx, fault, argument, req)
	}
	return hook.Done(), nil
}

// outputsResponse returns the request of the action as outputs.
func (a action) outputsResponse(req *hook.Request) *hook.Response {
	resp := hook.Done().WithOutput("from", req.IdempotencyKey).WithOutput("pre", req.Outputs[req.Action]["from"])
	if req.Restore.Raw != nil {
		resp.WithOutput("backup", req.Restore.BackupName).WithOutput("backup-pre", req.BackupOutputs[req.Action]["from"])
	}
	return resp
}

// writeFaultyLogs writes faulty log lines.
func (a action) writeFaultyLogs(ctx context.Context, fault, argument string, req *hook.Request) error {
	switch fault {
	case "", "none":
	case "log-secret":
		sdk.Logger(ctx).Info("Connecting with password=hunter2", "apiKey", "k-123456", "header", "Authorization: Bearer abcdef123456")
		fmt.Fprintln(a.stderr, "raw secret: "+os.Getenv("FAULT_TOKEN"))
		fmt.Println("printed password=hunter2")
		log.Println("-----BEGIN PRIVATE KEY-----")
		log.Println("MIIEvQIBADANBgkqhkiG9w0BAQEFAASC")
		log.Println("-----END PRIVATE KEY-----")
	case "log":
		// Tagged lines, each with the key, so that a wrong attribution is visible.
		lines, err := strconv.Atoi(argument)
		if err != nil {
			return err
		}
		for i := range lines {
			sdk.Logger(ctx).Info("line "+strconv.Itoa(i)+" of "+req.IdempotencyKey, "action", req.Action)
		}
	case "log-raw":
		fmt.Fprintln(a.stderr, "[WARN] untagged line of "+req.IdempotencyKey)
	case "log-control":
		fmt.Fprintln(a.stderr, "evil \x1b[31mred\x1b[0m \a\x00 bell")
	case "log-long":
		fmt.Fprintln(a.stderr, strings.Repeat("y", 200<<10))
		fmt.Fprintln(a.stderr, "after the long line")
	default:
		return fmt.Errorf("unknown fault %q", fault)
	}
	return nil
}
