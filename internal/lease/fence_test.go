// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/memory"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/watchdog"
)

// The lease of all tests.
const (
	duration      = 15 * time.Second
	renewDeadline = 10 * time.Second
)

// clocks are set by the test, relative to some start.
type clocks = instant

// newFence returns a Fence with clocks that a test sets.
func newFence(c *clocks) *Fence {
	f := New(duration, renewDeadline)
	f.now = func() instant { return *c }
	return f
}

// TestCheckRenewed: the largest age that any clock shows counts.
func TestCheckRenewed(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		begin   func(*Fence)
		later   clocks
		wantErr error
	}{
		"never leader":                 {begin: func(*Fence) {}, wantErr: ErrNotLeading},
		"lease just renewed":           {},
		"before the deadline":          {later: clocks{monotonic: renewDeadline - 1, wall: renewDeadline - 1}},
		"at the deadline":              {later: clocks{monotonic: renewDeadline, wall: renewDeadline}, wantErr: ErrStale},
		"the machine slept":            {later: clocks{boot: time.Hour}, wantErr: ErrStale},
		"the wall clock was set ahead": {later: clocks{wall: time.Hour}, wantErr: ErrStale},
		"the wall clock was set back":  {later: clocks{monotonic: time.Second, wall: -time.Hour}},
		"set back, deadline passed":    {later: clocks{monotonic: renewDeadline, wall: -time.Hour}, wantErr: ErrStale},
		"lease released":               {begin: func(f *Fence) { f.recordRenewal(f.now()); f.recordRelease() }, wantErr: ErrNotLeading},
		"lease held by another":        {begin: func(f *Fence) { f.recordRenewal(f.now()); f.recordLoss("b") }, wantErr: ErrLost},
		"lease held by another, then renewed": {
			begin: func(f *Fence) { f.recordRenewal(f.now()); f.recordLoss("b"); f.recordRenewal(f.now()) }, wantErr: ErrLost,
		},
		"held by another, never leader": {begin: func(f *Fence) { f.recordLoss("b") }, wantErr: ErrNotLeading},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := clocks{}
			f := newFence(&c)
			if tc.begin == nil {
				tc.begin = func(f *Fence) { f.recordRenewal(f.now()) }
			}
			tc.begin(f)
			c = tc.later
			if _, err := f.checkRenewed(); !errors.Is(err, tc.wantErr) || (err != nil) != (tc.wantErr != nil) {
				t.Errorf("error is %v, want %v", err, tc.wantErr)
			}
		})
	}
}

// TestCheckExpired: elapsed time ends an operator, a clock that was set does not.
func TestCheckExpired(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		later clocks
		lost  bool
	}{
		"the lease is stale only":      {later: clocks{monotonic: duration - 1, wall: duration - 1}},
		"the lease has expired":        {later: clocks{monotonic: duration, wall: duration}, lost: true},
		"the machine slept":            {later: clocks{boot: duration}, lost: true},
		"the wall clock was set ahead": {later: clocks{wall: 365 * 24 * time.Hour}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := clocks{}
			f := newFence(&c)
			f.recordRenewal(f.now())
			c = tc.later
			if _, err := f.checkExpired(); errors.Is(err, ErrLost) != tc.lost {
				t.Errorf("error is %v", err)
			}
			if _, err := f.checkRenewed(); errors.Is(err, ErrLost) != tc.lost {
				t.Errorf("afterwards the error is %v", err)
			}
		})
	}
}

// TestWaitForLease: waiters may act after the next renewal, and never if the lease is
// lost.
func TestWaitForLease(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		then    func(*Fence, context.CancelFunc)
		wantErr error
	}{
		"renewed":  {then: func(f *Fence, _ context.CancelFunc) { f.recordRenewal(f.now()) }},
		"lost":     {then: func(f *Fence, _ context.CancelFunc) { f.recordLoss("b") }, wantErr: ErrLost},
		"released": {then: func(f *Fence, _ context.CancelFunc) { f.recordRelease() }, wantErr: ErrNotLeading},
		"canceled": {then: func(_ *Fence, cancel context.CancelFunc) { cancel() }, wantErr: context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				f := New(duration, renewDeadline)
				f.recordRenewal(f.now())
				time.Sleep(renewDeadline)
				waited := make(chan error, 1)
				go func() { waited <- f.WaitForLease(ctx) }()
				synctest.Wait()
				select {
				case err := <-waited:
					t.Fatalf("WaitForLease did not wait: %v", err)
				default:
				}
				tc.then(f, cancel)
				if err := <-waited; !errors.Is(err, tc.wantErr) {
					t.Errorf("error is %v, want %v", err, tc.wantErr)
				}
			})
		})
	}
}

