// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoint

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
)

const (
	// pingEvery and pingTimeout find out, while anything is open, that a server is gone without
	// having said so. Servers have to allow it: gRPC's own default does not.
	pingEvery, pingTimeout = 30 * time.Second, 20 * time.Second
	// maxHeaders is the size of headers and trailers that is accepted: a status has 2 KiB and
	// where it comes from.
	maxHeaders = 64 << 10
)

// session is one connection with the calls that are open on it.
type session struct {
	conn *grpc.ClientConn
	// logs takes the lines of the calls that begin now.
	logs atomic.Pointer[logs]

	// over is closed when no call may begin any more, and retire closes it.
	over   <-chan struct{}
	retire context.CancelFunc
	// ended is closed when what is open is cut off, and end closes it.
	ended <-chan struct{}
	end   context.CancelFunc
	// tasks are the goroutines of the session. They end with it.
	tasks sync.WaitGroup

	// turn is held by the call that asks for the log again. It guards barren and nextFollow.
	turn chan struct{}
	// barren is how often in a row that was done without a line since.
	barren     int
	nextFollow time.Time
	now        func() time.Time

	// active is how many calls are open, guarded by the mutex of the Endpoint.
	active int
	// idle is closed when the session is over and no call is open.
	idle chan struct{}
}

// openAt returns a verified session at one address, or an error for people.
func (e *Endpoint) openAt(ctx context.Context, address string, secure security) (*session, error) {
	t := &trouble{hasCertificate: secure.hasCertificate}
	s, err := e.dial(ctx, address, secure, t)
	if err != nil {
		return nil, e.explain(ctx, t)
	}
	if err := e.verify(ctx, s.conn); err != nil {
		s.close()
		if isBroken(err) || ctx.Err() != nil {
			return nil, e.explain(ctx, t)
		}
		return nil, err
	}
	if err := s.follow(ctx, s.logs.Load()); err != nil {
		s.close()
		return nil, e.explain(ctx, t)
	}
	return s, nil
}

// dial returns a session that is connected. What went wrong is in t.
func (e *Endpoint) dial(ctx context.Context, address string, secure security, t *trouble) (*session, error) {
	transport := &transport{security: secure, trouble: t, network: e.target.network, address: address}
	conn, err := grpc.NewClient("passthrough:///plugin",
		grpc.WithContextDialer(transport.dial), grpc.WithTransportCredentials(transport), grpc.WithNoProxy(),
		grpc.WithAuthority(e.target.authority()), grpc.WithDisableServiceConfig(), grpc.WithIdleTimeout(0),
		// Our own timer decides; gRPC's only has to be later.
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: e.config.ConnectTimeout + time.Minute}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingEvery, Timeout: pingTimeout}),
		grpc.WithMaxHeaderListSize(maxHeaders))
	if err != nil {
		t.note(err)
		return nil, err
	}
	conn.Connect()
	if !becomesReady(ctx, conn) {
		_ = conn.Close()
		return nil, errors.New("not connected")
	}
	t.reach(stageConnected)
	return e.newSession(ctx, conn), nil
}

// becomesReady waits until a connection is ready, or will not become that.
func becomesReady(ctx context.Context, conn *grpc.ClientConn) bool {
	state := conn.GetState()
	for state == connectivity.Idle || state == connectivity.Connecting {
		if !conn.WaitForStateChange(ctx, state) {
			return false
		}
		if state = conn.GetState(); state == connectivity.Idle {
			return false // it was ready and has ended already
		}
	}
	return state == connectivity.Ready
}

// newSession returns the session of a connection. It goes on when ctx ends.
func (e *Endpoint) newSession(ctx context.Context, conn *grpc.ClientConn) *session {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	inUse, retire := context.WithCancel(life)
	s := &session{
		conn: conn, over: inUse.Done(), retire: retire, ended: life.Done(), end: end,
		idle: make(chan struct{}), turn: make(chan struct{}, 1), now: e.config.Now,
	}
	s.logs.Store(newLogs(e.config.Logger.WithValues("plugin", e.config.Name), e.config.Redactor))
	s.tasks.Go(func() {
		// It is the end of use, too, when the server says that it stops.
		conn.WaitForStateChange(inUse, connectivity.Ready)
		retire()
	})
	return s
}

// verify asks Config.Verify about a connection. The ctx that it gets is cancelled when ctx
// ends, and has no deadline: gRPC would send that to the server, whose clock may end the
// call before ours does, and nobody could tell a timeout from an error.
func (e *Endpoint) verify(ctx context.Context, conn grpc.ClientConnInterface) error {
	bare, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	_, err := e.config.Verify(bare, conn)
	if status.Code(err) == codes.Unimplemented {
		return e.notAPlugin(err)
	}
	return err
}

// verifyAgain asks Config.Verify about a session that is in use.
func (e *Endpoint) verifyAgain(ctx context.Context, s *session) error {
	limited, cancel := context.WithTimeoutCause(ctx, e.config.ConnectTimeout, errConnectTimeout)
	defer cancel()
	err := e.verify(limited, s.conn)
	switch {
	case err == nil:
		e.answered()
		return nil
	case limited.Err() != nil && ctx.Err() == nil:
		t := &trouble{}
		t.reach(stageConnected)
		return e.explain(limited, t)
	case ctx.Err() != nil:
		return interrupted(ctx)
	case isBroken(err), status.Code(err) == codes.Canceled && s.isOver():
		s.retire()
		return status.Error(codes.Unavailable, "the connection broke")
	default:
		return err
	}
}

// isBroken reports whether an error says that there is no connection.
func isBroken(err error) bool {
	return err != nil && status.Code(err) == codes.Unavailable
}

// isOver reports whether no call may begin any more.
func (s *session) isOver() bool {
	select {
	case <-s.over:
		return true
	default:
		return false
	}
}

// noteIdleLocked closes idle if it is time. It is called with the mutex of the Endpoint
// held.
func (s *session) noteIdleLocked() {
	if s.active > 0 || !s.isOver() {
		return
	}
	select {
	case <-s.idle:
	default:
		close(s.idle)
	}
}

// close cuts off what is open and waits until nothing is left of the session.
func (s *session) close() {
	s.end()
	_ = s.conn.Close()
	s.turn <- struct{}{} // who has it may be about to begin a task; after that, there is no stream
	<-s.turn
	s.tasks.Wait()
}
