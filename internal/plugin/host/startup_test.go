// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/grapnel-dev/grapnel/internal/plugin/plugintesting"
	"github.com/grapnel-dev/grapnel/sdk/hook"
	prebackupv1 "github.com/grapnel-dev/grapnel/sdk/prebackupaction/v1"
	"github.com/grapnel-dev/grapnel/sdk/proto"
	"github.com/grapnel-dev/grapnel/sdk/serve"
)

// serveIfAsked makes this program a plugin if it was started as one.
func serveIfAsked() {
	if os.Getenv(proto.HandshakeCookieKey) == "" {
		return
	}
	serve.New().RegisterPreBackupActionV1("test.example.io/nothing", func() (prebackupv1.PreBackupAction, error) {
		return nothing{}, nil
	}).Serve()
	os.Exit(0)
}

type nothing struct{}

func (nothing) Execute(context.Context, *hook.Request) (*hook.Response, error) {
	return hook.Done(), nil
}

// slow is a plugin that becomes ready only when the test allows it.
type slow struct {
	*Process
	// begun receives a value for every start. The start then waits for a value in verdicts,
	// or until it is ended, which is recorded in ended.
	begun    chan struct{}
	verdicts chan error
	ended    chan struct{}
	// looks counts how often the time was read, as every call without a child does.
	looks atomic.Int32
}

func newSlow(t *testing.T) *slow {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := &slow{begun: make(chan struct{}, 9), verdicts: make(chan error), ended: make(chan struct{}, 9)}
	spawner := NewSpawner()
	t.Cleanup(spawner.Close)
	now := func() time.Time {
		s.looks.Add(1)
		return time.Unix(0, 0) // no back-off ever expires
	}
	s.Process, err = NewProcess(Settings{Spawner: spawner, Now: now}, ProcessConfig{Name: "slow", Path: self, StartTimeout: time.Minute, Verify: s.verify})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(t.Context().Done()) })
	return s
}

func (s *slow) verify(ctx context.Context, _ grpc.ClientConnInterface) (Capabilities, error) {
	s.begun <- struct{}{}
	select {
	case err := <-s.verdicts:
		return Capabilities{}, err
	case <-ctx.Done():
		s.ended <- struct{}{}
		return Capabilities{}, ctx.Err()
	}
}

// call makes a call that returns immediately when there is a child.
func (s *slow) call(ctx context.Context) error {
	call, err := s.Begin(ctx, Call{})
	if err != nil {
		return err
	}
	return call.End(ctx, nil)
}

// callWhile makes a call that is canceled when during returns.
func (s *slow) callWhile(ctx context.Context, during func()) error {
	ctx, cancel := context.WithCancel(ctx)
	answer := make(chan error, 1)
	go func() { answer <- s.call(ctx) }()
	during()
	cancel()
	return <-answer
}

func TestProcess_StartOutlastsCalls(t *testing.T) {
	s := newSlow(t)
	if err := s.callWhile(t.Context(), func() { <-s.begun }); !errors.Is(err, context.Canceled) {
		t.Errorf("the call that began the start got %v, want Canceled", err)
	}
	short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	for range 3 {
		if err := s.call(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a short call got %v, want DeadlineExceeded", err)
		}
	}
	start := new(StartError)
	if err := s.EnsureReady(short); !errors.As(err, &start) || start.Reason != ReasonInterrupted {
		t.Errorf("a short Ensure got %v, want Interrupted", err)
	}
	select {
	case s.verdicts <- nil:
	case <-s.ended:
		t.Fatal("the start ended with the call that began it")
	}
	if err := s.call(t.Context()); err != nil {
		t.Errorf("a call after the start got %v", err)
	}
	if again := len(s.begun); again > 0 {
		t.Errorf("there were %d additional starts", again)
	}
}

// TestProcess_FailedStartIsShared checks that all calls that wait for a start get its error, and later
// calls get the back-off.
func TestProcess_FailedStartIsShared(t *testing.T) {
	s := newSlow(t)
	broken := &StartError{Reason: ReasonStartFailed, Message: "it is broken"}
	if err := s.callWhile(t.Context(), func() { <-s.begun }); !errors.Is(err, context.Canceled) {
		t.Errorf("the call that began the start got %v, want Canceled", err)
	}
	before := s.looks.Load()
	answers := make(chan error, 2)
	go func() { answers <- s.call(t.Context()) }()
	go func() { answers <- s.EnsureReady(t.Context()) }()
	plugintesting.Eventually(t, "both calls wait for the start", func() bool { return s.looks.Load() == before+2 })
	s.verdicts <- broken
	for range 2 {
		if err := <-answers; !errors.Is(err, broken) {
			t.Errorf("a call that waited for the start got %v, want %v", err, broken)
		}
	}
	start := new(StartError)
	if err := s.call(t.Context()); !errors.As(err, &start) || start.Reason != ReasonCrashLoop || !errors.Is(err, broken) {
		t.Errorf("the next call got %v, want CrashLoop", err)
	}
	go func() { answers <- s.EnsureReady(t.Context()) }()
	<-s.begun
	s.verdicts <- nil // for the start
	s.verdicts <- nil // for Ensure
	if err := <-answers; err != nil {
		t.Errorf("Ensure ignores the back-off, and got %v", err)
	}
}

// TestProcess_CloseDuringStart is not parallel: the test counts the children of this program.
func TestProcess_CloseDuringStart(t *testing.T) {
	for name, waits := range map[string]bool{"a call waits": true, "no call waits": false} {
		t.Run(name, func(t *testing.T) {
			s := newSlow(t)
			answer := make(chan error, 1)
			if waits {
				go func() { answer <- s.call(t.Context()) }()
				<-s.begun
			} else if err := s.callWhile(t.Context(), func() { <-s.begun }); !errors.Is(err, context.Canceled) {
				t.Errorf("error is %v, want Canceled", err)
			}
			s.Close(t.Context().Done())
			if left := plugintesting.ListChildren("/nowhere"); len(left) > 0 {
				t.Errorf("left are %q", left)
			}
			if waits {
				if err := <-answer; !errors.Is(err, ErrUnloaded) {
					t.Errorf("the waiting call got %v, want ErrClosed", err)
				}
			}
			if err := s.call(t.Context()); !errors.Is(err, ErrUnloaded) {
				t.Errorf("a call after Close got %v, want ErrClosed", err)
			}
		})
	}
}

// TestProcess_NoStartAfterContextEnded checks that a call whose ctx has already ended does not begin a
// start.
func TestProcess_NoStartAfterContextEnded(t *testing.T) {
	s := newSlow(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	errs := []error{s.call(ctx), s.EnsureReady(ctx)}
	if slices.ContainsFunc(errs, func(err error) bool { return !errors.Is(err, context.Canceled) }) {
		t.Errorf("errors are %v, want Canceled", errs)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.attempt != nil || s.currentSession != nil {
		t.Error("a child was started")
	}
}
