// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// tarball creates an archive with arbitrary headers.
func tarball(t *testing.T, headers ...tar.Header) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, header := range headers {
		if err := w.WriteHeader(&header); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(bytes.Repeat([]byte("x"), int(header.Size))); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return gzipped(t, out.Bytes())
}

func gzipped(t *testing.T, plain []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	compressor := gzip.NewWriter(&out)
	if _, err := compressor.Write(plain); err != nil {
		t.Fatal(err)
	}
	if err := compressor.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func regular(name string, size int64) tar.Header {
	return tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o644}
}

func TestWalk_HostileArchives(t *testing.T) {
	good := regular("resources/pods/namespaces/ns/a.json", 10)
	for name, tc := range map[string]struct {
		archive []byte
		limits  Limits
		want    error
	}{
		"path traversal":      {archive: tarball(t, regular("resources/pods/namespaces/../a.json", 1)), want: ErrInvalidName},
		"absolute path":       {archive: tarball(t, regular("/resources/pods/cluster/a.json", 1)), want: ErrInvalidName},
		"unknown directory":   {archive: tarball(t, regular("etc/passwd", 1)), want: ErrInvalidName},
		"not JSON":            {archive: tarball(t, regular("resources/pods/cluster/a.sh", 1)), want: ErrInvalidName},
		"too deep":            {archive: tarball(t, regular("resources/pods/v1/namespaces/a/b/c.json", 1)), want: ErrInvalidName},
		"metadata traversal":  {archive: tarball(t, regular("metadata/..", 1)), want: ErrInvalidName},
		"symbolic link":       {archive: tarball(t, tar.Header{Typeflag: tar.TypeSymlink, Name: good.Name, Linkname: "/etc/passwd"}), want: ErrInvalidName},
		"hard link":           {archive: tarball(t, tar.Header{Typeflag: tar.TypeLink, Name: good.Name, Linkname: "x"}), want: ErrInvalidName},
		"device":              {archive: tarball(t, tar.Header{Typeflag: tar.TypeChar, Name: good.Name}), want: ErrInvalidName},
		"same file twice":     {archive: tarball(t, good, good), want: ErrDuplicate},
		"large file":          {archive: tarball(t, good), limits: Limits{EntryBytes: 9}, want: ErrLimitExceeded},
		"many files":          {archive: tarball(t, good, regular("metadata/version", 1)), limits: Limits{Entries: 1}, want: ErrLimitExceeded},
		"many bytes":          {archive: tarball(t, good), limits: Limits{TotalBytes: 600}, want: ErrLimitExceeded},
		"long path":           {archive: tarball(t, regular("resources/pods/cluster/"+strings.Repeat("a", 300)+".json", 1)), limits: Limits{PathBytes: 200}, want: ErrLimitExceeded},
		"cut off":             {archive: tarball(t, good)[:60], want: io.ErrUnexpectedEOF},
		"no archive":          {archive: []byte("hello, this is no gzip stream"), want: gzip.ErrHeader},
		"wrong checksum":      {archive: flipLast(tarball(t, good)), want: gzip.ErrChecksum},
		"same file with ./":   {archive: tarball(t, good, regular("./"+good.Name, 1)), want: ErrDuplicate},
		"traversal behind ./": {archive: tarball(t, regular("./../resources/pods/cluster/a.json", 1)), want: ErrInvalidName},
		"files after the end": {archive: append(tarball(t, good), tarball(t, good)...), want: ErrTrailingData},
		"zeros after the end": {archive: append(tarball(t, good), gzipped(t, make([]byte, 4000))...), limits: Limits{TotalBytes: 4000}, want: ErrLimitExceeded},
		"bytes after the end": {archive: append(tarball(t, good), "some bytes that are no gzip stream"...), want: gzip.ErrHeader},
	} {
		t.Run(name, func(t *testing.T) {
			err := Walk(bytes.NewReader(tc.archive), tc.limits, func(Entry) error { return nil })
			if !errors.Is(err, tc.want) && (err == nil || err.Error() != "reading archive: "+tc.want.Error()) {
				t.Errorf("Walk: %v, want %v", err, tc.want)
			}
		})
	}
}

// flipLast corrupts the checksum at the end of a gzip stream.
func flipLast(archive []byte) []byte {
	archive[len(archive)-6] ^= 1
	return archive
}

func TestWalk_ForeignArchive(t *testing.T) {
	archive := tarball(t,
		tar.Header{Typeflag: tar.TypeDir, Name: "./", Mode: 0o755},
		tar.Header{Typeflag: tar.TypeDir, Name: "resources/", Mode: 0o755},
		regular("metadata/version", 2),
		regular("resources/pods/namespaces/cluster/namespaces.json", 1),
		regular("./resources/pods/v1/cluster/a.json", 1),
		regular("resources/widgets.example.org/v1beta1-preferredversion/namespaces/ns/a.b.json", 1),
	)
	var got []Identity
	err := Walk(bytes.NewReader(archive), Limits{}, func(e Entry) error {
		got = append(got, e.Object)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []Identity{
		{},
		{Resource: "pods", Namespace: "cluster", Name: "namespaces"},
		{Resource: "pods", Version: "v1", Name: "a"},
		{Group: "example.org", Resource: "widgets", Version: "v1beta1", Preferred: true, Namespace: "ns", Name: "a.b"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

func TestWalk_CallbackError(t *testing.T) {
	stop := errors.New("enough")
	err := Walk(bytes.NewReader(written(t)), Limits{}, func(Entry) error { return stop })
	if !errors.Is(err, stop) {
		t.Errorf("Walk: %v, want %v", err, stop)
	}
}

func FuzzParsePath(f *testing.F) {
	f.Add("resources/pods/namespaces/ns/a.json")
	f.Add("resources/deployments.apps/v1-preferredversion/cluster/b.json")
	f.Add("resources/a/../cluster/b.json")
	f.Fuzz(func(t *testing.T, path string) {
		id, err := parseObjectPath(path)
		if err != nil {
			return
		}
		if got := id.Path(); got != path {
			t.Errorf("%q was read as %+v, which is stored at %q", path, id, got)
		}
	})
}