// TestWaitUntilLost: it returns at once when another operator leads, and by itself when the lease
// has expired.
func TestWaitUntilLost(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		then  func(*Fence)
		after time.Duration
	}{
		"another leader": {then: func(f *Fence) { f.recordLoss("b") }},
		"expired":        {then: func(*Fence) {}, after: duration},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := New(duration, renewDeadline)
				f.recordRenewal(f.now())
				watched := make(chan error, 1)
				go func() { watched <- f.WaitUntilLost(t.Context()) }()
				synctest.Wait()
				began := time.Now()
				tc.then(f)
				if err := <-watched; !errors.Is(err, ErrLost) {
					t.Errorf("error is %v", err)
				}
				if took := time.Since(began); took < tc.after || took > tc.after+time.Second {
					t.Errorf("WaitUntilLost took %s, want %s", took, tc.after)
				}
			})
		})
	}
}

// electionLock is a lock whose requests take some time and return what a test says.
type electionLock struct {
	resourcelock.Interface
	holder string
	err    error
	took   func()
}

func (*electionLock) Identity() string { return "a" }

func (l *electionLock) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	return &resourcelock.LeaderElectionRecord{HolderIdentity: l.holder}, nil, l.err
}

func (l *electionLock) Create(context.Context, resourcelock.LeaderElectionRecord) error {
	l.took()
	return l.err
}

func (l *electionLock) Update(context.Context, resourcelock.LeaderElectionRecord) error {
	l.took()
	return l.err
}

// TestWrapElectionLock: a renewal counts from before its request, because other operators may count
// so.
func TestWrapElectionLock(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err     error
		do      func(context.Context, resourcelock.Interface) error
		wantErr error
	}{
		"acquired": {do: func(ctx context.Context, l resourcelock.Interface) error {
			return l.Create(ctx, resourcelock.LeaderElectionRecord{HolderIdentity: "a"})
		}},
		"renewed": {do: func(ctx context.Context, l resourcelock.Interface) error {
			return l.Update(ctx, resourcelock.LeaderElectionRecord{HolderIdentity: "a"})
		}},
		"not renewed": {err: errors.New("refused"), wantErr: ErrStale, do: func(ctx context.Context, l resourcelock.Interface) error {
			return l.Update(ctx, resourcelock.LeaderElectionRecord{HolderIdentity: "a"})
		}},
		"released": {wantErr: ErrNotLeading, do: func(ctx context.Context, l resourcelock.Interface) error {
			return l.Update(ctx, resourcelock.LeaderElectionRecord{})
		}},
		"released, but the response was lost": {err: errors.New("timeout"), wantErr: ErrNotLeading, do: func(ctx context.Context, l resourcelock.Interface) error {
			return l.Update(ctx, resourcelock.LeaderElectionRecord{})
		}},
		"read, and another operator holds it": {wantErr: ErrLost, do: func(ctx context.Context, l resourcelock.Interface) error {
			_, _, err := l.Get(ctx)
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := clocks{}
			f := newFence(&c)
			f.recordRenewal(f.now())
			c.monotonic = renewDeadline - time.Second
			l := f.WrapElectionLock(&electionLock{holder: "b", err: tc.err, took: func() { c.monotonic += 2 * time.Second }})
			if err := tc.do(t.Context(), l); !errors.Is(err, tc.err) {
				t.Errorf("the election gets %v, want %v", err, tc.err)
			}
			if _, err := f.checkRenewed(); !errors.Is(err, tc.wantErr) {
				t.Errorf("error is %v, want %v", err, tc.wantErr)
			}
			c.monotonic = 2*renewDeadline - time.Second
			if _, err := f.checkRenewed(); err == nil {
				t.Error("a renewal counts from the response on")
			}
		})
	}
}

// roundTripper counts requests.
type roundTripper struct{ sent int }

