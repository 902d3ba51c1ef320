// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package s3_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/s3"
	"github.com/grapnel-dev/grapnel/internal/testing/s3server"
)

// transport modifies requests in transit.
type transport struct {
	next *http.Transport

	mu   sync.Mutex
	seen []string
	do   func(next http.RoundTripper, r *http.Request, nth int) (*http.Response, error)
}

func newTransport(t *testing.T, do func(http.RoundTripper, *http.Request, int) (*http.Response, error)) *transport {
	t.Helper()
	next := &http.Transport{DisableCompression: true}
	t.Cleanup(next.CloseIdleConnections)
	return &transport{next: next, do: do}
}

// RoundTrip implements http.RoundTripper. Nth counts the requests of one kind
// (method and kind of query).
func (tr *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	tr.mu.Lock()
	kind := sentinelForResponse(r)
	nth := 1
	for _, other := range tr.seen {
		if other == kind {
			nth++
		}
	}
	tr.seen = append(tr.seen, kind)
	tr.mu.Unlock()
	return tr.do(tr.next, r, nth)
}

func (tr *transport) count(kind string) int {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	n := 0
	for _, other := range tr.seen {
		if other == kind {
			n++
		}
	}
	return n
}

func sentinelForResponse(r *http.Request) string {
	q := r.URL.Query()
	switch {
	case q.Has("partNumber"):
		return "part"
	case q.Has("uploads") && r.Method == http.MethodPost:
		return "start"
	case q.Has("uploadId") && r.Method == http.MethodPost:
		return "complete"
	case q.Has("uploadId"):
		return "abort"
	case r.Method == http.MethodPost && q.Has("delete"):
		return "delete"
	}
	return r.Method
}

// lostReply executes the request and loses the reply.
func lostReply(next http.RoundTripper, r *http.Request) (*http.Response, error) {
	resp, err := next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	return nil, errors.Join(errors.New("connection reset by peer (injected)"), resp.Body.Close())
}

func answer(r *http.Request, status int, code string) *http.Response {
	body := "<Error><Code>" + code + "</Code><Message>injected</Message></Error>"
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)), Request: r,
	}
}

func openFaulty(t *testing.T, server *s3server.Server, tr *transport) *s3.Store {
	t.Helper()
	opts := server.S3Options()
	opts.Transport, opts.PartSize = tr, 1<<20
	return open(t, opts)
}

// TestStore_TransientFaults makes one request of each kind fail once, in several ways.
func TestStore_TransientFaults(t *testing.T) {
	t.Parallel()
	server := s3server.Start(t, s3server.Options{})
	for _, kind := range []string{http.MethodPut, http.MethodHead, http.MethodGet, "start", "part", "complete", "delete"} {
		for name, fault := range map[string]func(http.RoundTripper, *http.Request) (*http.Response, error){
			"reply lost": lostReply,
			"503": func(_ http.RoundTripper, r *http.Request) (*http.Response, error) {
				return answer(r, http.StatusServiceUnavailable, "SlowDown"), nil
			},
			"reset": func(http.RoundTripper, *http.Request) (*http.Response, error) {
				return nil, errors.New("connection reset by peer (injected)")
			},
		} {
			t.Run(kind+" "+name, func(t *testing.T) {
				t.Parallel()
				tr := newTransport(t, func(next http.RoundTripper, r *http.Request, nth int) (*http.Response, error) {
					if sentinelForResponse(r) == kind && nth == 1 {
						return fault(next, r)
					}
					return next.RoundTrip(r)
				})
				s := openFaulty(t, server, tr)
				useStore(t, s, strings.ReplaceAll(t.Name(), " ", "-"))
				if tr.count(kind) < 2 {
					t.Errorf("the request was not retried")
				}
			})
		}
	}
}

