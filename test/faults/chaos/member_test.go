// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/grapnel-dev/grapnel/internal/testing/faultproxy"
	"github.com/grapnel-dev/grapnel/internal/testing/operator"
)

// storeEndpoint is the endpoint of the bucket in the location that two operators share.
// No such host exists: each of them is given a proxy of its own, which leads to the
// server. A loopback address would not be asked for from a proxy.
const storeEndpoint = "http://store.test"

// member is one of two operators. It has ways of its own to the API server and to the
// store, and is started again whenever it ends, as a kubelet does.
type member struct {
	name       string
	opts       operator.Options
	api, store *faultproxy.Proxy
	journal    *journal
	// clock is the file that says by how much its clock is wrong.
	clock string

	mu sync.Mutex
	// op is nil while the operator is down.
	op *operator.Operator
	// hurt are the faults of requests, by the proxy.
	hurt map[*faultproxy.Proxy]func() faultproxy.Fault
	// traps wait for a request.
	traps map[*trap]struct{}
	// unexpected are the ends that were not asked for.
	unexpected []string
	killed     bool
}

// trap waits for a request of any member.
type trap struct {
	moment moment
	// late, unless zero, is when the request that springs it arrives.
	late   time.Time
	sprung chan *member
}

// newMember makes a member, which keep starts.
func newMember(t testing.TB, name string, opts operator.Options, storeURL string, j *journal) *member {
	t.Helper()
	transport, err := rest.TransportFor(world.ControlPlane.Config())
	if err != nil {
		t.Fatal(err)
	}
	m := &member{
		name: name, journal: j, clock: filepath.Join(opts.Dir, "clock"),
		hurt:  map[*faultproxy.Proxy]func() faultproxy.Fault{},
		traps: map[*trap]struct{}{},
		api:   faultproxy.New(t, world.ControlPlane.Config().Host, transport),
		store: faultproxy.New(t, storeURL, &http.Transport{}),
	}
	if err := os.MkdirAll(opts.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	opts.Kubeconfig = filepath.Join(opts.Dir, "kubeconfig")
	opts.Env = append(opts.Env, "HTTP_PROXY="+m.store.URL, "http_proxy="+m.store.URL, "NO_PROXY=", "no_proxy=", operator.ClockFileEnvVar+"="+m.clock)
	m.opts = opts
	content := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: proxy, cluster: {server: %q}}]
contexts: [{name: proxy, context: {cluster: proxy}}]
current-context: proxy
`, m.api.URL)
	if err := os.WriteFile(opts.Kubeconfig, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	m.api.SetFaultInjector(func(r *faultproxy.Request) faultproxy.Fault { return m.decide(m.api, r) })
	m.store.SetFaultInjector(func(r *faultproxy.Request) faultproxy.Fault { return m.decide(m.store, r) })
	return m
}

// workloadWrite matches the writes that stop and start applications. They take a
// moment, so that there is one between two of them, and that to stop an application takes
// some time.
var workloadWrite = regexp.MustCompile(`^(PATCH|PUT) .*/apis/(apps|batch)/`)

func (m *member) decide(p *faultproxy.Proxy, r *faultproxy.Request) (fault faultproxy.Fault) {
	what := r.Method + " " + r.URL.Path
	m.mu.Lock()
	hurt := m.hurt[p]
	traps := slices.Collect(maps.Keys(m.traps))
	m.mu.Unlock()
	if hurt != nil && !r.IsWatch() {
		fault = hurt()
	}
	for _, at := range traps {
		if !at.moment.isOf(r) {
			continue
		}
		if !at.late.IsZero() {
			r.ReadBody() // nothing of it is lost if the member is killed now
		}
		select {
		case at.sprung <- m:
			if !at.late.IsZero() {
				fault = m.late(at.late, what)
			}
		default: // another one was first
		}
	}
	if fault.Delay == 0 && workloadWrite.MatchString(what) {
		fault.Delay = 100 * time.Millisecond
	}
	if fault.Status != 0 || fault.Drop != faultproxy.DropNothing || fault.Truncate {
		m.journal.done.add("failing request")
		m.journal.note("%s: %s: %s", m.name, fault, what)
	}
	return fault
}

// late returns the fault of a write that is carried out at some time, whether the member
// waits for it or not.
func (m *member) late(at time.Time, what string) faultproxy.Fault {
	m.journal.done.add("late write")
	return faultproxy.Fault{Detached: true, Delay: max(time.Millisecond, time.Until(at)), OnResponse: func() bool {
		m.journal.note("%s: carried out late: %s", m.name, what)
		return false
	}}
}

// setHurt sets the faults of a proxy's requests; nil for none.
func (m *member) setHurt(p *faultproxy.Proxy, hurt func() faultproxy.Fault) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hurt[p] = hurt
}

func (m *member) arm(at *trap) (disarm func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.traps[at] = struct{}{}
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.traps, at)
	}
}

// running returns the operator, or nil while it is down.
func (m *member) running() *operator.Operator {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.op
}

func (m *member) set(op *operator.Operator) (killed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	killed = m.killed
	m.op, m.killed = op, false
	return killed
}

// keep runs the operator until the context ends.
func (m *member) keep(ctx context.Context) {
	const pause = time.Second
	for ctx.Err() == nil {
		op, err := operator.Start(ctx, m.opts)
		if err != nil {
			m.journal.note("%s: does not start: %.400s", m.name, err)
			wait(ctx, pause)
			continue
		}
		m.journal.note("%s: runs as process %d", m.name, op.PID())
		m.set(op)
		select {
		case <-ctx.Done():
			_ = op.Kill() // it may be paused
			return
		case <-op.Done():
		}
		end := fmt.Sprint(op.Err())
		if !m.set(nil) {
			m.mu.Lock()
			m.unexpected = append(m.unexpected, end+"\n"+op.LastLogLines())
			m.mu.Unlock()
		}
		m.journal.note("%s: has ended: %s", m.name, end)
		wait(ctx, pause)
	}
}

// signal sends a signal to the operator, if it runs.
func (m *member) signal(signal syscall.Signal) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.op == nil {
		return
	}
	m.killed = m.killed || signal == syscall.SIGKILL || signal == syscall.SIGQUIT
	select {
	case <-m.op.Done():
	default:
		if err := syscall.Kill(m.op.PID(), signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			m.journal.note("%s: %v: %v", m.name, signal, err)
		}
	}
}

// dump ends the operator, which writes to its log what all its goroutines do.
func (m *member) dump(ctx context.Context) {
	op := m.running()
	if op == nil {
		return
	}
	m.signal(syscall.SIGQUIT)
	select {
	case <-op.Done():
	case <-time.After(10 * time.Second):
	case <-ctx.Done():
	}
}

// step sets the operator's clock. No step puts it right.
func (m *member) step(by time.Duration) error {
	if by == 0 {
		return os.WriteFile(m.clock, nil, 0o600)
	}
	// It is never read half.
	if err := os.WriteFile(m.clock+".new", []byte(by.String()), 0o600); err != nil {
		return err
	}
	return os.Rename(m.clock+".new", m.clock)
}

// heal ends all that is done to the operator.
func (m *member) heal() {
	m.signal(syscall.SIGCONT)
	for _, p := range []*faultproxy.Proxy{m.api, m.store} {
		m.setHurt(p, nil)
		p.Heal()
	}
	if err := m.step(0); err != nil {
		m.journal.note("%s: %v", m.name, err)
	}
}

// wait waits for some time, or for the end of the context.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
