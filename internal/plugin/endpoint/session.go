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
	// pingInterval and pingTimeout find out, while anything is open, that a server is gone without
	// having said so. Servers have to allow it: gRPC's own default does not.
	pingInterval, pingTimeout = 30 * time.Second, 20 * time.Second
	// maxHeaderBytes is the size of headers and trailers that is accepted: a status has 2 KiB and
	// where it comes from.
	maxHeaderBytes = 64 << 10
)

// session is one connection with the calls that are open on it.
type session struct {
	conn *grpc.ClientConn
	// logStream takes the lines of the calls that begin now.
	logStream atomic.Pointer[logStream]

	// retired is closed when no call may begin any more, and retire closes it.
	retired <-chan struct{}
	retire  context.CancelFunc
	// terminated is closed when what is open is cut off, and end closes it.
	terminated <-chan struct{}
	terminate  context.CancelFunc
	// tasks are the goroutines of the session. They end with it.
	tasks sync.WaitGroup

	// followLock is held by the call that asks for the log again. It guards barren and nextFollow.
	followLock chan struct{}
	// emptyFollows is how often in a row that was done without a line since.
	emptyFollows int
	nextFollow   time.Time
	now          func() time.Time

	// active is how many calls are open, guarded by the mutex of the Endpoint.
	active int
	// idle is closed when the session is over and no call is open.
	idle chan struct{}
}

// openSessionAt returns a verified session at one address, or an error for people.
func (e *Endpoint) openSessionAt(ctx context.Context, address string, secure transportSecurity) (*session, error) {
	t := &failureRecorder{hasCertificate: secure.hasCertificate}
	s, err := e.dialSession(ctx, address, secure, t)
	if err != nil {
		return nil, e.explainFailure(ctx, t)
	}
	if err := e.verifyConnection(ctx, s.conn); err != nil {
		s.closeAndWait()
		if isConnectionLost(err) || ctx.Err() != nil {
			return nil, e.explainFailure(ctx, t)
		}
		return nil, err
	}
	if err := s.startFollowingLog(ctx, s.logStream.Load()); err != nil {
		s.closeAndWait()
		return nil, e.explainFailure(ctx, t)
	}
	return s, nil
}

// dialSession returns a session that is connected. What went wrong is in t.
func (e *Endpoint) dialSession(ctx context.Context, address string, secure transportSecurity, t *failureRecorder) (*session, error) {
	transport := &transport{transportSecurity: secure, recorder: t, network: e.targetAddress.network, address: address}
	conn, err := grpc.NewClient("passthrough:///plugin",
		grpc.WithContextDialer(transport.dialOnce), grpc.WithTransportCredentials(transport), grpc.WithNoProxy(),
		grpc.WithAuthority(e.targetAddress.grpcAuthority()), grpc.WithDisableServiceConfig(), grpc.WithIdleTimeout(0),
		// Our own timer decides; gRPC's only has to be later.
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: e.config.ConnectTimeout + time.Minute}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingInterval, Timeout: pingTimeout}),
		grpc.WithMaxHeaderListSize(maxHeaderBytes))
	if err != nil {
		t.recordFirstError(err)
		return nil, err
	}
	conn.Connect()
	if !waitUntilReady(ctx, conn) {
		_ = conn.Close()
		return nil, errors.New("not connected")
	}
	t.setStage(stageConnected)
	return e.newSession(ctx, conn), nil
}

// waitUntilReady waits until a connection is ready, or will not become that.
func waitUntilReady(ctx context.Context, conn *grpc.ClientConn) bool {
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
		conn: conn, retired: inUse.Done(), retire: retire, terminated: life.Done(), terminate: end,
		idle: make(chan struct{}), followLock: make(chan struct{}, 1), now: e.config.Now,
	}
	s.logStream.Store(newLogStream(e.config.Logger.WithValues("plugin", e.config.Name), e.config.Redactor))
	s.tasks.Go(func() {
		// It is the end of use, too, when the server says that it stops.
		conn.WaitForStateChange(inUse, connectivity.Ready)
		retire()
	})
	return s
}

// verifyConnection asks Config.Verify about a connection. The ctx that it gets is cancelled when ctx
// ends, and has no deadline: gRPC would send that to the server, whose clock may end the
// call before ours does, and nobody could tell a timeout from an error.
func (e *Endpoint) verifyConnection(ctx context.Context, conn grpc.ClientConnInterface) error {
	bare, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	_, err := e.config.Verify(bare, conn)
	if status.Code(err) == codes.Unimplemented {
		return e.newNotAPluginError(err)
	}
	return err
}

// verifySession asks Config.Verify about a session that is in use.
func (e *Endpoint) verifySession(ctx context.Context, s *session) error {
	limited, cancel := context.WithTimeoutCause(ctx, e.config.ConnectTimeout, errConnectTimeout)
	defer cancel()
	err := e.verifyConnection(limited, s.conn)
	switch {
	case err == nil:
		e.resetFailures()
		return nil
	case limited.Err() != nil && ctx.Err() == nil:
		t := &failureRecorder{}
		t.setStage(stageConnected)
		return e.explainFailure(limited, t)
	case ctx.Err() != nil:
		return newInterruptedError(ctx)
	case isConnectionLost(err), status.Code(err) == codes.Canceled && s.isRetired():
		s.retire()
		return status.Error(codes.Unavailable, "the connection broke")
	default:
		return err
	}
}

// isConnectionLost reports whether an error says that there is no connection.
func isConnectionLost(err error) bool {
	return err != nil && status.Code(err) == codes.Unavailable
}

// isRetired reports whether no call may begin any more.
func (s *session) isRetired() bool {
	select {
	case <-s.retired:
		return true
	default:
		return false
	}
}

// signalIdleLocked closes idle if it is time. It is called with the mutex of the Endpoint
// held.
func (s *session) signalIdleLocked() {
	if s.active > 0 || !s.isRetired() {
		return
	}
	select {
	case <-s.idle:
	default:
		close(s.idle)
	}
}

// closeAndWait cuts off what is open and waits until nothing is left of the session.
func (s *session) closeAndWait() {
	s.terminate()
	_ = s.conn.Close()
	s.followLock <- struct{}{} // who has it may be about to begin a task; after that, there is no stream
	<-s.followLock
	s.tasks.Wait()
}
