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
	// lineBufferSize is what is looked at of one line, more than is logged of it.
	lineBufferSize = 8 << 10
	// logDrainTimeout is how long the rest of a log is waited for once the container ended.
	logDrainTimeout = 10 * time.Second
	// maxLogRetryDelay is the longest pause before a log is read again that its node broke off.
	maxLogRetryDelay = time.Minute
)

// logFollower takes the log of a container into a logger, until the container ended or
// the log is too long.
type logFollower struct {
	open func(ctx context.Context) (io.ReadCloser, error)
	log  logr.Logger
	// stream redacts lines, redactor other texts.
	stream   *redact.Stream
	redactor *redact.Redactor

	cancel         context.CancelFunc
	containerEnded chan struct{}
	done           chan struct{}

	// The rest belongs to the goroutine until done is closed.

	// remainingBytes is how many bytes are still taken.
	remainingBytes int
	// lastTime is the time of the last line, and same how many lines of that time there were:
	// what a stream that begins anew repeats.
	lastTime        time.Time
	linesAtLastTime int
	// lastUntimedLine is the last line without a time, which the node wrote and not the container: why it
	// cannot follow the log. endedUntimed says that the last stream ended with one.
	lastUntimedLine string
	endedUntimed    bool
	// lastLine is the last line, redacted.
	lastLine string
}

// startLogFollower starts to take the log. Finish has to be called.
func startLogFollower(
	ctx context.Context, log logr.Logger, redactor *redact.Redactor, open func(context.Context) (io.ReadCloser, error),
) *logFollower {
	ctx, cancel := context.WithCancel(ctx)
	f := &logFollower{
		open: open, log: log, stream: redactor.NewStream(), redactor: redactor, remainingBytes: MaxLogBytes,
		cancel: cancel, containerEnded: make(chan struct{}), done: make(chan struct{}),
	}
	go func() {
		defer close(f.done)
		f.readUntilEnd(ctx)
	}()
	return f
}

// drainLog takes what is left of the log of a container that ended, or nothing more if
// ctx is done, and returns its last line. Nothing is logged any more then. A nil
// follower has no log.
func (f *logFollower) drainLog(ctx context.Context) string {
	if f == nil {
		return ""
	}
	defer f.cancel()
	close(f.containerEnded)
	ctx, cancel := context.WithTimeout(ctx, logDrainTimeout)
	defer cancel()
	select {
	case <-f.done:
	case <-ctx.Done():
		f.cancel()
		<-f.done
	}
	return f.lastLine
}

var errLogTooLong = errors.New("the log is too long")

// readUntilEnd reads the log until it has seen its end, again from the beginning whenever the
// stream breaks.
func (f *logFollower) readUntilEnd(ctx context.Context) {
	for failures := 1; ; failures = min(failures+1, maxBackoffFailures) {
		before, beforeSame, final := f.lastTime, f.linesAtLastTime, f.hasContainerEnded()
		err := f.readStream(ctx)
		if !f.endedUntimed && (f.lastTime != before || f.linesAtLastTime != beforeSame) {
			failures = 1
		}
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errLogTooLong):
			f.log.Info(fmt.Sprintf("The log of the container is longer than %d bytes; the rest is left out", MaxLogBytes))
			return
		case err != nil && isPermanentLogError(err):
			f.log.Info("The log of the container cannot be read", "error", executor.OneLine(f.redactor.String(err.Error())))
			return
		}
		if !f.awaitNextRead(ctx, err, failures, final) {
			return
		}
	}
}

// hasContainerEnded says whether the container ended.
func (f *logFollower) hasContainerEnded() bool {
	select {
	case <-f.containerEnded:
		return true
	default:
		return false
	}
}

// awaitNextRead waits until the log is to be read again after err. It says false if there is
// no more of it: its stream ended, and so did the container. Final says that the stream began
// after that.
func (f *logFollower) awaitNextRead(ctx context.Context, err error, failures int, final bool) bool {
	if err != nil {
		return request.Sleep(ctx, request.BackoffDelay(failures)) == nil
	}
	delay := max(request.BackoffDelay(failures), time.Second)
	if f.endedUntimed {
		// Each time all of the log is read, and its node is the one in need.
		delay = min(time.Second<<(failures-1), maxLogRetryDelay)
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-f.containerEnded:
		return f.endedUntimed && !final
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// isPermanentLogError says whether the API server will not give the log at a later time either.
func isPermanentLogError(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsUnauthorized(err)
}

// readStream takes one stream to its end; nil means that it ended as it should.
func (f *logFollower) readStream(ctx context.Context) error {
	f.endedUntimed = false
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
	lines := bufio.NewReaderSize(stream, lineBufferSize)
	before := repeatedLines{until: f.lastTime, linesAtUntil: f.linesAtLastTime}
	for {
		text, size, err := readLine(lines)
		whole := err == nil || errors.Is(err, io.EOF)
		if whole && size > 0 && !f.processLine(text, size, &before) {
			return errLogTooLong
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the log: %w", err)
		}
	}
}

// processLine takes a line of that size that was not taken before. It says false if there is no room
// for more.
func (f *logFollower) processLine(text string, size int, before *repeatedLines) bool {
	at, line := splitTimestamp(text)
	if f.endedUntimed = at.IsZero(); f.endedUntimed {
		if line == f.lastUntimedLine {
			return true
		}
		f.lastUntimedLine = line
	} else if before.consumeRepeated(at) {
		return true
	}
	f.logLine(at, line)
	f.remainingBytes -= size
	return f.remainingBytes > 0
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

// splitTimestamp takes the time from the beginning of a line; it is zero if there is none.
func splitTimestamp(text string) (at time.Time, line string) {
	stamp, line, _ := strings.Cut(text, " ")
	if at, err := time.Parse(time.RFC3339Nano, stamp); err == nil {
		return at, line
	}
	return time.Time{}, text
}

// repeatedLines says which lines of a stream were in one before it.
type repeatedLines struct {
	until        time.Time
	linesAtUntil int
}

func (r *repeatedLines) consumeRepeated(at time.Time) bool {
	switch {
	case at.After(r.until):
		return false
	case at.Before(r.until):
		return true
	}
	r.linesAtUntil--
	return r.linesAtUntil >= 0
}

// logLine logs a line.
func (f *logFollower) logLine(at time.Time, line string) {
	switch {
	case at.IsZero():
	case at.Equal(f.lastTime):
		f.linesAtLastTime++
	default:
		f.lastTime, f.linesAtLastTime = at, 1
	}
	line, show := f.stream.RedactLine(line)
	if line = executor.OneLine(line); show && line != "" {
		if !at.IsZero() || f.lastTime.IsZero() {
			f.lastLine = line // what the container says goes before what its node does
		}
		f.log.Info(line)
	}
}
