// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/gzip"
)

func TestNewSpool_InvalidArchives(t *testing.T) {
	a := regular("resources/pods/namespaces/ns/a.json", 10)
	good := tarball(t, a)
	size := int64(len(good))
	damaged := slices.Clone(good)
	damaged[len(damaged)/2] ^= 0x10
	for name, tc := range map[string]struct {
		archive []byte
		opts    SpoolOptions
		want    error // nil: any
	}{
		"another digest":              {good, SpoolOptions{SHA256: digest([]byte("other"))}, ErrDigestMismatch},
		"no digest at all":            {good, SpoolOptions{SHA256: "abc"}, ErrDigestMismatch},
		"damaged":                     {damaged, SpoolOptions{}, nil},
		"shorter than expected":       {good, SpoolOptions{Size: size + 1}, ErrDigestMismatch},
		"longer than expected":        {good, SpoolOptions{Size: size - 1}, ErrDigestMismatch},
		"cut off, expected size":      {good[:size/2], SpoolOptions{Size: size, SHA256: digest(good)}, ErrDigestMismatch},
		"cut off":                     {good[:size/2], SpoolOptions{}, io.ErrUnexpectedEOF},
		"empty":                       {nil, SpoolOptions{}, io.EOF},
		"garbage after it":            {append(slices.Clone(good), "more than ten bytes"...), SpoolOptions{}, gzip.ErrHeader},
		"an archive after it":         {append(slices.Clone(good), good...), SpoolOptions{}, ErrTrailingData},
		"path traversal":              {tarball(t, a, regular("resources/pods/namespaces/../../a.json", 1)), SpoolOptions{}, ErrInvalidName},
		"link":                        {tarball(t, a, tar.Header{Typeflag: tar.TypeSymlink, Name: "x", Linkname: "/"}), SpoolOptions{}, ErrInvalidName},
		"same file twice":             {tarball(t, a, a), SpoolOptions{}, ErrDuplicate},
		"large file":                  {good, SpoolOptions{Limits: Limits{EntryBytes: 9}}, ErrLimitExceeded},
		"many directories":            {tarball(t, directories(3)...), SpoolOptions{Limits: Limits{Entries: 2}}, ErrLimitExceeded},
		"bomb":                        {bomb(t), SpoolOptions{Limits: Limits{TotalBytes: 1 << 20}}, ErrLimitExceeded},
		"bomb of holes":               {gzipped(t, sparse(t, 1<<20, 2)), SpoolOptions{Limits: Limits{TotalBytes: 1 << 20}}, ErrLimitExceeded},
		"more than the memory":        {tarball(t, a, regular("resources/pods/namespaces/ns/b.json", 1)), SpoolOptions{Limits: Limits{IndexBytes: 860}}, ErrLimitExceeded},
		"a long format version":       {tarball(t, regular("metadata/version", 65)), SpoolOptions{}, ErrLimitExceeded},
		"preferred and not preferred": {tarball(t, regular("resources/pods/v1-preferredversion/cluster/a.json", 1), regular("resources/pods/v1/cluster/b.json", 1)), SpoolOptions{}, ErrAmbiguous},
		"two preferred versions":      {tarball(t, regular("resources/pods/v1-preferredversion/cluster/a.json", 1), regular("resources/pods/v2-preferredversion/cluster/b.json", 1)), SpoolOptions{}, ErrAmbiguous},
	} {
		t.Run(name, func(t *testing.T) {
			tc.opts.Dir = t.TempDir()
			s, err := NewSpool(t.Context(), bytes.NewReader(tc.archive), tc.opts)
			if s != nil || err == nil || (tc.want != nil && !errors.Is(err, tc.want)) {
				t.Fatalf("NewSpool: %v, %v, want %v", s, err, tc.want)
			}
			checkNothingLeft(t, tc.opts.Dir)
			checkNoneOpen(t, tc.opts.Dir)
		})
	}
}

// checkNoneOpen asserts that no file of dir is open, where the system reports that.
func checkNoneOpen(t *testing.T, dir string) {
	t.Helper()
	open, _ := filepath.Glob("/proc/self/fd/*")
	for _, fd := range open {
		if target, err := os.Readlink(fd); err == nil && strings.HasPrefix(target, dir) {
			t.Errorf("still open: %s", target)
		}
	}
}

func directories(n int) []tar.Header {
	headers := make([]tar.Header, n)
	for i := range headers {
		headers[i] = tar.Header{Typeflag: tar.TypeDir, Name: strconv.Itoa(i) + "/"}
	}
	return headers
}

// bomb is an archive of 8 MiB in a few kilobytes.
func bomb(t *testing.T) []byte {
	t.Helper()
	headers := make([]tar.Header, 8)
	for i := range headers {
		headers[i] = regular(fmt.Sprintf("resources/pods/cluster/%d.json", i), 1<<20)
	}
	archive := tarball(t, headers...)
	if len(archive) > 100<<10 {
		t.Fatalf("a bomb of %d bytes", len(archive))
	}
	return archive
}

// sparse is a tar stream of files that consist of holes, and so take almost no bytes in it.
func sparse(t *testing.T, size, files int) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	file := func(name, content string, kind byte) {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(content)), Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
		retype(out.Bytes()[out.Len()-blockSize:], kind)
		if _, err := io.WriteString(w, content); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	for i := range files {
		record := ""
		for _, line := range []string{
			"GNU.sparse.major=1", "GNU.sparse.minor=0",
			fmt.Sprintf("GNU.sparse.name=resources/pods/cluster/%d.json", i),
			fmt.Sprintf("GNU.sparse.realsize=%d", size),
		} {
			record += fmt.Sprintf("%d %s\n", len(line)+4, line)
		}
		file("pax", record, tar.TypeXHeader)
		// One fragment, of no bytes, at the end.
		file("sparse", fmt.Sprintf("%-512s", fmt.Sprintf("1\n%d\n0\n", size)), tar.TypeReg)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// retype changes the type of file in a header.
func retype(header []byte, kind byte) {
	header[156] = kind
	copy(header[ustarChecksumOffset:], "        ")
	copy(header[ustarChecksumOffset:], fmt.Sprintf("%06o\x00 ", byteSum(header)))
}

func TestNewSpool_SparseFiles(t *testing.T) {
	got := contents(t, spooled(t, gzipped(t, sparse(t, 2000, 2)), SpoolOptions{}))
	want := strings.Repeat("\x00", 2000)
	if len(got) != 2 || got["resources/pods/cluster/0.json"] != want {
		t.Errorf("contents: %q", got)
	}
}

func TestNewSpool_LongerThanExpected(t *testing.T) {
	archive := tarball(t, regular("resources/pods/cluster/a.json", 10))
	opts := SpoolOptions{Dir: t.TempDir(), Size: int64(len(archive)), Limits: Limits{TotalBytes: 1 << 20}}
	more := io.MultiReader(bytes.NewReader(archive), iotest.OneByteReader(bytes.NewReader(gzipped(t, make([]byte, 2<<20)))))
	if _, err := NewSpool(t.Context(), more, opts); !errors.Is(err, ErrDigestMismatch) {
		t.Errorf("NewSpool: %v, want %v", err, ErrDigestMismatch)
	}
}
