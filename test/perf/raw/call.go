// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package raw

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/grapnel-dev/grapnel/test/perf/cpu"
)

// CallRequest says which calls are made.
type CallRequest struct {
	// Calls are made by Workers at a time, with Bytes there and back.
	Calls, Workers, Bytes int
	// PerSecond is how many begin in a second, evenly; 0 means as many as can be made.
	PerSecond float64
}

// CallTimes is how long calls take.
type CallTimes struct {
	// Seconds from the first to the last of all calls.
	Seconds float64
	// Cores is the processor time of the process that made the calls, by Seconds.
	Cores float64
}

// Echo answers every gRPC call at a unix socket with what it got, until ctx is done.
func Echo(ctx context.Context, socket string) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", socket)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	server := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		message := &wrapperspb.BytesValue{}
		if err := stream.RecvMsg(message); err != nil {
			return err
		}
		return stream.SendMsg(message)
	}))
	defer context.AfterFunc(ctx, server.Stop)()
	return server.Serve(listener)
}

// Calls makes gRPC calls to another process, program run as "echo SOCKET": what no call
// to a plugin can be faster than.
func Calls(ctx context.Context, program string, request CallRequest) (times CallTimes, err error) {
	dir, err := os.MkdirTemp("", "grapnel-bench")
	if err != nil {
		return times, fmt.Errorf("creating a directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	socket := filepath.Join(dir, "echo")
	ctx, cancel := context.WithCancel(ctx)
	echo := exec.CommandContext(ctx, program, "echo", socket)
	echo.Stderr = os.Stderr
	if err := echo.Start(); err != nil {
		cancel()
		return times, fmt.Errorf("starting the echo: %w", err)
	}
	defer func() {
		cancel()
		_ = echo.Wait() // it was killed
	}()
	return callAll(ctx, socket, request)
}

// callAll makes calls to an echo that is there or comes soon.
func callAll(ctx context.Context, socket string, request CallRequest) (times CallTimes, err error) {
	conn, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return times, fmt.Errorf("connecting to the echo: %w", err)
	}
	defer func() { _ = conn.Close() }()
	if err := call(ctx, conn, request.Bytes, grpc.WaitForReady(true)); err != nil {
		return times, err
	}
	own := cpu.Process(0)
	before, err := own.Time()
	if err != nil {
		return times, err
	}
	start := time.Now()
	group, groupCtx := errgroup.WithContext(ctx)
	for worker := range request.Workers {
		group.Go(func() error { return request.work(groupCtx, conn, worker, start) })
	}
	err = group.Wait()
	times.Seconds = time.Since(start).Seconds()
	after, cpuErr := own.Time()
	times.Cores = (after - before).Seconds() / times.Seconds
	return times, errors.Join(err, cpuErr)
}

// work makes the calls of one worker.
func (r CallRequest) work(ctx context.Context, conn *grpc.ClientConn, worker int, start time.Time) error {
	for i := range (r.Calls + worker) / r.Workers {
		if err := r.await(ctx, start, i*r.Workers+worker); err != nil {
			return err
		}
		if err := call(ctx, conn, r.Bytes); err != nil {
			return err
		}
	}
	return nil
}

// await waits until it is time for the call of a number.
func (r CallRequest) await(ctx context.Context, start time.Time, number int) error {
	if r.PerSecond <= 0 {
		return nil
	}
	due := start.Add(time.Duration(float64(number) / r.PerSecond * float64(time.Second)))
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// call makes one call.
func call(ctx context.Context, conn *grpc.ClientConn, size int, opts ...grpc.CallOption) error {
	in, out := wrapperspb.Bytes(make([]byte, size)), &wrapperspb.BytesValue{}
	if err := conn.Invoke(ctx, "/bench.Echo/Echo", in, out, opts...); err != nil {
		return fmt.Errorf("calling the echo: %w", err)
	}
	if len(out.Value) != size {
		return fmt.Errorf("the echo answered %d bytes, not %d", len(out.Value), size)
	}
	return nil
}
