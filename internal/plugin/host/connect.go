// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"strings"
	"time"

	grpcbackoff "google.golang.org/grpc/backoff"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/grapnel-dev/grapnel/internal/backoff"
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

// connectOrJoinLocked returns the attempt that is in progress, or starts one. It is called with
// mu held.
func (e *Endpoint) connectOrJoinLocked(ctx context.Context, force bool) (*opening, error) {
	switch {
	case e.pendingConnect != nil:
		return e.pendingConnect, nil
	case ctx.Err() != nil:
		return nil, newInterruptedError(ctx)
	case !force && e.config.Now().Before(e.nextAttempt):
		return nil, &StartError{Reason: ReasonConnectBackOff, Err: e.lastErr, Message: fmt.Sprintf(
			"connecting to the plugin failed repeatedly and is retried later; the last failure: %s", e.lastErr)}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	under := &opening{cancel: cancel, done: make(chan struct{})}
	e.pendingConnect = under
	e.watchers.Go(func() {
		defer cancel()
		e.runPendingConnect(ctx, under)
	})
	return under, nil
}

// runPendingConnect connects within EndpointConfig.ConnectTimeout. If the plugin was connected a
// moment ago, it first retries for EndpointConfig.ReconnectTimeout.
func (e *Endpoint) runPendingConnect(ctx context.Context, under *opening) {
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
	defer close(under.done)
	e.pendingConnect = nil
	switch {
	case err != nil && e.closed:
		under.err = newUnloadedError()
		return
	case err != nil:
		e.recordFailureLocked(err, e.failures+1)
		under.err = err
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

// recordFailureLocked records a failure and sets the back-off for it.
func (e *Endpoint) recordFailureLocked(err error, n int) {
	e.failures++
	e.lastErr = err
	e.nextAttempt = e.config.Now().Add(connectBackoff(n))
}

// connectBackoff returns the delay after the n-th failure in a row: that of gRPC without jitter,
// because there is only one operator.
func connectBackoff(n int) time.Duration {
	config := grpcbackoff.DefaultConfig
	return backoff.Delay(wait.Backoff{Duration: config.BaseDelay, Factor: config.Multiplier, Cap: config.MaxDelay}, n)
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
