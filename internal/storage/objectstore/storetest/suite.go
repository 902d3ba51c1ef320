// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

//nolint:thelper // The functions are tests: a failure belongs to the line in them, not to their caller.
package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
)

// RunConformance checks that the stores returned by open satisfy the contract of
// objectstore.Store. It calls open for every subtest. Open must return an empty store each
// time, and may register clean-ups on that test.
func RunConformance(t *testing.T, open func() objectstore.Store) {
	t.Helper()
	for name, check := range map[string]func(*testing.T, objectstore.Store){
		"PutThenRead":           testPutThenRead,
		"Overwrite":             testOverwrite,
		"Missing":               testMissing,
		"EveryLegalCharacter":   testCharacters,
		"InvalidKeys":           testInvalidKeys,
		"StreamOfUnknownSize":   testStream,
		"BrokenReader":          testBrokenReader,
		"CancelledPut":          testCancelledPut,
		"CancelledCalls":        testCancelledCalls,
		"CancelledRead":         testCancelledRead,
		"OverwriteDuringRead":   testOverwriteDuringRead,
		"IfAbsent":              testIfAbsent,
		"IfAbsentRace":          testIfAbsentRace,
		"ConcurrentPuts":        testConcurrentPuts,
		"PutBesideDelete":       testPutBesideDelete,
		"List":                  testList,
		"ListOrder":             testListOrder,
		"ListPages":             testListPages,
		"ListStops":             testListStops,
		"CommonPrefixes":        testCommonPrefixes,
		"Delete":                testDelete,
		"AbortUploadsOfNothing": testAbortNothing,
	} {
		t.Run(name, func(t *testing.T) { check(t, open()) })
	}
}

func testPutThenRead(t *testing.T, s objectstore.Store) {
	for name, content := range map[string][]byte{
		"empty": {}, "one byte": {0}, "text": []byte("hello\n"), "100 KiB": randomBytes(100<<10, 1),
	} {
		key := "dir/" + name
		info := putObject(t, s, key, content)
		if info.Key != key || info.Size != int64(len(content)) {
			t.Errorf("%s: Put returned %+v, want key %q and size %d", name, info, key, len(content))
		}
		if got := readObject(t, s, key); !bytes.Equal(got, content) {
			t.Errorf("%s: read %d bytes that differ from the %d written", name, len(got), len(content))
		}
		stat, err := s.Stat(t.Context(), key)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if stat.Key != key || stat.Size != int64(len(content)) || stat.ModTime.IsZero() == s.Capabilities().Metadata || stat.ETag == "" {
			t.Errorf("%s: incomplete description %+v", name, stat)
		}
	}
}

func testOverwrite(t *testing.T, s objectstore.Store) {
	putObject(t, s, "key", []byte("a longer first version"))
	before, err := s.Stat(t.Context(), "key")
	if err != nil {
		t.Fatal(err)
	}
	putObject(t, s, "key", []byte("second"))
	if got := string(readObject(t, s, "key")); got != "second" {
		t.Errorf("read %q after overwriting", got)
	}
	after, err := s.Stat(t.Context(), "key")
	if err != nil {
		t.Fatal(err)
	}
	if after.Size != 6 || after.ETag == before.ETag {
		t.Errorf("description did not change: before %+v, after %+v", before, after)
	}
	wantKeys(t, s, objectstore.ListOptions{}, "key")
}

func testMissing(t *testing.T, s objectstore.Store) {
	putObject(t, s, "there/is", []byte("x"))
	for _, key := range []string{"none", "there", "there/is-not", "there/is/below"} {
		if rc, err := s.Get(t.Context(), key); !errors.Is(err, objectstore.ErrNotExist) {
			if err == nil {
				_ = rc.Close()
			}
			t.Errorf("Get(%q): error %v, want ErrNotExist", key, err)
		} else if !strings.Contains(err.Error(), key) {
			t.Errorf("Get(%q): the error does not name the key: %v", key, err)
		}
		if _, err := s.Stat(t.Context(), key); !errors.Is(err, objectstore.ErrNotExist) {
			t.Errorf("Stat(%q): error %v, want ErrNotExist", key, err)
		}
	}
	wantKeys(t, s, objectstore.ListOptions{Prefix: "none/"})
	wantKeys(t, s, objectstore.ListOptions{Prefix: "none/below", Delimiter: "/"})
}

