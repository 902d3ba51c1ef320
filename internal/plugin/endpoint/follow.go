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

// followWait is how long a call waits until the log is followed again.
const followWait = 5 * time.Second

// follow begins to read the lines for l. An error says that there is no connection, or no
// time; a server that has no log is none.
func (s *session) follow(ctx context.Context, l *logs) error {
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	lines, err := l.follow(life, s.conn)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		cancel()
		if code := status.Code(err); code == codes.Unavailable || ctx.Err() != nil {
			return err
		}
		l.operator.Info("The plugin does not hand over its log; look for its lines where it runs",
			"reason", logline.Clean(l.redactor.String(status.Convert(err).Message())))
		l.refused = true
		l.stop()
		return nil
	}
	s.tasks.Go(func() {
		defer cancel()
		l.read(lines)
	})
	return nil
}

// following returns what takes the lines of a call that begins. If their stream has ended and
// the connection goes on, as it does when a proxy ends streams that are idle, the log is
// asked for again. No call fails because of that.
func (s *session) following(ctx context.Context) *logs {
	l := s.logs.Load()
	if !l.isStopped() || l.refused || s.isOver() {
		return l
	}
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return l
	case <-s.ended:
		return l
	}
	if l = s.logs.Load(); l.isStopped() && s.mayFollow(l) {
		s.followAgain(ctx, l)
	}
	return s.logs.Load()
}

// mayFollow reports whether the log may be asked for again. It is called with turn held.
func (s *session) mayFollow(ended *logs) bool {
	if ended.brought.Load() {
		s.barren, s.nextFollow = 0, time.Time{}
	}
	return !ended.refused && !s.isOver() && !s.now().Before(s.nextFollow)
}

// followAgain asks for the log again. What is used up without a line costs a pause, which
// grows: a server may end every stream at once. It is called with turn held.
func (s *session) followAgain(ctx context.Context, ended *logs) {
	ctx, cancel := context.WithTimeout(ctx, followWait)
	defer cancel()
	next := ended.next()
	err := s.follow(ctx, next)
	if err != nil {
		next.stop()
	}
	if err == nil || s.barren > 0 { // else it may be the connection that has ended
		next.tell("it ended, and the connection goes on")
	}
	s.logs.Store(next)
	s.nextFollow = s.now().Add(pause(s.barren))
	s.barren++
}