func (r *roundTripper) RoundTrip(*http.Request) (*http.Response, error) {
	r.sent++
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

// TestWrapTransport: reads pass, and so do the reviews that authorize readers of metrics.
func TestWrapTransport(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		method, path string
		passes       bool
	}{
		"read":                 {http.MethodGet, "/api/v1/namespaces/shop/pods", true},
		"review of a token":    {http.MethodPost, "/apis/authentication.k8s.io/v1/tokenreviews", true},
		"review of an access":  {http.MethodPost, "/apis/authorization.k8s.io/v1/subjectaccessreviews", true},
		"patch":                {http.MethodPatch, "/apis/apps/v1/namespaces/shop/deployments/web", false},
		"create":               {http.MethodPost, "/apis/batch/v1/namespaces/shop/jobs", false},
		"delete":               {http.MethodDelete, "/api/v1/namespaces/shop/pods/web", false},
		"command":              {http.MethodPost, "/api/v1/namespaces/shop/pods/web/exec", false},
		"command by WebSocket": {http.MethodGet, "/api/v1/namespaces/shop/pods/web/exec", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := New(duration, renewDeadline)
			next := &roundTripper{}
			req, err := http.NewRequestWithContext(t.Context(), tc.method, "https://localhost"+tc.path, strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := f.WrapTransport(next).RoundTrip(req)
			if err == nil {
				_ = resp.Body.Close()
			}
			if tc.passes != (err == nil) || tc.passes != (next.sent == 1) || (!tc.passes && !errors.Is(err, ErrNotLeading)) {
				t.Errorf("%d requests were sent: %v", next.sent, err)
			}
			f.recordRenewal(f.now())
			if resp, err := f.WrapTransport(next).RoundTrip(req); err != nil {
				t.Errorf("the leader's request is rejected: %v", err)
			} else {
				_ = resp.Body.Close()
			}
		})
	}
}

// TestWrapObjectStore: nothing is written without the lease, even if the lease is lost during a
// Put.
func TestWrapObjectStore(t *testing.T) {
	t.Parallel()
	f := New(duration, renewDeadline)
	under := &counting{ExtendedStore: objects()}
	s := f.WrapObjectStore(under)
	put := func(content io.Reader) error {
		_, err := s.Put(t.Context(), "key", content, objectstore.PutOptions{})
		return err
	}
	if err := put(strings.NewReader("x")); !errors.Is(err, ErrNotLeading) {
		t.Errorf("before it leads, Put returns %v", err)
	}
	if under.puts > 0 {
		t.Error("before it leads, Put starts to write")
	}
	if err := s.Delete(t.Context(), "key"); !errors.Is(err, ErrNotLeading) {
		t.Errorf("before it leads, Delete returns %v", err)
	}
	f.recordRenewal(f.now())
	if err := put(strings.NewReader("first")); err != nil {
		t.Fatal(err)
	}
	atEnd := readerFunc(func([]byte) (int, error) {
		f.recordLoss("b")
		return 0, io.EOF
	})
	if err := put(io.MultiReader(iotest.OneByteReader(strings.NewReader("second")), atEnd)); !errors.Is(err, ErrLost) {
		t.Errorf("when the lease is lost during a Put, it returns %v", err)
	}
	content, err := s.Get(t.Context(), "key")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(content); err != nil || string(got) != "first" {
		t.Errorf("stored is %q: %v", got, err)
	}
}

// counting counts the writes of a store.
type counting struct {
	objectstore.ExtendedStore
	puts int
}

// Put implements objectstore.Store.
func (c *counting) Put(ctx context.Context, key string, r io.Reader, opts objectstore.PutOptions) (objectstore.Info, error) {
	c.puts++
	return c.ExtendedStore.Put(ctx, key, r, opts)
}

type readerFunc func([]byte) (int, error)

func (r readerFunc) Read(p []byte) (int, error) { return r(p) }

// objects returns an empty store.
func objects() objectstore.ExtendedStore { return watchdog.New(memory.New(), watchdog.Options{}) }

// TestFencedStore_AbortUploads: it aborts uploads that another process may be writing.
func TestFencedStore_AbortUploads(t *testing.T) {
	t.Parallel()
	f := New(duration, renewDeadline)
	s := f.WrapObjectStore(objects())
	if _, err := s.AbortUploads(t.Context(), ""); !errors.Is(err, ErrNotLeading) {
		t.Errorf("before it leads, AbortUploads returns %v", err)
	}
	f.recordRenewal(f.now())
	if _, err := s.AbortUploads(t.Context(), ""); err != nil {
		t.Errorf("the leader's AbortUploads returns %v", err)
	}
}

// TestFence_Nil: without leader election, nothing is delayed.
func TestFence_Nil(t *testing.T) {
	t.Parallel()
	var f *Fence
	if err := f.WaitForLease(t.Context()); err != nil {
		t.Error(err)
	}
	next, store := &roundTripper{}, objects()
	if f.WrapTransport(next) != http.RoundTripper(next) || f.WrapObjectStore(store) != store {
		t.Error("something is wrapped")
	}
}