func testCharacters(t *testing.T, s objectstore.Store) {
	var keys []string
	for c := rune(0x20); c < 0x7f; c++ {
		if c != '/' && c != '\\' && c != '.' {
			keys = append(keys, fmt.Sprintf("chars/%c", c), fmt.Sprintf("chars/a%cb/c%cd", c, c))
		}
	}
	keys = append(keys, "chars/...", "chars/ü/日本", "chars/😀", "chars/a b+c%20d&e=f?g#h",
		"chars/"+strings.Repeat("x", objectstore.MaxSegmentLength), "chars/.hidden", "chars/a.b.tar.gz")
	for _, key := range keys {
		putObject(t, s, key, []byte(key))
	}
	for _, key := range keys {
		if got := string(readObject(t, s, key)); got != key {
			t.Errorf("key %q holds %q", key, got)
		}
	}
	wantKeys(t, s, objectstore.ListOptions{Prefix: "chars/"}, sortedKeys(keys)...)
	if err := s.Delete(t.Context(), keys...); err != nil {
		t.Fatal(err)
	}
	wantKeys(t, s, objectstore.ListOptions{})
}

func testInvalidKeys(t *testing.T, s objectstore.Store) {
	for _, key := range []string{
		"", "/", "/abs", "a//b", "a/", "..", "../a", "a/../b", "a/.", "./a", "a\x00b", "a\nb", `a\b`, "a/\xff",
		strings.Repeat("x", objectstore.MaxSegmentLength+1),
		strings.Repeat("x/", objectstore.MaxKeyLength/2) + "x",
		objectstore.ReservedPrefix + "x", "a/" + objectstore.ReservedPrefix + "x",
	} {
		_, err := s.Put(t.Context(), key, strings.NewReader("x"), objectstore.PutOptions{})
		if !errors.Is(err, objectstore.ErrInvalidKey) {
			t.Errorf("Put(%.40q): error %v, want ErrInvalidKey", key, err)
		}
	}
	wantKeys(t, s, objectstore.ListOptions{})
}

// testStream writes more than two parts of a multipart upload without announcing the size.
func testStream(t *testing.T, s objectstore.Store) {
	const size = 40<<20 + 1
	info, err := s.Put(t.Context(), "big", onlyReader{io.LimitReader(newRandomReader(7), size)}, objectstore.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if info.Size != size {
		t.Errorf("Put says %d bytes, want %d", info.Size, size)
	}
	rc, err := s.Get(t.Context(), "big")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rc.Close() }()
	wantSameStream(t, rc, io.LimitReader(newRandomReader(7), size))
}

func testBrokenReader(t *testing.T, s objectstore.Store) {
	errBroken := errors.New("source is broken")
	for _, size := range []int64{0, 10, 17 << 20} {
		for name, before := range map[string][]byte{"fresh": nil, "replacing": []byte("old")} {
			key := fmt.Sprintf("broken/%s-%d", name, size)
			if before != nil {
				putObject(t, s, key, before)
			}
			r := io.MultiReader(io.LimitReader(newRandomReader(3), size), failingReader{errBroken})
			if _, err := s.Put(t.Context(), key, r, objectstore.PutOptions{}); !errors.Is(err, errBroken) {
				t.Errorf("%s: error %v, want that of the reader", key, err)
			}
			wantUnchanged(t, s, key, before)
		}
	}
	wantKeys(t, s, objectstore.ListOptions{}, "broken/replacing-0", "broken/replacing-10", "broken/replacing-17825792")
	wantNoUploads(t, s)
}

func testCancelledPut(t *testing.T, s objectstore.Store) {
	for _, size := range []int64{10, 40 << 20} {
		ctx, cancel := context.WithCancel(t.Context())
		key := fmt.Sprintf("cancelled/%d", size)
		// The context ends when half of the content was read.
		r := io.MultiReader(io.LimitReader(newRandomReader(3), size/2), callOnRead(cancel), io.LimitReader(newRandomReader(4), size/2))
		if _, err := s.Put(ctx, key, r, objectstore.PutOptions{}); !errors.Is(err, context.Canceled) {
			t.Errorf("%d bytes: error %v, want context.Canceled", size, err)
		}
		cancel()
	}
	wantKeys(t, s, objectstore.ListOptions{})
	wantNoUploads(t, s)
}

func testCancelledCalls(t *testing.T, s objectstore.Store) {
	putObject(t, s, "key", []byte("x"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, putErr := s.Put(ctx, "other", strings.NewReader("x"), objectstore.PutOptions{})
	_, getErr := s.Get(ctx, "key")
	_, statErr := s.Stat(ctx, "key")
	var listErr error
	for _, err := range s.List(ctx, objectstore.ListOptions{}) {
		listErr = err
	}
	for name, err := range map[string]error{
		"Put": putErr, "Get": getErr, "Stat": statErr, "List": listErr, "Delete": s.Delete(ctx, "key"),
	} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: error %v, want context.Canceled", name, err)
		}
	}
	wantKeys(t, s, objectstore.ListOptions{}, "key")
}

