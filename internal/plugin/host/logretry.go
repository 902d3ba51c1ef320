// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/grapnel-dev/grapnel/internal/backoff"
)

// followTimeout is how long a call waits for following the log again.
const followTimeout = 5 * time.Second

// startFollowingLog starts to read the lines for l. It returns an error if there is no connection
// or ctx ended; a server without a log is not an error.
func (s *endpointSession) startFollowingLog(ctx context.Context, l *logStream) error {
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	lines, err := l.openFollowStream(life, s.conn)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		cancel()
		if code := status.Code(err); code == codes.Unavailable || ctx.Err() != nil {
			return err
		}
		l.operatorLog.Info("The plugin does not stream its log; find its lines where it runs",
			"reason", SanitizeLine(l.redactor.String(status.Convert(err).Message())))
		l.unsupported = true
		l.closeStopped()
		return nil
	}
	s.tasks.Go(func() {
		defer cancel()
		l.readLogLines(lines)
	})
	return nil
}

// activeLogStream returns the log stream for a new call. If the stream has ended while the
// connection continues, for example because a proxy ends idle streams, the log is followed again.
// No call fails because of that.
func (s *endpointSession) activeLogStream(ctx context.Context) *logStream {
	l := s.logStream.Load()
	if !l.isStopped() || l.unsupported || s.isRetired() {
		return l
	}
	select {
	case s.followLock <- struct{}{}:
		defer func() { <-s.followLock }()
	case <-ctx.Done():
		return l
	case <-s.terminated:
		return l
	}
	if l = s.logStream.Load(); l.isStopped() && s.shouldRetryFollowing(l) {
		s.retryFollowingLog(ctx, l)
	}
	return s.logStream.Load()
}

// shouldRetryFollowing reports whether the log may be followed again. It is called with followLock
// held.
func (s *endpointSession) shouldRetryFollowing(ended *logStream) bool {
	if ended.receivedLines.Load() {
		s.emptyFollows, s.nextFollow = 0, time.Time{}
	}
	return !ended.unsupported && !s.isRetired() && !s.now().Before(s.nextFollow)
}

// retryFollowingLog follows the log again. A stream that ends without a line causes a growing
// back-off: a server may end every stream immediately. It is called with followLock held.
func (s *endpointSession) retryFollowingLog(ctx context.Context, ended *logStream) {
	ctx, cancel := context.WithTimeout(ctx, followTimeout)
	defer cancel()
	next := ended.newNextStream()
	err := s.startFollowingLog(ctx, next)
	if err != nil {
		next.closeStopped()
	}
	if err == nil || s.emptyFollows > 0 { // otherwise the connection may have ended
		next.warnLinesMissing("it ended while the connection continues")
	}
	s.logStream.Store(next)
	s.nextFollow = s.now().Add(backoff.Delay(newConnectDelays(), s.emptyFollows))
	s.emptyFollows++
}
