// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package watchdog_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/grapnel-dev/grapnel/internal/panics"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/filesystem"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/memory"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/storetest"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/watchdog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var limits = watchdog.Timeouts{Call: time.Minute, Stream: 30 * time.Second, Finish: 10 * time.Minute}

func wrap(store objectstore.Store, stuck *watchdog.StuckCalls) *watchdog.Store {
	return watchdog.New(store, watchdog.Options{Name: "the volume of location main", Hint: "check the volume", Timeouts: limits, StuckCalls: stuck})
}

// TestConformance: the wrapper does not change the behavior of a healthy store.
func TestConformance(t *testing.T) {
	t.Parallel()
	storetest.RunConformance(t, func() objectstore.Store {
		store, err := filesystem.Open(t.TempDir(), "")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() })
		return wrap(store, nil)
	})
}

// calls returns one call of each kind.
func calls() map[storetest.Method]func(context.Context, objectstore.Store) error {
	return map[storetest.Method]func(context.Context, objectstore.Store) error{
		storetest.MethodPut: func(ctx context.Context, s objectstore.Store) error {
			_, err := s.Put(ctx, "new", strings.NewReader("content"), objectstore.PutOptions{})
			return err
		},
		storetest.MethodGet: func(ctx context.Context, s objectstore.Store) error {
			r, err := s.Get(ctx, "key")
			if err != nil {
				return err
			}
			_, err = io.ReadAll(r)
			return errors.Join(err, r.Close())
		},
		storetest.MethodStat: func(ctx context.Context, s objectstore.Store) error {
			_, err := s.Stat(ctx, "key")
			return err
		},
		storetest.MethodList: func(ctx context.Context, s objectstore.Store) error {
			for _, err := range s.List(ctx, objectstore.ListOptions{}) {
				if err != nil {
					return err
				}
			}
			return nil
		},
		storetest.MethodDelete: func(ctx context.Context, s objectstore.Store) error { return s.Delete(ctx, "key") },
	}
}

// TestStore_HangingCalls makes each kind of call hang in a store that ignores its ctx.
func TestStore_HangingCalls(t *testing.T) {
	t.Parallel()
	for method, do := range calls() {
		for name, tc := range map[string]struct {
			hang     bool // in the content, not in the call
			canceled bool
			within   time.Duration
			want     error
		}{
			"until it is given up":        {within: 10*time.Minute + 5*time.Second, want: objectstore.ErrStalled},
			"and the caller is canceled":  {canceled: true, within: 5 * time.Second, want: context.Canceled},
			"in its content":              {hang: true, within: 10*time.Minute + 5*time.Second, want: objectstore.ErrStalled},
			"in its content and canceled": {hang: true, canceled: true, within: 5 * time.Second, want: context.Canceled},
		} {
			if tc.hang && method != storetest.MethodPut && method != storetest.MethodGet {
				continue
			}
			t.Run(string(method)+" "+name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					release, objects, stuck := make(chan struct{}), memory.New(), &watchdog.StuckCalls{}
					put(t, objects, "key")
					s := wrap(storetest.NewFaultyStore(objects, storetest.Fault{
						Method: method, Release: release, IgnoreContext: true, Hang: tc.hang, CutAt: 2,
					}), stuck)
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					if tc.canceled {
						time.AfterFunc(time.Second, cancel)
						tc.within += time.Second
					}
					began := time.Now()
					err := do(ctx, s)
					if took := time.Since(began); took > tc.within {
						t.Errorf("it took %s", took)
					}
					if !errors.Is(err, tc.want) {
						t.Errorf("error %v, want %v", err, tc.want)
					}
					if !tc.canceled && (!errors.Is(err, objectstore.ErrUnavailable) ||
						!strings.Contains(err.Error(), "the volume of location main has made no progress for") ||
						!strings.Contains(err.Error(), "check the volume")) {
						t.Errorf("the error does not name the store, or has no hint: %v", err)
					}
					if n := stuck.Count(); n != 1 {
						t.Errorf("%d calls were left behind, want 1", n)
					}
					close(release)
					synctest.Wait()
					if n := stuck.Count(); n != 0 {
						t.Errorf("%d calls have not returned after the store continued", n)
					}
					if _, err := objects.Stat(t.Context(), "new"); !errors.Is(err, objectstore.ErrNotExist) {
						t.Errorf("an abandoned object was stored all the same: %v", err)
					}
				})
			})
		}
	}
}

func put(t *testing.T, store objectstore.Store, key string) {
	t.Helper()
	if _, err := store.Put(t.Context(), key, strings.NewReader("content"), objectstore.PutOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestStore_TooManyStuckCalls gets no new calls until one returns.
func TestStore_TooManyStuckCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release, stuck := make(chan struct{}), &watchdog.StuckCalls{}
		faulty := storetest.NewFaultyStore(memory.New(), storetest.Fault{Release: release, IgnoreContext: true})
		s := wrap(faulty, stuck)
		for range 40 {
			if _, err := s.Stat(t.Context(), "key"); !errors.Is(err, objectstore.ErrStalled) {
				t.Fatalf("error %v", err)
			}
		}
		if n := len(faulty.Calls()); n != 16 {
			t.Errorf("%d calls hang, want 16", n)
		}
		_, err := s.Stat(t.Context(), "key")
		if err == nil || !strings.Contains(err.Error(), "16 calls to the volume of location main have not returned") {
			t.Errorf("error %v", err)
		}
		close(release)
		synctest.Wait()
		if _, err := s.Stat(t.Context(), "key"); !errors.Is(err, objectstore.ErrNotExist) {
			t.Errorf("after the store continued: error %v", err)
		}
	})
}

