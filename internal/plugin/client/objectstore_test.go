// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pluginclient "github.com/grapnel-dev/grapnel/internal/plugin/client"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/storetest"
	"github.com/grapnel-dev/grapnel/internal/testing/storeplugin"
)

func TestMain(m *testing.M) {
	storeplugin.ServeIfAsked()
	goleak.VerifyTestMain(m)
}

func TestStore_Conformance(t *testing.T) {
	t.Parallel()
	storetest.RunConformance(t, func() objectstore.Store { return newFake().store() })
}

// TestStore_ErrorTexts shows the messages for errors of the plugin.
func TestStore_ErrorTexts(t *testing.T) {
	t.Parallel()
	denied := status.Error(codes.Unknown, "AccessDenied for "+secret)
	f := newFake()
	f.put = func(context.Context, string, io.Reader) error { return denied }
	f.get = func(context.Context, string, io.Writer) error { return denied }
	f.remove = func(string) error { return denied }
	f.list = func(string, string) ([]string, error) { return nil, denied }
	f.exists = func(context.Context, string) (bool, error) { return true, denied }
	s := f.store()
	_, putErr := s.Put(t.Context(), "dir/key", strings.NewReader("x"), objectstore.PutOptions{})
	_, absentErr := s.Put(t.Context(), "dir/key", strings.NewReader("x"), objectstore.PutOptions{IfAbsent: true})
	_, getErr := s.Get(t.Context(), "dir/key")
	_, statErr := s.Stat(t.Context(), "dir/key")
	_, listErr := collect(s.List(t.Context(), objectstore.ListOptions{Prefix: "dir/key"}))
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"put":           {putErr, `putting object "dir/key": example.io/fake: AccessDenied for [REDACTED]`},
		"put if absent": {absentErr, `putting object "dir/key": example.io/fake: AccessDenied for [REDACTED]`},
		"get":           {getErr, `getting object "dir/key": example.io/fake: AccessDenied for [REDACTED]`},
		"stat":          {statErr, `describing object "dir/key": example.io/fake: AccessDenied for [REDACTED]`},
		"list":          {listErr, `listing object "dir/key": example.io/fake: AccessDenied for [REDACTED]`},
		"delete":        {s.Delete(t.Context(), "dir/key"), `deleting object "dir/key": example.io/fake: AccessDenied for [REDACTED]`},
	} {
		if tc.err == nil || tc.err.Error() != tc.want {
			t.Errorf("%s: error %q, want %q", name, tc.err, tc.want)
		}
		if errors.Is(tc.err, objectstore.ErrUnavailable) || errors.Is(tc.err, objectstore.ErrNotExist) {
			t.Errorf("%s: %v claims more than is known", name, tc.err)
		}
	}
}

// TestStore_NoPlugin uses a plugin that is not loaded.
func TestStore_NoPlugin(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.resolve = errors.New("the plugin is not loaded")
	s := f.store()
	_, putErr := s.Put(t.Context(), "key", strings.NewReader("x"), objectstore.PutOptions{})
	_, getErr := s.Get(t.Context(), "key")
	_, listErr := collect(s.List(t.Context(), objectstore.ListOptions{}))
	for name, err := range map[string]error{"put": putErr, "get": getErr, "list": listErr, "delete": s.Delete(t.Context(), "key")} {
		if !errors.Is(err, objectstore.ErrUnavailable) || !strings.Contains(err.Error(), "the plugin is not loaded") {
			t.Errorf("%s: error %v, want ErrUnavailable and why", name, err)
		}
	}
}

// TestStore_LostProcess loses the process once, and then every time. Idempotent calls are retried
// once.
func TestStore_LostProcess(t *testing.T) {
	t.Parallel()
	do := map[string]func(s *pluginclient.Store) error{
		"Put": func(s *pluginclient.Store) error {
			_, err := s.Put(t.Context(), "new", strings.NewReader("x"), objectstore.PutOptions{})
			return err
		},
		"Get": func(s *pluginclient.Store) error { _, err := read(t, s, "key"); return err },
		"List": func(s *pluginclient.Store) error {
			_, err := collect(s.List(t.Context(), objectstore.ListOptions{}))
			return err
		},
		"Delete": func(s *pluginclient.Store) error { return s.Delete(t.Context(), "key") },
		"Exists": func(s *pluginclient.Store) error {
			_, err := s.Put(t.Context(), rand.Text(), strings.NewReader("x"), objectstore.PutOptions{IfAbsent: true})
			return err
		},
	}
	for method, repeated := range map[string]bool{"Put": false, "Get": false, "List": true, "Delete": true, "Exists": true} {
		f := newFake()
		s := f.store()
		put(t, s, "key", "x")
		f.lose[method] = 1
		err := do[method](s)
		if repeated && err != nil || !repeated && !errors.Is(err, objectstore.ErrUnavailable) {
			t.Errorf("%s that loses its process once: error %v", method, err)
		}
		if err := do[method](s); err != nil {
			t.Errorf("%s after the process was lost: %v", method, err)
		}
		f.lose[method] = 100
		if err := do[method](s); !errors.Is(err, objectstore.ErrUnavailable) || !strings.Contains(err.Error(), "killed") {
			t.Errorf("%s that loses every process: error %v", method, err)
		}
		if left := f.lose[method]; left < 98 {
			t.Errorf("%s was tried %d times", method, 100-left)
		}
	}
}

