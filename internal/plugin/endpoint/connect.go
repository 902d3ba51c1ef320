// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoint

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/backoff"

	"github.com/grapnel-dev/grapnel/internal/plugin/process"
)

// minShare is the least time for one of several addresses: a server that is slow is not
// passed over for one that does not exist.
const minShare = 2 * time.Second

// redialTimeout is how long it is waited for the first packet from an address at which a plugin
// was a moment ago: that may be gone, and its place taken by something that another attempt
// reaches.
const redialTimeout = 4 * time.Second

// firstPause is that after the first attempt to reach a plugin that was there a moment ago.
// It doubles up to lastPause.
const firstPause, lastPause = 100 * time.Millisecond, time.Second

var (
	errConnectTimeout = errors.New("connect timeout")
	errDialTimeout    = errors.New("dial timeout")
)

// connecting is an attempt to connect that is under way. It belongs to the Endpoint and not
// to the call that began it: a server that needs longer than its callers have time would
// never be reached otherwise.
type connecting struct {
	// cancel ends the attempt.
	cancel context.CancelFunc
	// done is closed when the attempt has ended. err is set before that.
	done chan struct{}
	err  error
}

// await waits for the end of the attempt, or of ctx, and returns the error of either.
func (c *connecting) await(ctx context.Context) error {
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		return interrupted(ctx)
	}
}

// connectLocked returns the attempt that is under way, and begins one if there is none. It
// is called with mu held.
func (e *Endpoint) connectLocked(ctx context.Context, force bool) (*connecting, error) {
	switch {
	case e.connecting != nil:
		return e.connecting, nil
	case ctx.Err() != nil:
		return nil, interrupted(ctx)
	case !force && e.config.Now().Before(e.nextTry):
		return nil, &process.StartError{Reason: ReasonBackOff, Err: e.lastErr, Message: fmt.Sprintf(
			"the plugin could not be reached repeatedly and is tried again later; the last failure: %s", e.lastErr)}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	under := &connecting{cancel: cancel, done: make(chan struct{})}
	e.connecting = under
	e.watchers.Go(func() {
		defer cancel()
		e.carryOut(ctx, under)
	})
	return under, nil
}

// carryOut connects, which takes no longer than Config.ConnectTimeout, after
// Config.ReturnTimeout if the plugin was there a moment ago.
func (e *Endpoint) carryOut(ctx context.Context, under *connecting) {
	e.mu.Lock()
	// As long as current is set, nobody has noticed yet that it was lost.
	wasThere := e.wasThere || e.current != nil
	e.wasThere = false
	e.mu.Unlock()
	var s *session
	var err error
	if wasThere {
		s, err = e.awaitReturn(ctx)
	} else {
		s, err = e.open(ctx, e.config.ConnectTimeout)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	defer close(under.done)
	e.connecting = nil
	switch {
	case err != nil && e.closed:
		under.err = unloaded()
		return
	case err != nil:
		e.failedLocked(err, e.failures+1)
		under.err = err
		return
	}
	e.current = s
	e.sessions[s] = true
	e.watchers.Go(func() { e.watch(s) })
}

// awaitReturn does what open does, and again while nobody is there, for
// Config.ReturnTimeout.
func (e *Endpoint) awaitReturn(ctx context.Context) (*session, error) {
	waiting, cancel := context.WithTimeout(ctx, e.config.ReturnTimeout)
	defer cancel()
	dialling := min(e.config.ConnectTimeout, redialTimeout)
	s, err := e.open(ctx, dialling)
	for wait := firstPause; isNobodyThere(err) && elapses(waiting, wait); wait = min(2*wait, lastPause) {
		s, err = e.open(ctx, dialling)
	}
	return s, err
}

// elapses waits, and reports whether ctx is not over after that.
func elapses(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// isNobodyThere reports whether an error says that nobody is at the address.
func isNobodyThere(err error) bool {
	start, ok := errors.AsType[*process.StartError](err)
	return ok && (start.Reason == ReasonUnreachable || errors.Is(err, errDialTimeout))
}

// failedLocked notes a failure. The pause after it is that of the n-th one.
func (e *Endpoint) failedLocked(err error, n int) {
	e.failures++
	e.lastErr = err
	e.nextTry = e.config.Now().Add(pause(n))
}

// pause returns that after the n-th failure in a row: gRPC's own, without what it adds by
// chance, for there is one operator.
func pause(n int) time.Duration {
	if n < 1 {
		return 0
	}
	grow, length := backoff.DefaultConfig, backoff.DefaultConfig.BaseDelay
	for ; n > 1 && length < grow.MaxDelay; n-- {
		length = time.Duration(float64(length) * grow.Multiplier)
	}
	return min(length, grow.MaxDelay)
}

// open returns a verified session at the first address of the target where there can be
// one. Dialling is how long it waits for the first packet from each.
func (e *Endpoint) open(ctx context.Context, dialling time.Duration) (*session, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, e.config.ConnectTimeout, errConnectTimeout)
	defer cancel()
	secure, err := e.security(ctx)
	if err != nil {
		return nil, err
	}
	secure.dialling = dialling
	addresses, err := e.resolve(ctx)
	if err != nil {
		return nil, e.explain(ctx, &trouble{err: err})
	}
	var failures []error
	for i, address := range addresses {
		s, err := e.openWithin(ctx, address, len(addresses)-i, secure)
		if err == nil {
			return s, nil
		}
		failures = append(failures, err)
		if ctx.Err() != nil {
			break
		}
	}
	// Names are resolved to their addresses in any order: the text must not change with it.
	return nil, slices.MinFunc(failures, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
}

// openWithin gives one of the addresses that are left its share of the time.
func (e *Endpoint) openWithin(ctx context.Context, address string, left int, secure security) (*session, error) {
	if deadline, ok := ctx.Deadline(); ok && left > 1 {
		share := max(time.Until(deadline)/time.Duration(left), minShare)
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, share, errConnectTimeout)
		defer cancel()
	}
	return e.openAt(ctx, address, secure)
}

// resolve returns what can be dialled.
func (e *Endpoint) resolve(ctx context.Context) ([]string, error) {
	if e.target.network == "unix" {
		return []string{e.target.path}, nil
	}
	hosts, err := e.lookup(ctx, e.target.host)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, host := range hosts {
		out = append(out, net.JoinHostPort(host, e.target.port))
	}
	if len(out) == 0 {
		return nil, &net.DNSError{Err: "no addresses", Name: e.target.host, IsNotFound: true}
	}
	return out, nil
}

// watch waits for the end of a session and removes what is left of it.
func (e *Endpoint) watch(s *session) {
	<-s.over
	e.mu.Lock()
	unexpected := !e.closed
	if e.current == s {
		e.current = nil
	}
	if unexpected {
		e.wasThere = true
		// The first end in a row costs no pause: the next call connects again.
		e.failedLocked(&process.LostError{Message: "the connection to " + e.config.Address + " was lost"}, e.failures)
	}
	s.noteIdleLocked()
	e.mu.Unlock()
	if unexpected {
		e.config.Logger.Info("Lost the connection to a plugin", "plugin", e.config.Name, "address", e.config.Address)
		if e.config.OnLost != nil {
			e.config.OnLost(e.config.Name)
		}
	}
	select {
	case <-s.idle:
	case <-s.ended:
	}
	s.close()
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.sessions, s)
}
