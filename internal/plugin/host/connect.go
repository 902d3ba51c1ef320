// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"math"
	"net"
	"slices"
	"strings"
	"time"

	grpcbackoff "google.golang.org/grpc/backoff"
	"k8s.io/apimachinery/pkg/util/wait"
)

// minAddressTimeout is the minimum time for one of several addresses: a slow server is not
// skipped because of an address that does not exist.
const minAddressTimeout = 2 * time.Second

// redialTimeLimit is how long a connection attempt waits for the first packet from an address at
// which a plugin was connected a moment ago. The plugin may have been replaced by one that only
// another attempt reaches.
const redialTimeLimit = 4 * time.Second

// minRetryDelay is the delay after the first attempt to reach a plugin that was connected a
// moment ago. It doubles up to maxRetryDelay.
const minRetryDelay, maxRetryDelay = 100 * time.Millisecond, time.Second

var (
	errConnectTimeout = errors.New("connect timeout")
	errDialTimeout    = errors.New("dial timeout")
)

// openSession connects within EndpointConfig.ConnectTimeout. If the plugin was connected a
// moment ago, it first retries for EndpointConfig.ReconnectTimeout.
func (e *Endpoint) openSession(ctx context.Context, attempt *opening) {
	e.mu.Lock()
	// As long as current is set, the loss of the connection has not been detected.
	wasThere := e.wasConnected || e.currentSession != nil
	e.wasConnected = false
	e.mu.Unlock()
	var s *endpointSession
	var err error
	if wasThere {
		s, err = e.reconnectWithRetry(ctx)
	} else {
		s, err = e.openVerifiedSession(ctx, e.config.ConnectTimeout)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	defer e.endLocked(attempt, err)
	if err != nil {
		return
	}
	e.currentSession = s
	e.sessions[s] = true
	e.watchers.Go(func() { e.watchSession(s) })
}

// reconnectWithRetry opens a session, and retries for EndpointConfig.ReconnectTimeout while the
// address is unreachable.
func (e *Endpoint) reconnectWithRetry(ctx context.Context) (*endpointSession, error) {
	waiting, cancel := context.WithTimeout(ctx, e.config.ReconnectTimeout)
	defer cancel()
	dialling := min(e.config.ConnectTimeout, redialTimeLimit)
	s, err := e.openVerifiedSession(ctx, dialling)
	delays := wait.Backoff{Duration: minRetryDelay, Factor: 2, Cap: maxRetryDelay, Steps: math.MaxInt}
	for isAddressUnreachable(err) && sleepWithContext(waiting, delays.Step()) {
		s, err = e.openVerifiedSession(ctx, dialling)
	}
	return s, err
}

// sleepWithContext waits for a duration, and reports whether ctx is still active after it.
func sleepWithContext(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// isAddressUnreachable reports whether an error says that the address is unreachable.
func isAddressUnreachable(err error) bool {
	start, ok := errors.AsType[*StartError](err)
	return ok && (start.Reason == ReasonUnreachable || errors.Is(err, errDialTimeout))
}

// newConnectDelays returns the back-off of gRPC without jitter, because there is only one operator.
func newConnectDelays() wait.Backoff {
	config := grpcbackoff.DefaultConfig
	return wait.Backoff{Duration: config.BaseDelay, Factor: config.Multiplier, Cap: config.MaxDelay}
}

// openVerifiedSession returns a verified session at the first address of the target that works.
// dialling is how long it waits for the first packet from each address.
func (e *Endpoint) openVerifiedSession(ctx context.Context, dialling time.Duration) (*endpointSession, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, e.config.ConnectTimeout, errConnectTimeout)
	defer cancel()
	secure, err := e.loadSecurity(ctx)
	if err != nil {
		return nil, err
	}
	secure.dialTimeout = dialling
	addresses, err := e.resolveAddresses(ctx)
	if err != nil {
		return nil, e.explainFailure(ctx, &failureRecorder{err: err})
	}
	var failures []error
	for i, address := range addresses {
		s, err := e.openWithTimeShare(ctx, address, len(addresses)-i, secure)
		if err == nil {
			return s, nil
		}
		failures = append(failures, err)
		if ctx.Err() != nil {
			break
		}
	}
	// Addresses of a name are returned in any order, and the text must not depend on it.
	return nil, slices.MinFunc(failures, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
}

// openWithTimeShare opens a session at one of the remaining addresses, within its share of
// the time.
func (e *Endpoint) openWithTimeShare(ctx context.Context, address string, left int, secure transportSecurity) (*endpointSession, error) {
	if deadline, ok := ctx.Deadline(); ok && left > 1 {
		share := max(time.Until(deadline)/time.Duration(left), minAddressTimeout)
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, share, errConnectTimeout)
		defer cancel()
	}
	return e.openSessionAt(ctx, address, secure)
}

// resolveAddresses returns the addresses to dial.
func (e *Endpoint) resolveAddresses(ctx context.Context) ([]string, error) {
	if e.targetAddress.network == "unix" {
		return []string{e.targetAddress.path}, nil
	}
	hosts, err := e.lookupHost(ctx, e.targetAddress.host)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, host := range hosts {
		out = append(out, net.JoinHostPort(host, e.targetAddress.port))
	}
	if len(out) == 0 {
		return nil, &net.DNSError{Err: "no addresses", Name: e.targetAddress.host, IsNotFound: true}
	}
	return out, nil
}

// watchSession waits for the end of a session and cleans it up.
func (e *Endpoint) watchSession(s *endpointSession) {
	<-s.retired
	e.mu.Lock()
	unexpected := !e.closed
	if e.currentSession == s {
		e.currentSession = nil
	}
	if unexpected {
		e.wasConnected = true
		// The first loss in a row causes no back-off: the next call reconnects.
		e.recordFailureLocked(&LostError{Message: "the connection to " + e.config.Address + " was lost"}, e.failures)
	}
	s.signalIdleLocked()
	e.mu.Unlock()
	if unexpected {
		e.config.Logger.Info("Lost the connection to a plugin", "plugin", e.config.Name, "address", e.config.Address)
		if e.config.OnLost != nil {
			e.config.OnLost(e.config.Name)
		}
	}
	select {
	case <-s.idle:
	case <-s.terminated:
	}
	s.closeAndWait()
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.sessions, s)
}