func testCancelledRead(t *testing.T, s objectstore.Store) {
	putObject(t, s, "key", randomBytes(8<<20, 1))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	rc, err := s.Get(ctx, "key")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rc.Close() }()
	if _, err := io.CopyN(io.Discard, rc, 1000); err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := io.Copy(io.Discard, rc); !errors.Is(err, context.Canceled) {
		t.Errorf("continued read: error %v, want context.Canceled", err)
	}
}

func testOverwriteDuringRead(t *testing.T, s objectstore.Store) {
	first, second := randomBytes(6<<20, 1), randomBytes(6<<20, 2)
	putObject(t, s, "key", first)
	rc, err := s.Get(t.Context(), "key")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rc.Close() }()
	head := make([]byte, 1000)
	if _, err := io.ReadFull(rc, head); err != nil {
		t.Fatal(err)
	}
	putObject(t, s, "key", second)
	rest, err := io.ReadAll(rc)
	if err == nil && !bytes.Equal(append(head, rest...), first) {
		t.Error("the stream mixes two versions of the object")
	}
	if got := readObject(t, s, "key"); !bytes.Equal(got, second) {
		t.Error("the second version is not what is stored")
	}
}

func testDelete(t *testing.T, s objectstore.Store) {
	keys := []string{"a", "b/c", "b/d", "e/f/g"}
	for _, key := range keys {
		putObject(t, s, key, []byte("x"))
	}
	if err := s.Delete(t.Context(), "b/c", "missing", "e/f/g", "e/missing/g", "a/below"); err != nil {
		t.Errorf("deleting with missing keys: %v", err)
	}
	wantKeys(t, s, objectstore.ListOptions{}, "a", "b/d")
	wantKeys(t, s, objectstore.ListOptions{Delimiter: "/"}, "a", "b/")
	if err := s.Delete(t.Context()); err != nil {
		t.Errorf("deleting nothing: %v", err)
	}
	var many []string
	for i := range 1001 {
		many = append(many, fmt.Sprintf("missing/%04d", i))
	}
	if err := s.Delete(t.Context(), append(many, "a", "b/d")...); err != nil {
		t.Errorf("deleting more keys than one request holds: %v", err)
	}
	wantKeys(t, s, objectstore.ListOptions{})
}

func testAbortNothing(t *testing.T, s objectstore.Store) {
	putObject(t, s, "key", []byte("x"))
	wantNoUploads(t, s)
	wantKeys(t, s, objectstore.ListOptions{}, "key")
}

func wantUnchanged(t *testing.T, s objectstore.Store, key string, before []byte) {
	t.Helper()
	if before != nil {
		if got := readObject(t, s, key); !bytes.Equal(got, before) {
			t.Errorf("%s: a failed Put changed the object", key)
		}
		return
	}
	if _, err := s.Stat(t.Context(), key); !errors.Is(err, objectstore.ErrNotExist) {
		t.Errorf("%s: a failed Put left an object: error %v, want ErrNotExist", key, err)
	}
}

func wantNoUploads(t *testing.T, s objectstore.Store) {
	t.Helper()
	aborter, ok := s.(objectstore.UploadAborter)
	if !ok {
		return
	}
	if n, err := aborter.AbortUploads(t.Context(), ""); err != nil || n != 0 {
		t.Errorf("%d unfinished uploads were left behind (error %v)", n, err)
	}
}

func wantKeys(t *testing.T, s objectstore.Store, opts objectstore.ListOptions, want ...string) {
	t.Helper()
	var got []string
	for entry, err := range s.List(t.Context(), opts) {
		if err != nil {
			t.Errorf("List(%+v): %v", opts, err)
			return
		}
		if entry.IsPrefix != strings.HasSuffix(entry.Key, "/") {
			t.Errorf("List(%+v): %q has IsPrefix %v", opts, entry.Key, entry.IsPrefix)
		}
		got = append(got, entry.Key)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("List(%+v) (-want +got):\n%s", opts, diff)
	}
}

func putObject(t *testing.T, s objectstore.Store, key string, content []byte) objectstore.Info {
	t.Helper()
	info, err := s.Put(t.Context(), key, onlyReader{bytes.NewReader(content)}, objectstore.PutOptions{})
	if err != nil {
		t.Fatalf("putting %q: %v", key, err)
	}
	return info
}

func readObject(t *testing.T, s objectstore.Store, key string) []byte {
	t.Helper()
	rc, err := s.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rc.Close() }()
	content, err := io.ReadAll(rc)
	if err != nil {
		t.Fatalf("reading %q: %v", key, err)
	}
	return content
}
