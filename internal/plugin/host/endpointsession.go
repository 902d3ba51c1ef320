// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package host

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
	// pingInterval and pingTimeout detect, while calls are open, that a server disappeared without
	// closing the connection. Servers have to allow these pings: the default of gRPC does not.
	pingInterval, pingTimeout = 30 * time.Second, 20 * time.Second
	// maxHeaderBytes is the maximum size of headers and trailers: a status has 2 KiB and its
	// origin.
	maxHeaderBytes = 64 << 10
)

// endpointSession is one connection with its open calls.
type endpointSession struct {
	conn *grpc.ClientConn
	// logStream receives the lines of new calls.
	logStream atomic.Pointer[logStream]

	// retired is closed by retire when no more calls may begin.
	retired <-chan struct{}
	retire  context.CancelFunc
	// terminated is closed by terminate when open calls are cut off.
	terminated <-chan struct{}
	terminate  context.CancelFunc
	// tasks are the goroutines of the session.
	tasks sync.WaitGroup

	// followLock is held by the call that follows the log again. It guards emptyFollows and
	// nextFollow.
	followLock chan struct{}
	// emptyFollows counts streams in a row that ended without a line.
	emptyFollows int
	nextFollow   time.Time
	now          func() time.Time

	// active is the number of open calls, guarded by the mutex of the Endpoint.
	active int
	// idle is closed when the session is retired and no call is open.
	idle chan struct{}
}

// openSessionAt returns a verified session at one address, or an error for users.
func (e *Endpoint) openSessionAt(ctx context.Context, address string, secure transportSecurity) (*endpointSession, error) {
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

// dialSession returns a connected session. Failures are recorded in t.
func (e *Endpoint) dialSession(ctx context.Context, address string, secure transportSecurity, t *failureRecorder) (*endpointSession, error) {
	transport := &transport{transportSecurity: secure, recorder: t, network: e.targetAddress.network, address: address}
	conn, err := grpc.NewClient("passthrough:///plugin",
		grpc.WithContextDialer(transport.dialOnce), grpc.WithTransportCredentials(transport), grpc.WithNoProxy(),
		grpc.WithAuthority(e.targetAddress.grpcAuthority()), grpc.WithDisableServiceConfig(), grpc.WithIdleTimeout(0),
		// Our own timer decides; that of gRPC only has to be longer.
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

// waitUntilReady waits until a connection is ready or can no longer become ready.
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

// newSession returns the session of a connection. The session continues after ctx ends.
func (e *Endpoint) newSession(ctx context.Context, conn *grpc.ClientConn) *endpointSession {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	inUse, retire := context.WithCancel(life)
	s := &endpointSession{
		conn: conn, retired: inUse.Done(), retire: retire, terminated: life.Done(), terminate: end,
		idle: make(chan struct{}), followLock: make(chan struct{}, 1), now: e.config.Now,
	}
	s.logStream.Store(newLogStream(e.config.Logger.WithValues("plugin", e.config.Name), e.config.Redactor))
	s.tasks.Go(func() {
		// The session also retires when the server announces that it stops.
		conn.WaitForStateChange(inUse, connectivity.Ready)
		retire()
	})
	return s
}

// verifyConnection calls EndpointConfig.Verify for a connection. Its ctx is canceled when ctx ends, and has
// no deadline: gRPC would send the deadline to the server, whose clock may end the call earlier.
// Then a timeout would look like an error.
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

// verifySession calls EndpointConfig.Verify for a session that is in use.
func (e *Endpoint) verifySession(ctx context.Context, s *endpointSession) error {
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

// isRetired reports whether no more calls may begin.
func (s *endpointSession) isRetired() bool {
	select {
	case <-s.retired:
		return true
	default:
		return false
	}
}

// signalIdleLocked closes idle if the session is retired and has no open calls. It is
// called with the mutex of the Endpoint held.
func (s *endpointSession) signalIdleLocked() {
	if s.active > 0 || !s.isRetired() {
		return
	}
	select {
	case <-s.idle:
	default:
		close(s.idle)
	}
}

// closeAndWait cuts off open calls and waits until the session is cleaned up.
func (s *endpointSession) closeAndWait() {
	s.terminate()
	_ = s.conn.Close()
	s.followLock <- struct{}{} // the holder may be about to start a task; after that, there is no stream
	<-s.followLock
	s.tasks.Wait()
}
