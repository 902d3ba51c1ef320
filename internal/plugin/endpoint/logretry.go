// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoint

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/grapnel-dev/grapnel/internal/plugin/logline"
)

// followTimeout is how long a call waits until the log is followed again.
const followTimeout = 5 * time.Second

// startFollowingLog begins to read the lines for l. An error says that there is no connection, or no
// time; a server that has no log is none.
func (s *session) startFollowingLog(ctx context.Context, l *logStream) error {
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
		l.operatorLog.Info("The plugin does not hand over its log; look for its lines where it runs",
			"reason", logline.SanitizeLine(l.redactor.String(status.Convert(err).Message())))
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

// activeLogStream returns what takes the lines of a call that begins. If their stream has ended and
// the connection goes on, as it does when a proxy ends streams that are idle, the log is
// asked for again. No call fails because of that.
func (s *session) activeLogStream(ctx context.Context) *logStream {
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

// shouldRetryFollowing reports whether the log may be asked for again. It is called with turn held.
func (s *session) shouldRetryFollowing(ended *logStream) bool {
	if ended.receivedLines.Load() {
		s.emptyFollows, s.nextFollow = 0, time.Time{}
	}
	return !ended.unsupported && !s.isRetired() && !s.now().Before(s.nextFollow)
}

// retryFollowingLog asks for the log again. What is used up without a line costs a pause, which
// grows: a server may end every stream at once. It is called with turn held.
func (s *session) retryFollowingLog(ctx context.Context, ended *logStream) {
	ctx, cancel := context.WithTimeout(ctx, followTimeout)
	defer cancel()
	next := ended.newNextStream()
	err := s.startFollowingLog(ctx, next)
	if err != nil {
		next.closeStopped()
	}
	if err == nil || s.emptyFollows > 0 { // else it may be the connection that has ended
		next.warnLinesMissing("it ended, and the connection goes on")
	}
	s.logStream.Store(next)
	s.nextFollow = s.now().Add(backoffDelay(s.emptyFollows))
	s.emptyFollows++
}