// useStore makes every kind of request and checks the results.
func useStore(t *testing.T, s *s3.Store, dir string) {
	t.Helper()
	content := make([]byte, 5<<20/2)
	_, _ = rand.NewChaCha8([32]byte{}).Read(content)
	big, small := dir+"/big", dir+"/small"
	if _, err := s.Put(t.Context(), small, strings.NewReader("small"), objectstore.PutOptions{IfAbsent: true}); err != nil {
		t.Errorf("conditional put: %v", err)
	}
	if _, err := s.Put(t.Context(), big, bytes.NewReader(content), objectstore.PutOptions{IfAbsent: true}); err != nil {
		t.Errorf("multipart put: %v", err)
	}
	if got := readAll(t, s, big); !bytes.Equal(got, content) {
		t.Errorf("read %d bytes that differ from the %d written", len(got), len(content))
	}
	if !s.Capabilities().PutIfAbsent {
		t.Error("put-if-absent was not detected")
	}
	if err := s.Delete(t.Context(), big, small); err != nil {
		t.Errorf("delete: %v", err)
	}
	if _, err := s.Stat(t.Context(), big); !errors.Is(err, objectstore.ErrNotExist) {
		t.Errorf("after deletion: error %v", err)
	}
}

// TestPut_PermanentFaults: the error has the cause, and nothing is left behind.
func TestPut_PermanentFaults(t *testing.T) {
	t.Parallel()
	server := s3server.Start(t, s3server.Options{})
	for name, tc := range map[string]struct {
		kind   string
		status int
		code   string
		want   error
	}{
		"down while sending parts":   {"part", http.StatusServiceUnavailable, "ServiceUnavailable", objectstore.ErrUnavailable},
		"expired while sending":      {"part", http.StatusBadRequest, "ExpiredToken", objectstore.ErrAccess},
		"denied at completion":       {"complete", http.StatusForbidden, "AccessDenied", objectstore.ErrAccess},
		"200 with an error inside":   {"complete", http.StatusOK, "InternalError", objectstore.ErrUnavailable},
		"full":                       {"part", http.StatusInsufficientStorage, "XMinioStorageFull", objectstore.ErrNoSpace},
		"clock":                      {"start", http.StatusForbidden, "RequestTimeTooSkewed", objectstore.ErrAccess},
		"an answer that is not S3":   {"start", http.StatusTeapot, "", nil},
		"precondition at completion": {"complete", http.StatusPreconditionFailed, "PreconditionFailed", objectstore.ErrExists},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := server.S3Options()
			opts.PartSize, opts.MaxRetries = 1<<20, 2
			opts.Transport = newTransport(t, func(next http.RoundTripper, r *http.Request, _ int) (*http.Response, error) {
				if sentinelForResponse(r) == tc.kind {
					return answer(r, tc.status, tc.code), nil
				}
				return next.RoundTrip(r)
			})
			s := open(t, opts)
			key := "stays/" + tc.kind + "/" + strings.ReplaceAll(name, " ", "-")
			_, err := s.Put(t.Context(), key, bytes.NewReader(make([]byte, 3<<20)), objectstore.PutOptions{})
			if err == nil || (tc.want != nil && !errors.Is(err, tc.want)) {
				t.Errorf("error %v, want %v", err, tc.want)
			}
			if _, err := s.Stat(t.Context(), key); !errors.Is(err, objectstore.ErrNotExist) {
				t.Errorf("the object: error %v, want ErrNotExist", err)
			}
			if n, err := s.AbortUploads(t.Context(), key); n != 0 || err != nil {
				t.Errorf("%d unfinished uploads are left, error %v", n, err)
			}
		})
	}
}

