// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

//nolint:thelper // The functions are tests: a failure belongs to the line in them, not to their caller.
package storetest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
)

func testList(t *testing.T, s objectstore.Store) {
	for _, key := range []string{"a/b/c", "a/b/d", "a/e", "a2/f", "z", "a/b2/g"} {
		putObject(t, s, key, []byte(key))
	}
	type options = objectstore.ListOptions
	for _, tc := range []struct {
		opts options
		want []string
	}{
		{options{}, []string{"a/b/c", "a/b/d", "a/b2/g", "a/e", "a2/f", "z"}},
		{options{Delimiter: "/"}, []string{"a/", "a2/", "z"}},
		{options{Prefix: "a/"}, []string{"a/b/c", "a/b/d", "a/b2/g", "a/e"}},
		{options{Prefix: "a/", Delimiter: "/"}, []string{"a/b/", "a/b2/", "a/e"}},
		{options{Prefix: "a", Delimiter: "/"}, []string{"a/", "a2/"}},
		{options{Prefix: "a/b"}, []string{"a/b/c", "a/b/d", "a/b2/g"}},
		{options{Prefix: "a/b", Delimiter: "/"}, []string{"a/b/", "a/b2/"}},
		{options{Prefix: "a/e", Delimiter: "/"}, []string{"a/e"}},
		{options{Prefix: "a/e/"}, nil},
		{options{StartAfter: "a/b/d"}, []string{"a/b2/g", "a/e", "a2/f", "z"}},
		{options{StartAfter: "a/b/cc"}, []string{"a/b/d", "a/b2/g", "a/e", "a2/f", "z"}},
		{options{Prefix: "a/", StartAfter: "a/b2/g"}, []string{"a/e"}},
		{options{StartAfter: "z"}, nil},
	} {
		wantKeys(t, s, tc.opts, tc.want...)
	}
	for entry, err := range s.List(t.Context(), options{Prefix: "a/b/c"}) {
		if err != nil {
			t.Fatal(err)
		}
		size := int64(objectstore.UnknownSize)
		if s.Capabilities().Metadata {
			size = 5
		}
		if entry.Size != size || entry.ModTime.IsZero() == s.Capabilities().Metadata {
			t.Errorf("the list describes the object as %+v", entry)
		}
	}
	for _, err := range s.List(t.Context(), options{Delimiter: "-"}) {
		if err == nil {
			t.Error("an unsupported delimiter was accepted")
		}
	}
}

// testListOrder uses keys whose order differs from that of a directory walk.
func testListOrder(t *testing.T, s objectstore.Store) {
	keys := []string{"a/b", "a-b", "a.b", "a0", "B", "a/-", "a/b-c/d", "a/b.tar.gz", "aa/b", "ab"}
	// "a/b" as an object beside "a/b/..." is impossible in a file system.
	for _, key := range keys {
		putObject(t, s, key, []byte("x"))
	}
	wantKeys(t, s, objectstore.ListOptions{}, sortedKeys(keys)...)
	wantKeys(t, s, objectstore.ListOptions{Delimiter: "/"}, "B", "a-b", "a.b", "a/", "a0", "aa/", "ab")
}

func testListPages(t *testing.T, s objectstore.Store) {
	var directories, all []string
	for i := range 1200 {
		directory := fmt.Sprintf("pages/%04d/", i)
		keys := []string{directory + "x"}
		if i%100 == 0 {
			keys = append(keys, directory+"y")
		}
		if i%3 == 0 {
			keys = append(keys, strings.TrimSuffix(directory, "/")+"-object")
			directories = append(directories, strings.TrimSuffix(directory, "/")+"-object")
		}
		directories = append(directories, directory)
		all = append(all, keys...)
	}
	const writers = 8
	errs := inParallel(writers, func(i int) error {
		for n := i; n < len(all); n += writers {
			if _, err := s.Put(t.Context(), all[n], strings.NewReader(""), objectstore.PutOptions{}); err != nil {
				return err
			}
		}
		return nil
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	wantKeys(t, s, objectstore.ListOptions{Prefix: "pages/"}, sortedKeys(all)...)
	wantKeys(t, s, objectstore.ListOptions{Prefix: "pages/", Delimiter: "/"}, sortedKeys(directories)...)
	if err := s.Delete(t.Context(), all...); err != nil {
		t.Fatal(err)
	}
	wantKeys(t, s, objectstore.ListOptions{})
}

// testCommonPrefixes compares CommonPrefixes with the list, for stores that implement it.
func testCommonPrefixes(t *testing.T, s objectstore.Store) {
	lister, ok := s.(objectstore.PrefixLister)
	if !ok {
		t.Log("The store has no shortcut for common prefixes; nothing to check")
		return
	}
	for _, key := range []string{"a/b/c", "a/b/d", "a/e", "a2/f", "z", "a/b2/g", "a-b/h"} {
		putObject(t, s, key, []byte("x"))
	}
	for _, opts := range []objectstore.ListOptions{
		{}, {Prefix: "a/"}, {Prefix: "a"}, {Prefix: "a/b"}, {Prefix: "a/b/"}, {Prefix: "none/"}, {StartAfter: "a/"}, {Prefix: "a/", StartAfter: "a/b/"},
	} {
		opts.Delimiter = "/"
		var got, want []string
		for entry, err := range lister.CommonPrefixes(t.Context(), opts) {
			if err != nil || !entry.IsPrefix {
				t.Errorf("%+v: entry %+v, error %v", opts, entry, err)
			}
			got = append(got, entry.Key)
		}
		for entry, err := range s.List(t.Context(), opts) {
			if err != nil {
				t.Fatal(err)
			}
			if entry.IsPrefix {
				want = append(want, entry.Key)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("CommonPrefixes(%+v) (-want +got):\n%s", opts, diff)
		}
	}
	for _, err := range lister.CommonPrefixes(t.Context(), objectstore.ListOptions{}) {
		if err == nil {
			t.Error("common prefixes were listed without a delimiter")
		}
	}
}

func testListStops(t *testing.T, s objectstore.Store) {
	for _, key := range []string{"a", "b", "c"} {
		putObject(t, s, key, nil)
	}
	n := 0
	for _, err := range s.List(t.Context(), objectstore.ListOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
		break
	}
	if n != 1 {
		t.Errorf("got %d entries before leaving the loop", n)
	}
}