// TestStore_GetBreaks: content that ends too early must not be taken for the whole object.
func TestStore_GetBreaks(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.get = func(_ context.Context, _ string, out io.Writer) error {
		_, err := out.Write([]byte("half"))
		return errors.Join(err, status.Error(codes.Unknown, "connection reset"))
	}
	content, err := read(t, f.store(), "key")
	if content != "" && err == nil || err == nil || !strings.Contains(err.Error(), `getting object "key"`) ||
		!strings.Contains(err.Error(), "connection reset") {
		t.Errorf("read %q, error %v", content, err)
	}
}

// TestStore_GetEmptyObject uses plugins that return empty content for a missing object.
func TestStore_GetEmptyObject(t *testing.T) {
	t.Parallel()
	f := newFake()
	s := f.store()
	put(t, s, "empty", "")
	f.get = func(context.Context, string, io.Writer) error { return nil }
	if content, err := read(t, s, "empty"); content != "" || err != nil {
		t.Errorf("an empty object reads as %q, error %v", content, err)
	}
	if _, err := read(t, s, "missing"); !errors.Is(err, objectstore.ErrNotExist) {
		t.Errorf("error %v, want ErrNotExist", err)
	}
	f.exists = func(context.Context, string) (bool, error) { return false, status.Error(codes.Unknown, "no idea") }
	if _, err := read(t, s, "missing"); err == nil || errors.Is(err, objectstore.ErrNotExist) {
		t.Errorf("error %v, want one because the existence of the object is unknown", err)
	}
}

