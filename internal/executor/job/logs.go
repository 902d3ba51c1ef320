// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/kube/request"
	"github.com/grapnel-dev/grapnel/internal/redact"
)

// Logs reads the logs of containers.
type Logs interface {
	// PodLogs returns the log of a container from its beginning; each line begins with
	// its time (RFC 3339 with nanoseconds) and a space, as Kubernetes puts it there when
	// it is asked for timestamps. With follow it goes on until the container ends. It
	// ends with ctx.
	PodLogs(ctx context.Context, namespace, pod, container string, follow bool) (io.ReadCloser, error)
}

// NewLogs returns Logs that ask the API server.
func NewLogs(pods typedcorev1.PodsGetter) Logs { return &apiLogs{pods: pods} }

type apiLogs struct{ pods typedcorev1.PodsGetter }

// PodLogs is documented at Logs.
func (l *apiLogs) PodLogs(ctx context.Context, namespace, pod, container string, follow bool) (io.ReadCloser, error) {
	options := &corev1.PodLogOptions{Container: container, Follow: follow, Timestamps: true}
	stream, err := l.pods.Pods(namespace).GetLogs(pod, options).Stream(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the log of pod %s: %w", pod, err)
	}
	return stream, nil
}

const (
	// MaxLogBytes is how much of a container's log is taken into the run's.
	MaxLogBytes = 1 << 20
	// lineBuffer is what is looked at of one line, more than is logged of it.
	lineBuffer = 8 << 10
	// logGrace is how long the rest of a log is waited for once the container ended.
	logGrace = 10 * time.Second
	// maxLogPause is the longest pause before a log is read again that its node broke off.
	maxLogPause = time.Minute
)

// follower takes the log of a container into a logger, until the container ended or
// the log is too long.
type follower struct {
	open func(ctx context.Context) (io.ReadCloser, error)
	log  logr.Logger
	// stream redacts lines, redactor other texts.
	stream   *redact.Stream
	redactor *redact.Redactor

	cancel context.CancelFunc
	ended  chan struct{}
	done   chan struct{}

	// The rest belongs to the goroutine until done is closed.

	// left is how many bytes are still taken.
	left int
	// at is the time of the last line, and same how many lines of that time there were:
	// what a stream that begins anew repeats.
	at   time.Time
	same int
	// untimed is the last line without a time, which the node wrote and not the container: why it
	// cannot follow the log. brokenOff says that the last stream ended with one.
	untimed   string
	brokenOff bool
	// last is the last line, redacted.
	last string
}

// follow starts to take the log. Finish has to be called.
func follow(
	ctx context.Context, log logr.Logger, redactor *redact.Redactor, open func(context.Context) (io.ReadCloser, error),
) *follower {
	ctx, cancel := context.WithCancel(ctx)
	f := &follower{
		open: open, log: log, stream: redactor.NewStream(), redactor: redactor, left: MaxLogBytes,
		cancel: cancel, ended: make(chan struct{}), done: make(chan struct{}),
	}
	go func() {
		defer close(f.done)
		f.run(ctx)
	}()
	return f
}

// finish takes what is left of the log of a container that ended, or nothing more if
// ctx is done, and returns its last line. Nothing is logged any more then. A nil
// follower has no log.
func (f *follower) finish(ctx context.Context) string {
	if f == nil {
		return ""
	}
	defer f.cancel()
	close(f.ended)
	ctx, cancel := context.WithTimeout(ctx, logGrace)
	defer cancel()
	select {
	case <-f.done:
	case <-ctx.Done():
		f.cancel()
		<-f.done
	}
	return f.last
}

var errFull = errors.New("the log is too long")