// closing is a store that counts closed streams.
type closing struct {
	objectstore.Store
	closed *atomic.Int32
}

func (c closing) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	r, err := c.Store.Get(ctx, key)
	return &closer{ReadCloser: r, closed: c.closed}, err
}

type closer struct {
	io.ReadCloser
	closed *atomic.Int32
}

func (c *closer) Close() error {
	c.closed.Add(1)
	return c.ReadCloser.Close()
}

// TestObjectReader_TooManyStuckCalls has streams of a store with too many stuck calls. They can be closed, which frees their resources, but
// not read.
func TestObjectReader_TooManyStuckCalls(t *testing.T) {
	t.Parallel()
	for name, read := range map[string]bool{"closed": false, "read and closed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				release, objects, closed := make(chan struct{}), memory.New(), &atomic.Int32{}
				put(t, objects, "key")
				s := wrap(storetest.NewFaultyStore(closing{objects, closed}, storetest.Fault{
					Method: storetest.MethodStat, Release: release, IgnoreContext: true,
				}), nil)
				r, err := s.Get(t.Context(), "key")
				if err != nil {
					t.Fatal(err)
				}
				for range 16 {
					if _, err := s.Stat(t.Context(), "key"); !errors.Is(err, objectstore.ErrStalled) {
						t.Fatalf("error %v", err)
					}
				}
				if read {
					if n, err := r.Read(make([]byte, 1)); n != 0 || !errors.Is(err, objectstore.ErrStalled) {
						t.Errorf("read %d bytes, %v", n, err)
					}
				}
				if err := r.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
				if n := closed.Load(); n != 1 {
					t.Errorf("the stream was closed %d times", n)
				}
				close(release)
				synctest.Wait()
			})
		})
	}
}

// TestStore_SlowCallers: a slow reader or writer is not taken for a store that hangs.
func TestStore_SlowCallers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := wrap(memory.New(), nil)
		slow := io.MultiReader(strings.NewReader("con"), &pause{d: time.Hour}, strings.NewReader("tent"))
		if _, err := s.Put(t.Context(), "key", slow, objectstore.PutOptions{}); err != nil {
			t.Fatal(err)
		}
		r, err := s.Get(t.Context(), "key")
		if err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		for {
			time.Sleep(time.Hour)
			if _, err := io.CopyN(&got, r, 1); err != nil {
				break
			}
		}
		if err := r.Close(); err != nil || got.String() != "content" {
			t.Errorf("read %q, %v", got.String(), err)
		}
		for _, err := range s.List(t.Context(), objectstore.ListOptions{}) {
			if err != nil {
				t.Error(err)
			}
			time.Sleep(time.Hour)
		}
	})
}

// pause is a reader that yields nothing for a while.
type pause struct{ d time.Duration }

func (p *pause) Read([]byte) (int, error) {
	time.Sleep(p.d)
	return 0, io.EOF
}

// TestPut_SlowStore transfers a few bytes at a time, which counts as progress.
func TestPut_SlowStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := wrap(&slowly{Store: memory.New()}, nil)
		if _, err := s.Put(t.Context(), "key", strings.NewReader(strings.Repeat("x", 100)), objectstore.PutOptions{}); err != nil {
			t.Error(err)
		}
	})
}

// slowly is a store that waits before each byte of a Put.
type slowly struct{ objectstore.Store }

func (s *slowly) Put(ctx context.Context, key string, r io.Reader, opts objectstore.PutOptions) (objectstore.Info, error) {
	var content bytes.Buffer
	for {
		time.Sleep(20 * time.Second)
		if _, err := io.CopyN(&content, r, 1); err != nil {
			break
		}
	}
	return s.Store.Put(ctx, key, &content, opts)
}

// TestStore_Panic turns a panic into an error of that call.
func TestStore_Panic(t *testing.T) {
	t.Parallel()
	for method, do := range calls() {
		t.Run(string(method), func(t *testing.T) {
			t.Parallel()
			if err := do(t.Context(), wrap(panicking{}, nil)); !errors.As(err, new(*panics.Error)) {
				t.Errorf("error %v, want a panic", err)
			}
		})
	}
}

// panicking is a store without an implementation.
type panicking struct{ objectstore.Store }

func (panicking) Capabilities() objectstore.Capabilities { return objectstore.Capabilities{} }

// TestPut_ReaderAfterStall: an abandoned Put does not use its reader.
func TestPut_ReaderAfterStall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		s := wrap(storetest.NewFaultyStore(memory.New(), storetest.Fault{
			Method: storetest.MethodPut, Release: release, IgnoreContext: true, Hang: true, CutAt: 1,
		}), nil)
		var over sync.Mutex
		over.Lock() // a later Read would panic on Unlock
		r := readerFunc(func(p []byte) (int, error) {
			over.Unlock()
			defer over.Lock()
			return copy(p, "x"), nil
		})
		if _, err := s.Put(t.Context(), "key", r, objectstore.PutOptions{}); !errors.Is(err, objectstore.ErrStalled) {
			t.Errorf("error %v", err)
		}
		over.Unlock()
		close(release)
		synctest.Wait()
	})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
