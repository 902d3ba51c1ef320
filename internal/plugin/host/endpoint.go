// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"maps"
	"net"
	"slices"
)

// Endpoint is one plugin at an address and, most of the time, one connection to it. It
// connects on demand. It is safe for concurrent use. Create it with NewEndpoint and close it with
// Close.
type Endpoint struct {
	config        EndpointConfig
	targetAddress targetAddress
	// lookupHost returns the addresses of a host.
	lookupHost func(ctx context.Context, host string) ([]string, error)

	opener
	currentSession *endpointSession
	// sessions are all sessions that are not cleaned up yet; current is one of them.
	sessions map[*endpointSession]bool
	// wasConnected is true if the last event was the loss of a connection.
	wasConnected bool
}

// NewEndpoint returns an Endpoint without connecting, or a *StartError if the configuration
// is invalid.
func NewEndpoint(config EndpointConfig) (*Endpoint, error) {
	at, err := parseAddress(config.Address)
	if err != nil {
		return nil, err
	}
	if at.network == "tcp" && config.Credentials == nil {
		return nil, newInvalidSpecError("there is no TLS for %s: parameters and objects would cross the network unencrypted", config.Address)
	}
	config = config.withDefaults()
	return &Endpoint{
		config: config, targetAddress: at, lookupHost: net.DefaultResolver.LookupHost, sessions: map[*endpointSession]bool{},
		opener: opener{
			now: config.Now, delays: newConnectDelays(), backoffReason: ReasonConnectBackOff,
			backoffText: "connecting to the plugin failed repeatedly and is retried later; the last failure: %s",
		},
	}, nil
}

// EnsureReady connects if there is no connection, ignoring the back-off (the caller has its own),
// and always calls EndpointConfig.Verify. It takes at most four times EndpointConfig.ConnectTimeout plus
// EndpointConfig.ReconnectTimeout. If ctx ends first, the attempt to connect continues until Close.
func (e *Endpoint) EnsureReady(ctx context.Context) error {
	err := e.ensureVerified(ctx)
	if !isConnectionLost(err) {
		return err
	}
	// The server disappeared just now: retry once with a new connection.
	if err = e.ensureVerified(ctx); !isConnectionLost(err) {
		return err
	}
	return e.newStartError(ReasonUnreachable, err, noAnswerFormat)
}

// ensureVerified connects and verifies like EnsureReady, and returns a status Unavailable if the
// connection broke.
func (e *Endpoint) ensureVerified(ctx context.Context) error {
	s, err := e.acquireSession(ctx, true)
	if err != nil {
		return err
	}
	defer e.releaseSession(s)
	return e.verifySession(ctx, s)
}

// IsRunning reports whether calls can use a connection now.
func (e *Endpoint) IsRunning() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.closed && e.currentSession != nil && !e.currentSession.isRetired()
}

// acquireSession returns a session and counts an open call on it; releaseSession ends the
// call.
func (e *Endpoint) acquireSession(ctx context.Context, force bool) (*endpointSession, error) {
	for {
		e.mu.Lock()
		if e.closed {
			e.mu.Unlock()
			return nil, newUnloadedError()
		}
		if s := e.currentSession; s != nil && !s.isRetired() {
			s.active++
			e.mu.Unlock()
			return s, nil
		}
		under, err := e.joinLocked(ctx, force, e.openSession)
		e.mu.Unlock()
		if err == nil {
			err = under.wait(ctx)
		}
		if err != nil {
			return nil, err
		}
	}
}

// releaseSession ends a call that acquireSession began.
func (e *Endpoint) releaseSession(s *endpointSession) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s.active--
	s.signalIdleLocked()
}

// Close rejects further calls, waits until the open ones have ended or giveUp is closed,
// and then closes all connections. They are cleaned up when Close returns; calls that were
// still open end with a *LostError soon after. Close may be called more than once.
func (e *Endpoint) Close(giveUp <-chan struct{}) {
	e.close()
	e.mu.Lock()
	sessions := slices.Collect(maps.Keys(e.sessions))
	e.mu.Unlock()
	for _, s := range sessions {
		s.retire()
		select {
		case <-s.idle:
		case <-giveUp:
		}
	}
	for _, s := range sessions {
		s.terminate()
	}
	e.watchers.Wait()
}