// run reads the log until it has seen its end, again from the beginning whenever the
// stream breaks.
func (f *follower) run(ctx context.Context) {
	for failures := 1; ; failures = min(failures+1, maxFailures) {
		before, beforeSame, final := f.at, f.same, f.over()
		err := f.read(ctx)
		if !f.brokenOff && (f.at != before || f.same != beforeSame) {
			failures = 1
		}
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errFull):
			f.log.Info(fmt.Sprintf("The log of the container is longer than %d bytes; the rest is left out", MaxLogBytes))
			return
		case err != nil && hopeless(err):
			f.log.Info("The log of the container cannot be read", "error", executor.OneLine(f.redactor.String(err.Error())))
			return
		}
		if !f.again(ctx, err, failures, final) {
			return
		}
	}
}

// over says whether the container ended.
func (f *follower) over() bool {
	select {
	case <-f.ended:
		return true
	default:
		return false
	}
}

// again waits until the log is to be read again after err. It says false if there is
// no more of it: its stream ended, and so did the container. Final says that the stream began
// after that.
func (f *follower) again(ctx context.Context, err error, failures int, final bool) bool {
	if err != nil {
		return request.Sleep(ctx, request.Delay(failures)) == nil
	}
	delay := max(request.Delay(failures), time.Second)
	if f.brokenOff {
		// Each time all of the log is read, and its node is the one in need.
		delay = min(time.Second<<(failures-1), maxLogPause)
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-f.ended:
		return f.brokenOff && !final
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// hopeless says whether the API server will not give the log at a later time either.
func hopeless(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsUnauthorized(err)
}

// read takes one stream to its end; nil means that it ended as it should.
func (f *follower) read(ctx context.Context) error {
	f.brokenOff = false
	stream, err := f.open(ctx)
	if err != nil {
		return err
	}
	// Whoever made the stream may not look at ctx.
	stop := context.AfterFunc(ctx, func() { _ = stream.Close() })
	defer func() {
		if stop() {
			_ = stream.Close()
		}
	}()
	lines := bufio.NewReaderSize(stream, lineBuffer)
	before := repeated{until: f.at, same: f.same}
	for {
		text, size, err := readLine(lines)
		whole := err == nil || errors.Is(err, io.EOF)
		if whole && size > 0 && !f.line(text, size, &before) {
			return errFull
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the log: %w", err)
		}
	}
}

// line takes a line of that size that was not taken before. It says false if there is no room
// for more.
func (f *follower) line(text string, size int, before *repeated) bool {
	at, line := split(text)
	if f.brokenOff = at.IsZero(); f.brokenOff {
		if line == f.untimed {
			return true
		}
		f.untimed = line
	} else if before.has(at) {
		return true
	}
	f.take(at, line)
	f.left -= size
	return f.left > 0
}

// readLine returns the beginning of the next line and the size of all of it, as far as
// it matters. The last line of a stream may come with io.EOF.
func readLine(lines *bufio.Reader) (line string, size int, err error) {
	for {
		chunk, err := lines.ReadSlice('\n')
		if size == 0 {
			line = string(chunk)
		}
		size += len(chunk)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, size, err
		}
		if size > MaxLogBytes {
			return line, size, nil
		}
	}
}

// split takes the time from the beginning of a line; it is zero if there is none.
func split(text string) (at time.Time, line string) {
	stamp, line, _ := strings.Cut(text, " ")
	if at, err := time.Parse(time.RFC3339Nano, stamp); err == nil {
		return at, line
	}
	return time.Time{}, text
}

// repeated says which lines of a stream were in one before it.
type repeated struct {
	until time.Time
	same  int
}

func (r *repeated) has(at time.Time) bool {
	switch {
	case at.After(r.until):
		return false
	case at.Before(r.until):
		return true
	}
	r.same--
	return r.same >= 0
}

// take logs a line.
func (f *follower) take(at time.Time, line string) {
	switch {
	case at.IsZero():
	case at.Equal(f.at):
		f.same++
	default:
		f.at, f.same = at, 1
	}
	line, show := f.stream.Line(line)
	if line = executor.OneLine(line); show && line != "" {
		if !at.IsZero() || f.at.IsZero() {
			f.last = line // what the container says goes before what its node does
		}
		f.log.Info(line)
	}
}