func TestObjectReader_Resume(t *testing.T) {
	t.Parallel()
	server := s3server.Start(t, s3server.Options{})
	content := make([]byte, 3<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(content)
	for name, tc := range map[string]struct {
		breaks int
		change bool
		wantOK bool
	}{
		"after one break":              {1, false, true},
		"after many breaks":            {5, false, true},
		"not if the object is another": {1, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key := strings.ReplaceAll(t.Name(), " ", "-")
			plain := open(t, server.S3Options())
			if _, err := plain.Put(t.Context(), key, bytes.NewReader(content), objectstore.PutOptions{}); err != nil {
				t.Fatal(err)
			}
			tr := newTransport(t, func(next http.RoundTripper, r *http.Request, nth int) (*http.Response, error) {
				resp, err := next.RoundTrip(r)
				if err == nil && sentinelForResponse(r) == http.MethodGet && nth <= tc.breaks {
					resp.Body = &breaking{ReadCloser: resp.Body, left: 300 << 10}
				}
				return resp, err
			})
			r, err := openFaulty(t, server, tr).Get(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = r.Close() }()
			if tc.change {
				if _, err := plain.Put(t.Context(), key, strings.NewReader("other"), objectstore.PutOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			got, err := io.ReadAll(r)
			if (err == nil) != tc.wantOK {
				t.Errorf("error %v, want success: %v", err, tc.wantOK)
			}
			if err == nil && !bytes.Equal(got, content) {
				t.Errorf("read %d bytes that differ", len(got))
			}
		})
	}
}

// breaking is a body whose connection breaks after some bytes.
type breaking struct {
	io.ReadCloser
	left int
}

func (b *breaking) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, errors.New("connection reset by peer (injected)")
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// TestObjectReader_CanceledBuffered uses a connection that delivered the whole object before the
// context ended. The next read must fail all the same, not only if the connection is broken
// in time.
func TestObjectReader_CanceledBuffered(t *testing.T) {
	t.Parallel()
	server := s3server.Start(t, s3server.Options{})
	if _, err := open(t, server.S3Options()).Put(t.Context(), "key", strings.NewReader("content"), objectstore.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	tr := newTransport(t, func(next http.RoundTripper, r *http.Request, _ int) (*http.Response, error) {
		resp, err := next.RoundTrip(r)
		if err != nil || sentinelForResponse(r) != http.MethodGet {
			return resp, err
		}
		content, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		resp.Body = io.NopCloser(bytes.NewReader(content))
		return resp, err
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := openFaulty(t, server, tr).Get(ctx, "key")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	if _, err := io.CopyN(io.Discard, r, 1); err != nil {
		t.Fatal(err)
	}
	cancel()
	if n, err := io.Copy(io.Discard, r); n != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("then read %d bytes with error %v, want none and context.Canceled", n, err)
	}
}

// TestAbortUploads simulates a process that died in the middle of an upload.
func TestAbortUploads(t *testing.T) {
	t.Parallel()
	server := s3server.Start(t, s3server.Options{})
	died := errors.New("died (injected)")
	tr := newTransport(t, func(next http.RoundTripper, r *http.Request, nth int) (*http.Response, error) {
		if sentinelForResponse(r) == "abort" || (sentinelForResponse(r) == "part" && nth > 1) {
			return nil, died
		}
		return next.RoundTrip(r)
	})
	opts := server.S3Options()
	opts.Transport, opts.PartSize, opts.MaxRetries = tr, 1<<20, 1
	for _, key := range []string{"dead/a", "dead/b", "alive/c"} {
		if _, err := open(t, opts).Put(t.Context(), key, bytes.NewReader(make([]byte, 4<<20)), objectstore.PutOptions{}); err == nil {
			t.Fatal("the upload succeeded")
		}
	}
	s := open(t, server.S3Options())
	if n, err := s.AbortUploads(t.Context(), "dead/"); n != 2 || err != nil {
		t.Errorf("aborted %d uploads, error %v, want 2", n, err)
	}
	if n, err := s.AbortUploads(t.Context(), ""); n != 1 || err != nil {
		t.Errorf("then aborted %d uploads, error %v, want 1", n, err)
	}
}

func TestPut_TooManyParts(t *testing.T) {
	t.Parallel()
	opts := s3server.Start(t, s3server.Options{}).S3Options()
	opts.PartSize = 1 << 10
	s := open(t, opts)
	s.LimitParts(4)
	if _, err := s.Put(t.Context(), "fits", bytes.NewReader(make([]byte, 4<<10)), objectstore.PutOptions{}); err != nil {
		t.Errorf("exactly the limit: %v", err)
	}
	_, err := s.Put(t.Context(), "too-big", bytes.NewReader(make([]byte, 4<<10+1)), objectstore.PutOptions{})
	if !errors.Is(err, objectstore.ErrTooLarge) {
		t.Errorf("one byte more: error %v, want ErrTooLarge", err)
	}
	if _, err := s.Stat(t.Context(), "too-big"); !errors.Is(err, objectstore.ErrNotExist) {
		t.Errorf("the object: error %v, want ErrNotExist", err)
	}
}

// TestPut_Memory measures the live heap in the middle of a long upload.
func TestPut_Memory(t *testing.T) {
	server := s3server.Start(t, s3server.Options{})
	s := open(t, server.S3Options())
	const part, parts = 16 << 20, 10
	before, peak := liveHeap(), uint64(0)
	next := part / 2
	r := &countingReader{limit: parts * part, onRead: func(offset int) {
		if offset >= next {
			next += part
			peak = max(peak, liveHeap())
		}
	}}
	if _, err := s.Put(t.Context(), "big", r, objectstore.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	used := int64(peak) - int64(before)
	t.Logf("%d MiB uploaded with at most %.1f MiB alive", parts*part>>20, float64(used)/(1<<20))
	if used > 3*part+4<<20 {
		t.Errorf("%d bytes were alive, want at most three parts of %d", used, part)
	}
	// A small heap must not mean that a small object needs a part.
	if _, err := s.Put(t.Context(), "small", strings.NewReader("x"), objectstore.PutOptions{}); err != nil {
		t.Fatal(err)
	}
}

func liveHeap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// countingReader is a stream of zeros that reports its progress.
type countingReader struct {
	offset, limit int
	onRead        func(offset int)
}

func (r *countingReader) Read(p []byte) (int, error) {
	r.onRead(r.offset)
	n := min(len(p), r.limit-r.offset)
	if n == 0 {
		return 0, io.EOF
	}
	clear(p[:n])
	r.offset += n
	return n, nil
}

func readAll(t *testing.T, s *s3.Store, key string) []byte {
	t.Helper()
	r, err := s.Get(context.WithoutCancel(t.Context()), key)
	if err != nil {
		t.Error(err)
		return nil
	}
	defer func() { _ = r.Close() }()
	data, err := io.ReadAll(r)
	if err != nil {
		t.Error(err)
	}
	return data
}

// TestPut_ETagForms: if a server returns another ETag for a write than for a read, Put
// returns that of the read, and still checks the size.
func TestPut_ETagForms(t *testing.T) {
	t.Parallel()
	server := s3server.Start(t, s3server.Options{})
	for name, size := range map[string]int{"one part": 10, "several parts": 3 << 20} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key, cut := strings.ReplaceAll(name, " ", "-"), false
			s := openFaulty(t, server, newTransport(t, func(next http.RoundTripper, r *http.Request, _ int) (*http.Response, error) {
				response, err := next.RoundTrip(r)
				if err == nil && r.Method == http.MethodHead && response.StatusCode == http.StatusOK {
					response.Header.Set("ETag", `"other"`)
					if cut {
						response.Header.Set("Content-Length", "1")
					}
				}
				return response, err
			}))
			info, err := s.Put(t.Context(), key, bytes.NewReader(make([]byte, size)), objectstore.PutOptions{})
			if err != nil || info.ETag != "other" {
				t.Errorf("Put returns ETag %q, %v", info.ETag, err)
			}
			cut = true
			if _, err := s.Put(t.Context(), key, bytes.NewReader(make([]byte, size)), objectstore.PutOptions{}); err == nil ||
				!strings.Contains(err.Error(), "the server says it stored 1") {
				t.Errorf("error %v", err)
			}
		})
	}
}