// TestStore_GetClosedEarly closes readers before their end: the calls must end.
func TestStore_GetClosedEarly(t *testing.T) {
	t.Parallel()
	f := newFake()
	ended := make(chan error, 1)
	f.get = func(ctx context.Context, _ string, out io.Writer) error {
		var err error
		for err == nil {
			_, err = out.Write(make([]byte, 1<<10))
		}
		ended <- err
		return err
	}
	r, err := f.store().Get(t.Context(), "endless")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(io.Discard, r, 5<<10); err != nil {
		t.Error(err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if <-ended == nil {
		t.Error("the call continues")
	}
}

// TestStore_PutNotRead uses a plugin that reports success too early.
func TestStore_PutNotRead(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.put = func(ctx context.Context, key string, body io.Reader) error {
		return f.keep(ctx, key, io.LimitReader(body, 10))
	}
	s := f.store()
	_, err := s.Put(t.Context(), "key", strings.NewReader(strings.Repeat("x", 100)), objectstore.PutOptions{})
	if err == nil || !strings.Contains(err.Error(), "without reading to the end") {
		t.Errorf("error %v", err)
	}
	if _, err := s.Get(t.Context(), "key"); !errors.Is(err, objectstore.ErrNotExist) {
		t.Errorf("error %v, and a part of the object is left", err)
	}
}

// TestStore_PutIsNotRetried: the content can be read only once.
func TestStore_PutIsNotRetried(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.lose["Put"] = 1
	_, err := f.store().Put(t.Context(), "key", strings.NewReader("x"), objectstore.PutOptions{})
	if !errors.Is(err, objectstore.ErrUnavailable) {
		t.Errorf("error %v", err)
	}
	if diff := cmp.Diff([]string{"Put key"}, f.made()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// TestStore_ListHostile uses answers that no well-behaved plugin gives.
func TestStore_ListHostile(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		answer []string
		want   []string
		text   string
	}{
		"twice":               {answer: []string{"dir/b", "dir/a", "dir/b"}, want: []string{"dir/a", "dir/b"}},
		"marker of directory": {answer: []string{"dir/", "dir/a/", "dir/b"}, want: []string{"dir/b"}},
		"path traversal":      {answer: []string{"dir/../../etc/passwd", "dir/b", "dir/./c", "dir//d"}, want: []string{"dir/b"}},
		"control character":   {answer: []string{"dir/\x00", "dir/\n", "dir/\xff", `dir/a\b`, "dir/b"}, want: []string{"dir/b"}},
		"too long":            {answer: []string{"dir/" + strings.Repeat("x", 5000), "dir/b"}, want: []string{"dir/b"}},
		"elsewhere":           {answer: []string{"dir/b", "other/a"}, text: `answered with the key "other/a"`},
		"absolute":            {answer: []string{"/dir/b"}, text: `answered with the key "/dir/b"`},
		"empty key":           {answer: []string{""}, text: `answered with the key ""`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake()
			f.list = func(string, string) ([]string, error) { return slices.Clone(tc.answer), nil }
			got, err := collect(f.store().List(t.Context(), objectstore.ListOptions{Prefix: "dir/"}))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("keys (-want +got):\n%s", diff)
			}
			if (tc.text == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tc.text) {
				t.Errorf("error %v, want %q", err, tc.text)
			}
		})
	}
}

// TestStore_CommonPrefixes: some plugins append the delimiter, and others do not.
func TestStore_CommonPrefixes(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.list = func(prefix, delimiter string) ([]string, error) {
		return []string{"dir/b", "dir/b-2/", "dir/", "dir", "dir/a/", "dir/a", "dir/c/d/", "dir/../x/"}, nil
	}
	got, err := collect(f.store().CommonPrefixes(t.Context(), objectstore.ListOptions{Prefix: "dir/", Delimiter: "/"}))
	if diff := cmp.Diff([]string{"dir/a/", "dir/b-2/", "dir/b/", "dir/c/"}, got); diff != "" || err != nil {
		t.Errorf("error %v, prefixes (-want +got):\n%s", err, diff)
	}
}

// TestStore_Deadlines uses plugins that hang, with a fake clock.
func TestStore_Deadlines(t *testing.T) {
	t.Parallel()
	hang := func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}
	short := func(o *pluginclient.StoreOptions) {
		o.CallTimeout, o.IdleTimeout, o.FinishTimeout = time.Second, time.Minute, time.Hour
	}
	for name, tc := range map[string]struct {
		prepare func(*fakeObjectStore)
		do      func(*testing.T, *pluginclient.Store) error
		want    time.Duration
	}{
		"exists": {
			func(f *fakeObjectStore) {
				f.exists = func(ctx context.Context, _ string) (bool, error) { return false, hang(ctx) }
			},
			func(t *testing.T, s *pluginclient.Store) error {
				t.Helper()
				_, err := s.Put(t.Context(), "key", strings.NewReader("x"), objectstore.PutOptions{IfAbsent: true})
				return err
			},
			time.Second,
		},
		"put that does not begin": {
			func(f *fakeObjectStore) {
				f.put = func(ctx context.Context, _ string, _ io.Reader) error { return hang(ctx) }
			},
			putSlowly, time.Minute,
		},
		"put that stops in the middle": {
			func(f *fakeObjectStore) {
				f.put = func(ctx context.Context, _ string, body io.Reader) error {
					_, _ = io.CopyN(io.Discard, body, 3)
					return hang(ctx)
				}
			},
			putSlowly, 3*10*time.Minute + time.Minute,
		},
		"put that does not end": {
			func(f *fakeObjectStore) {
				f.put = func(ctx context.Context, _ string, body io.Reader) error {
					_, _ = io.Copy(io.Discard, body)
					return hang(ctx)
				}
			},
			putSlowly, 6*10*time.Minute + time.Hour,
		},
		"get that does not begin": {
			func(f *fakeObjectStore) {
				f.get = func(ctx context.Context, _ string, _ io.Writer) error { return hang(ctx) }
			},
			getSlowly, time.Minute,
		},
		"get that stops in the middle": {
			func(f *fakeObjectStore) {
				f.get = func(ctx context.Context, _ string, out io.Writer) error {
					_, _ = out.Write([]byte("abc"))
					return hang(ctx)
				}
			},
			getSlowly, 4 * 10 * time.Minute, // detected when the next byte is requested
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				tc.prepare(f)
				start := time.Now()
				err := tc.do(t, f.store(short))
				if !errors.Is(err, objectstore.ErrUnavailable) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("error %v, want ErrUnavailable alone", err)
				}
				if took := time.Since(start); took != tc.want {
					t.Errorf("took %s, want %s", took, tc.want)
				}
			})
		})
	}
}

// TestStore_SlowCallers: the time that the caller takes does not count.
func TestStore_SlowCallers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFake().store(func(o *pluginclient.StoreOptions) {
			o.CallTimeout, o.IdleTimeout, o.FinishTimeout = time.Second, time.Minute, time.Hour
		})
		if err := putSlowly(t, s); err != nil {
			t.Error(err)
		}
		if err := getSlowly(t, s); err != nil {
			t.Error(err)
		}
	})
}

// slow reads a byte at a time, ten minutes each.
type slow struct{ r io.Reader }

func (s slow) Read(p []byte) (int, error) {
	<-time.After(10 * time.Minute)
	return s.r.Read(p[:1])
}

func putSlowly(t *testing.T, s *pluginclient.Store) error {
	t.Helper()
	_, err := s.Put(t.Context(), "slow", slow{strings.NewReader("abcde")}, objectstore.PutOptions{})
	return err
}

func getSlowly(t *testing.T, s *pluginclient.Store) error {
	t.Helper()
	r, err := s.Get(t.Context(), "slow")
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, slow{r})
	return errors.Join(err, r.Close())
}

// collect returns the keys of a list until its error.
func collect(list func(func(objectstore.Entry, error) bool)) ([]string, error) {
	var keys []string
	for entry, err := range list {
		if err != nil {
			return nil, err
		}
		keys = append(keys, entry.Key)
	}
	return keys, nil
}
