// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package s3_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/internal/storage/awscredentials"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/s3"
)

// partSize is the size of the parts that putParts sends.
const partSize = 1 << 20

// stalling starts a server, and returns a store in it whose connections may be idle for
// timeout. Part is the part size; 0 means the default. Handlers that wait for the end of
// their request end with the test.
func stalling(t *testing.T, timeout time.Duration, part int, handler http.HandlerFunc) *s3.Store {
	t.Helper()
	over := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		go func() {
			select {
			case <-over:
				cancel()
			case <-ctx.Done():
			}
		}()
		handler(w, r.WithContext(ctx))
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(over) })
	store, err := s3.New(s3.Options{
		Bucket: "bucket", Region: "us-east-1", Endpoint: server.URL, ForcePathStyle: true,
		Credentials:  awscredentials.Credentials{AccessKeyID: "key", SecretAccessKey: "secret"},
		StallTimeout: timeout, PartSize: part,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

func wantStalled(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, objectstore.ErrStalled) || !errors.Is(err, objectstore.ErrUnavailable) ||
		!strings.Contains(err.Error(), "the S3 server 127.0.0.1:") || !strings.Contains(err.Error(), "check the server") {
		t.Errorf("error %v, want one that names the store and has a hint", err)
	}
}

// TestStore_StalledServer accepts a request and then stops, in each direction.
func TestStore_StalledServer(t *testing.T) {
	t.Parallel()
	stop := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	for name, tc := range map[string]struct {
		handler http.HandlerFunc
		do      func(context.Context, *s3.Store) error
	}{
		"while it takes an object": {handler: stop, do: func(ctx context.Context, s *s3.Store) error {
			_, err := s.Put(ctx, "key", strings.NewReader(strings.Repeat("x", partSize-1)), objectstore.PutOptions{})
			return err
		}},
		"before it starts an upload": {handler: stop, do: putParts},
		"while it takes the parts": {
			handler: (&bucket{before: func(r *http.Request, _ int) {
				if sentinelForResponse(r) == "part" {
					<-r.Context().Done()
				}
			}}).serve,
			do: putParts,
		},
		"once the object is there": {
			handler: (&bucket{before: func(r *http.Request, _ int) {
				if sentinelForResponse(r) == http.MethodHead {
					<-r.Context().Done()
				}
			}}).serve,
			do: putParts,
		},
		"before it answers": {handler: stop, do: func(ctx context.Context, s *s3.Store) error {
			_, err := s.Stat(ctx, "key")
			return err
		}},
		"before it lists": {handler: stop, do: func(ctx context.Context, s *s3.Store) error {
			for _, err := range s.List(ctx, objectstore.ListOptions{}) {
				return err
			}
			return nil
		}},
		"before it deletes": {handler: stop, do: func(ctx context.Context, s *s3.Store) error { return s.Delete(ctx, "a", "b") }},
		"while it sends an object": {
			handler: func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Length", "1000000")
				w.Header().Set("ETag", `"1"`)
				w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
				if r.Header.Get("Range") != "" {
					w.Header().Set("Content-Range", "bytes 4-999999/1000000")
					w.WriteHeader(http.StatusPartialContent)
				} else {
					_, _ = io.WriteString(w, "part")
				}
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
			},
			do: func(ctx context.Context, s *s3.Store) error {
				r, err := s.Get(ctx, "key")
				if err != nil {
					return err
				}
				_, err = io.Copy(io.Discard, r)
				return errors.Join(err, r.Close())
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			wantStalled(t, tc.do(ctx, stalling(t, 300*time.Millisecond, partSize, tc.handler)))
		})
	}
}

