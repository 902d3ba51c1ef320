// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/grapnel-dev/grapnel/internal/testing/csi/driverdir"
)

// intercept logs each call, limits how many work at once, and applies the faults.
func (d *driver) intercept(
	ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler,
) (any, error) {
	method := path.Base(info.FullMethod)
	if d.slots != nil && (strings.HasPrefix(method, "Create") || strings.HasPrefix(method, "Delete")) {
		select {
		case d.slots <- struct{}{}:
			defer func() { <-d.slots }()
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		}
	}
	call := driverdir.Call{ID: d.calls.nextID(), Method: method, Subject: subjectOf(request), Begin: time.Now()}
	if err := d.calls.write(call); err != nil {
		return nil, err
	}
	response, err := d.handleWithFault(ctx, method, func() (any, error) { return handle(ctx, request) })
	call.End, call.Code = time.Now(), status.Code(err).String()
	if err != nil {
		call.Message = status.Convert(err).Message()
	}
	if logErr := d.calls.write(call); logErr != nil {
		return nil, logErr
	}
	return response, err
}

func (d *driver) handleWithFault(ctx context.Context, method string, handle func() (any, error)) (any, error) {
	faults, err := d.dir.LoadFaults()
	if err != nil {
		return nil, err
	}
	fault := faults.Calls[method]
	if !fault.AfterWork {
		if err := d.applyFault(ctx, method, fault); err != nil {
			return nil, err
		}
	}
	response, err := handle()
	if err == nil && fault.AfterWork {
		err = d.applyFault(ctx, method, fault)
	}
	if err != nil {
		return nil, err
	}
	return response, nil
}

func (d *driver) applyFault(ctx context.Context, method string, fault driverdir.Fault) error {
	for fault.Hang {
		if err := waitFor(ctx, 20*time.Millisecond); err != nil {
			return err
		}
		faults, err := d.dir.LoadFaults()
		if err != nil {
			return err
		}
		fault = faults.Calls[method]
	}
	if fault.Code != codes.OK {
		return status.Error(fault.Code, "the test wants this call to fail")
	}
	return nil
}

// waitFor waits for a duration, or for the end of the context, which is an error of gRPC.
func waitFor(ctx context.Context, duration time.Duration) error {
	if duration <= 0 {
		return nil
	}
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}

// subjectOf returns the name in a request, or else the ID of what it is about.
func subjectOf(request any) string {
	var subject string
	switch r := request.(type) {
	case interface{ GetName() string }:
		subject = r.GetName()
	case interface{ GetGroupSnapshotId() string }:
		subject = r.GetGroupSnapshotId()
	case interface{ GetSnapshotId() string }:
		subject = r.GetSnapshotId()
	case interface{ GetVolumeId() string }:
		subject = r.GetVolumeId()
	}
	return subject
}

// callLog appends to the log of calls. It is safe for concurrent use.
type callLog struct {
	file *os.File
	// start makes IDs unique among processes that used the same directory.
	start  int64
	number atomic.Int64
}

func openCallLog(dir driverdir.Dir) (*callLog, error) {
	file, err := os.OpenFile(dir.CallsPath(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the log of calls: %w", err)
	}
	// A process that was killed may have left half a line, which would damage the next one.
	content, err := os.ReadFile(dir.CallsPath())
	if err == nil {
		err = file.Truncate(int64(strings.LastIndex(string(content), "\n") + 1))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("repairing the log of calls: %w", err), file.Close())
	}
	return &callLog{file: file, start: time.Now().UnixNano()}, nil
}

func (l *callLog) nextID() string {
	return strconv.FormatInt(l.start, 36) + "-" + strconv.FormatInt(l.number.Add(1), 10)
}

// write appends a line in one write, which for a file opened to append is atomic.
func (l *callLog) write(call driverdir.Call) error {
	line, err := json.Marshal(call)
	if err == nil {
		_, err = l.file.Write(append(line, '\n'))
	}
	if err != nil {
		return fmt.Errorf("logging a call: %w", err)
	}
	return nil
}

// Close closes the log.
func (l *callLog) Close() error {
	return l.file.Close()
}
