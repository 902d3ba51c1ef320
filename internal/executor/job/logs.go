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
	"k8s.io/apimachinery/pkg/util/wait"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/grapnel-dev/grapnel/internal/backoff"
	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/rawclient"
	"github.com/grapnel-dev/grapnel/internal/redact"
)

// Logs reads the logs of containers.
type Logs interface {
	// PodLogs returns the log of a container from its beginning. Each line begins with its time
	// (RFC 3339 with nanoseconds) and a space, as Kubernetes writes it if timestamps are requested.
	// With follow, the stream continues until the container ends. It ends with ctx.
	PodLogs(ctx context.Context, namespace, pod, container string, follow bool) (io.ReadCloser, error)
}

// NewLogs returns Logs that read from the API server.
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
	// MaxLogBytes is how much of a container's log is copied into the log of the run.
	MaxLogBytes = 1 << 20
	// lineBufferSize is how much of one line is read; less of it is logged.
	lineBufferSize = 8 << 10
	// logDrainTimeout is how long to wait for the rest of a log after the container ended.
	logDrainTimeout = 10 * time.Second
	// maxLogRetryDelay is the longest delay before a log is read again after its node ended the
	// stream.
	maxLogRetryDelay = time.Minute
)

// logFollower copies the log of a container into a logger, until the container ends or the log is
// too long.
type logFollower struct {
	open func(ctx context.Context) (io.ReadCloser, error)
	log  logr.Logger
	// stream redacts lines; redactor redacts other texts.
	stream   *redact.Stream
	redactor *redact.Redactor

	cancel         context.CancelFunc
	containerEnded chan struct{}
	done           chan struct{}

	// The rest belongs to the goroutine until done is closed.

	// remainingBytes is how many bytes may still be logged.
	remainingBytes int
	// lastTime is the time of the last line, and linesAtLastTime the number of lines with that
	// time: what a new stream repeats.
	lastTime        time.Time
	linesAtLastTime int
	// lastUntimedLine is the last line without a time. The node wrote it, not the container: it says
	// why the node cannot follow the log. endedUntimed is set if the last stream ended with one.
	lastUntimedLine string
	endedUntimed    bool
	// lastLine is the last line, redacted.
	lastLine string
}

// startLogFollower starts to follow the log. drainLog must be called.
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

// drainLog logs the rest of the log of a container that has ended, or nothing more if ctx is done,
// and returns the last line. Nothing is logged after it returns. A nil follower has no log.
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

// readUntilEnd reads the log until its end, and starts again from the beginning whenever the stream
// breaks.
func (f *logFollower) readUntilEnd(ctx context.Context) {
	for failures := 1; ; failures++ {
		before, beforeSame, final := f.lastTime, f.linesAtLastTime, f.hasContainerEnded()
		err := f.readStream(ctx)
		if !f.endedUntimed && (f.lastTime != before || f.linesAtLastTime != beforeSame) {
			failures = 1
		}
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errLogTooLong):
			f.log.Info(fmt.Sprintf("The log of the container is longer than %d bytes; the rest is dropped", MaxLogBytes))
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

// hasContainerEnded reports whether the container has ended.
func (f *logFollower) hasContainerEnded() bool {
	select {
	case <-f.containerEnded:
		return true
	default:
		return false
	}
}

// awaitNextRead waits until the log is to be read again after err. It returns false if nothing more
// will follow: the stream and the container have ended. final is set if the stream began after the
// container ended.
func (f *logFollower) awaitNextRead(ctx context.Context, err error, failures int, final bool) bool {
	if err != nil {
		return rawclient.Sleep(ctx, rawclient.BackoffDelay(failures)) == nil
	}
	delay := max(rawclient.BackoffDelay(failures), time.Second)
	if f.endedUntimed {
		// Each retry reads the whole log, and the node may be the component with a problem.
		delay = backoff.Delay(wait.Backoff{Duration: time.Second, Factor: 2, Cap: maxLogRetryDelay}, failures)
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

// isPermanentLogError reports whether the API server will not return the log later either.
func isPermanentLogError(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsUnauthorized(err)
}

// readStream reads one stream to its end; nil means that it ended normally.
func (f *logFollower) readStream(ctx context.Context) error {
	f.endedUntimed = false
	stream, err := f.open(ctx)
	if err != nil {
		return err
	}
	// The implementation of Logs may ignore ctx.
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

// processLine logs a line of that size unless it was logged before. It returns false if the limit
// is reached.
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

// readLine returns the beginning of the next line and its total size, up to the relevant limit. The
// last line of a stream may come with io.EOF.
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

// splitTimestamp splits the time off the beginning of a line; it is zero if there is none.
func splitTimestamp(text string) (at time.Time, line string) {
	stamp, line, _ := strings.Cut(text, " ")
	if at, err := time.Parse(time.RFC3339Nano, stamp); err == nil {
		return at, line
	}
	return time.Time{}, text
}

// repeatedLines detects lines of a stream that an earlier stream already contained.
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
			f.lastLine = line // a line of the container has precedence over one of its node
		}
		f.log.Info(line)
	}
}