// TestStore_SlowServer transfers bytes all the time, and takes longer in total than a
// connection may be idle.
func TestStore_SlowServer(t *testing.T) {
	t.Parallel()
	// The socket buffers, some megabytes, hide a part of the transfer.
	const size, steps = 15 << 20, 40
	var stored atomic.Int64
	store := stalling(t, 2*time.Second, 0, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"1"`)
		w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
		switch r.Method {
		case http.MethodPut:
			var taken int64
			for range steps {
				n, _ := io.CopyN(io.Discard, r.Body, size/steps)
				taken += n
				time.Sleep(75 * time.Millisecond)
			}
			n, _ := io.Copy(io.Discard, r.Body)
			// On a starved machine, the request may be sent twice.
			stored.Store(taken + n)
		case http.MethodHead:
			w.Header().Set("Content-Length", fmt.Sprint(stored.Load()))
		case http.MethodGet:
			w.Header().Set("Content-Length", "10")
			for range 10 {
				time.Sleep(250 * time.Millisecond)
				_, _ = io.WriteString(w, "x")
				_ = http.NewResponseController(w).Flush()
			}
		}
	})
	if _, err := store.Put(t.Context(), "key", strings.NewReader(strings.Repeat("x", size)), objectstore.PutOptions{}); err != nil {
		t.Error(err)
	}
	r, err := store.Get(t.Context(), "key")
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(3 * time.Second) // the reader may be slow
	if got, err := io.ReadAll(r); err != nil || len(got) != 10 {
		t.Errorf("read %q, %v", got, err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// putParts stores an object of five parts.
func putParts(ctx context.Context, s *s3.Store) error {
	_, err := s.Put(ctx, "key", strings.NewReader(strings.Repeat("x", 5*partSize)), objectstore.PutOptions{})
	return err
}

// bucket is a server that stores one object, uploaded in parts.
type bucket struct {
	// before is called with each request and its count, including this request.
	before func(r *http.Request, nth int)

	mu      sync.Mutex
	seen    map[string]int
	mark    string
	size    int64
	stored  bool
	aborted bool
}

// assemble completes the upload.
func (b *bucket) assemble() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stored = true
}

// count returns how often a request was made: its kind and the number of the part.
func (b *bucket) count(kind, part string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.seen[kind+" "+part]
}

func (b *bucket) enter(r *http.Request) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.seen == nil {
		b.seen = map[string]int{}
	}
	key := sentinelForResponse(r) + " " + r.URL.Query().Get("partNumber")
	b.seen[key]++
	return b.seen[key]
}

func (b *bucket) serve(w http.ResponseWriter, r *http.Request) {
	b.before(r, b.enter(r))
	if r.Context().Err() != nil {
		return
	}
	n, _ := io.Copy(io.Discard, r.Body)
	b.mu.Lock()
	defer b.mu.Unlock()
	w.Header().Set("ETag", `"1"`)
	switch kind := sentinelForResponse(r); {
	case kind == "start":
		b.mark = r.Header.Get("X-Amz-Meta-Grapnel-Put")
		_, _ = io.WriteString(w, "<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>")
	case kind == "part":
		b.size += n
	case kind == "complete" && b.stored:
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, "<Error><Code>NoSuchUpload</Code></Error>")
	case kind == "complete":
		b.stored = true
		_, _ = io.WriteString(w, `<CompleteMultipartUploadResult><Bucket>bucket</Bucket><ETag>"1"</ETag></CompleteMultipartUploadResult>`)
	case kind == "abort":
		b.aborted = true
		w.WriteHeader(http.StatusNoContent)
	case kind == http.MethodHead && b.stored:
		w.Header().Set("X-Amz-Meta-Grapnel-Put", b.mark)
		w.Header().Set("Content-Length", fmt.Sprint(b.size))
		w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// TestPut_StalledParts: after an interruption of concurrent parts, each of them is sent
// again.
func TestPut_StalledParts(t *testing.T) {
	t.Parallel()
	b := &bucket{before: func(r *http.Request, nth int) {
		if sentinelForResponse(r) == "part" && nth == 1 {
			<-r.Context().Done()
		}
	}}
	if err := putParts(t.Context(), stalling(t, 500*time.Millisecond, partSize, b.serve)); err != nil {
		t.Error(err)
	}
	for part := 1; part <= 5; part++ {
		if n := b.count("part", fmt.Sprint(part)); n != 2 {
			t.Errorf("part %d was sent %d times", part, n)
		}
	}
}

// TestPut_SlowAssembly sends nothing for a long time while it assembles the parts.
func TestPut_SlowAssembly(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		stalls   int  // number of requests without an answer
		assembly int  // the one after which the object exists; 0 means none
		fails    bool // whether the upload fails
	}{
		"and then answers":                {stalls: 4},
		"and then reports no such upload": {stalls: 4, assembly: 4},
		"and never answers":               {stalls: 100, assembly: 6},
		"and never creates the object":    {stalls: 100, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &bucket{}
			b.before = func(r *http.Request, nth int) {
				if sentinelForResponse(r) != "complete" || nth > tc.stalls {
					return
				}
				if nth == tc.assembly {
					b.assemble()
				}
				<-r.Context().Done()
			}
			err := putParts(t.Context(), stalling(t, 300*time.Millisecond, partSize, b.serve))
			if tc.fails {
				wantStalled(t, err)
			} else if err != nil {
				t.Error(err)
			}
			b.mu.Lock()
			defer b.mu.Unlock()
			if b.aborted != tc.fails {
				t.Errorf("the upload was aborted: %t", b.aborted)
			}
		})
	}
}

// TestStore_HandshakeTimeout: a connection that was never established does not count as a stall,
// and is retried like any other.
func TestStore_HandshakeTimeout(t *testing.T) {
	t.Parallel()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var accepted atomic.Int32
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			accepted.Add(1)
			defer func() { _ = c.Close() }()
		}
	}()
	t.Cleanup(func() { _ = listener.Close(); <-served })
	transport := &http.Transport{TLSHandshakeTimeout: 50 * time.Millisecond}
	store, err := s3.New(s3.Options{
		Bucket: "bucket", Region: "us-east-1", Endpoint: "https://" + listener.Addr().String(), ForcePathStyle: true,
		Credentials: awscredentials.Credentials{AccessKeyID: "key", SecretAccessKey: "secret"},
		MaxRetries:  4, Transport: transport,
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = store.Stat(t.Context(), "key")
	if !errors.Is(err, objectstore.ErrUnavailable) || errors.Is(err, objectstore.ErrStalled) {
		t.Errorf("error %v", err)
	}
	if n := accepted.Load(); n != 4 {
		t.Errorf("it was tried %d times, want 4", n)
	}
}
