// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"io"
	"net"
	"sync"
	"testing"
)

// relay forwards connections to a server and can cut them.
type relay struct {
	listener net.Listener
	target   string
	tasks    sync.WaitGroup
	mu       sync.Mutex
	open     []net.Conn
	// refused receives each connection that is closed immediately; nil if connections are
	// accepted.
	refused chan struct{}
}

func newRelay(t *testing.T, target string) *relay {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{listener: listener, target: target}
	r.tasks.Go(r.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		r.cut()
		r.tasks.Wait()
	})
	return r
}

func (r *relay) address() string { return r.listener.Addr().String() }

func (r *relay) accept() {
	for {
		in, err := r.listener.Accept()
		if err != nil {
			return
		}
		if r.refuses() {
			_ = in.Close()
			continue
		}
		out, err := net.Dial("tcp", r.target)
		if err != nil {
			_ = in.Close()
			continue
		}
		r.mu.Lock()
		r.open = append(r.open, in, out)
		r.mu.Unlock()
		for from, to := range map[net.Conn]net.Conn{in: out, out: in} {
			r.tasks.Go(func() {
				_, _ = io.Copy(to, from)
				_ = to.Close()
			})
		}
	}
}

// refuses reports whether a new connection is to be closed.
func (r *relay) refuses() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refused == nil {
		return false
	}
	select {
	case r.refused <- struct{}{}:
	default:
	}
	return true
}

// refuse closes all connections and all new ones, which it reports.
func (r *relay) refuse(t *testing.T) <-chan struct{} {
	t.Helper()
	refused := make(chan struct{}, 99)
	r.mu.Lock()
	r.refused = refused
	r.mu.Unlock()
	r.cut()
	return refused
}

// admit accepts connections again.
func (r *relay) admit() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refused = nil
}

// cut closes all connections.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, conn := range r.open {
		_ = conn.Close()
	}
	r.open = nil
}
