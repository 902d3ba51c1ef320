// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// contents returns everything that can be read from s, by path, and checks that all methods
// return the same objects.
func contents(t *testing.T, s *Spool) map[string]string {
	t.Helper()
	found := map[string]string{}
	var buf []byte
	for _, resource := range s.Resources() {
		for _, version := range append(slices.Clone(resource.Versions), "") {
			last := SpooledObject{}
			objects := s.Objects(resource.Name, version)
			for i, item := range objects.All() {
				if i > 0 && item.Namespace+"\x00"+item.Name <= last.Namespace+"\x00"+last.Name {
					t.Errorf("%s: %+v follows %+v", resource.Name, item, last)
				}
				last = item
				if at, ok := objects.Find(item.Namespace, item.Name); !ok || at != i {
					t.Errorf("Find: %+v is at %d, %t, want %d", item, at, ok, i)
				}
				var err error
				if buf, err = s.Read(item, buf); err != nil {
					t.Fatal(err)
				}
				id := Identity{Resource: resource.Name, Version: version, Namespace: item.Namespace, Name: item.Name}
				id.Preferred = version != "" && version == resource.Preferred
				found[id.Path()] = string(buf)
			}
		}
	}
	if len(found) != s.Len() {
		t.Errorf("Len is %d, found %d", s.Len(), len(found))
	}
	return found
}

// spooled returns a Spool of an archive and fails the test on an error.
func spooled(t testing.TB, archive []byte, opts SpoolOptions) *Spool {
	t.Helper()
	if opts.Dir == "" {
		opts.Dir = t.TempDir()
	}
	s, err := NewSpool(t.Context(), bytes.NewReader(archive), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func TestSpool_Contents(t *testing.T) {
	widget := func(version string, preferred bool, name string) Item {
		return Item{
			Identity: Identity{Group: "example.org", Resource: "widgets", Version: version, Preferred: preferred, Name: name},
			JSON:     []byte(`{"apiVersion":"example.org/` + version + `","name":"` + name + `"}`),
		}
	}
	archive := written(t,
		Item{Identity: pod("b", "y"), JSON: []byte(`{"pod":"b/y"}`)},
		Item{Identity: pod("a", "z"), JSON: []byte(`{"pod":"a/z"}`)},
		Item{Identity: pod("a", "x"), JSON: []byte(`{"pod":"a/x"}`)},
		widget("v1", true, "w"), widget("v1beta1", false, "w"), widget("v2", false, "w"), widget("v1", true, "u"),
	)
	s := spooled(t, archive, SpoolOptions{SHA256: strings.ToUpper(digest(archive)), Size: int64(len(archive))})

	if got := s.FormatVersion(); got != FormatVersion {
		t.Errorf("format version %q", got)
	}
	wantResources := []Resource{
		{Name: "pods", Versions: []string{"v1"}, Preferred: "v1"},
		{Name: "widgets.example.org", Versions: []string{"v1", "v1beta1", "v2"}, Preferred: "v1"},
	}
	if diff := cmp.Diff(wantResources, s.Resources()); diff != "" {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
	want := map[string]string{}
	for _, f := range untar(t, archive)[1:] {
		want[f.Name] = f.Content
	}
	if diff := cmp.Diff(want, contents(t, s)); diff != "" {
		t.Errorf("contents (-want +got):\n%s", diff)
	}
	for _, absent := range [][4]string{
		{"pods", "v1", "a", "y"}, {"pods", "v1", "", "x"}, {"pods", "v2", "a", "x"}, {"nodes", "", "", "n"}, {"widgets", "v1", "", "w"},
	} {
		if at, ok := s.Objects(absent[0], absent[1]).Find(absent[2], absent[3]); ok {
			t.Errorf("%q was found at %d", absent, at)
		}
	}
}

func TestNewSpool_SingleFile(t *testing.T) {
	dir := t.TempDir()
	first, second := bytes.Repeat([]byte("1"), 10_000), bytes.Repeat([]byte("2"), 300_000)
	s := spooled(t, written(t, Item{Identity: pod("a", "x"), JSON: first}, Item{Identity: pod("a", "y"), JSON: second}), SpoolOptions{Dir: dir})
	if n, err := s.file.ReadAt(make([]byte, 400_000), 0); n != 310_000 || !errors.Is(err, io.EOF) {
		t.Errorf("scratch file has %d bytes (%v), want 310000", n, err)
	}
	if s.Len() != 4 {
		t.Errorf("%d files, want 4", s.Len())
	}
	checkNothingLeft(t, dir)
}

func checkNothingLeft(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestNewSpool_ForeignArchives(t *testing.T) {
	for name, tc := range map[string]struct {
		headers       []tar.Header
		formatVersion string
		resources     []Resource
		files         []string
	}{
		"Velero's order, without directories": {
			headers: []tar.Header{
				regular("metadata/version", 1),
				regular("resources/pods/v1-preferredversion/namespaces/ns/a.json", 3),
				regular("resources/pods/namespaces/ns/a.json", 3),
			},
			formatVersion: "x",
			resources:     []Resource{{Name: "pods", Versions: []string{"v1"}, Preferred: "v1"}},
			files:         []string{"resources/pods/v1-preferredversion/namespaces/ns/a.json", "resources/pods/namespaces/ns/a.json"},
		},
		"copies of different size": {
			headers: []tar.Header{
				regular("resources/pods/v1-preferredversion/namespaces/ns/a.json", 3),
				regular("resources/pods/namespaces/ns/a.json", 4),
			},
			resources: []Resource{{Name: "pods", Versions: []string{"v1"}, Preferred: "v1"}},
			files:     []string{"resources/pods/v1-preferredversion/namespaces/ns/a.json", "resources/pods/namespaces/ns/a.json"},
		},
		"directories, and a leading ./": {
			headers: []tar.Header{
				{Typeflag: tar.TypeDir, Name: "./", Mode: 0o755},
				{Typeflag: tar.TypeDir, Name: "./resources/", Mode: 0o755},
				regular("./resources/pods/namespaces/ns/a.json", 3),
				regular("./metadata/version", 1),
				regular("./metadata/other", 100),
			},
			formatVersion: "x",
			resources:     []Resource{{Name: "pods"}},
			files:         []string{"resources/pods/namespaces/ns/a.json"},
		},
		"before format 1.1.0": {
			headers: []tar.Header{
				regular("resources/nodes/cluster/a.json", 0),
				regular("resources/deployments.apps/namespaces/ns/a.json", 3),
			},
			resources: []Resource{{Name: "deployments.apps"}, {Name: "nodes"}},
			files:     []string{"resources/deployments.apps/namespaces/ns/a.json", "resources/nodes/cluster/a.json"},
		},
		"no preferred version": {
			headers:   []tar.Header{regular("resources/pods/v2/cluster/a.json", 3), regular("resources/pods/v1/cluster/a.json", 3)},
			resources: []Resource{{Name: "pods", Versions: []string{"v1", "v2"}}},
			files:     []string{"resources/pods/v1/cluster/a.json", "resources/pods/v2/cluster/a.json"},
		},
		"nothing": {resources: []Resource{}},
	} {
		t.Run(name, func(t *testing.T) {
			s := spooled(t, tarball(t, tc.headers...), SpoolOptions{})
			if s.FormatVersion() != tc.formatVersion {
				t.Errorf("format version %q, want %q", s.FormatVersion(), tc.formatVersion)
			}
			if diff := cmp.Diff(tc.resources, s.Resources()); diff != "" {
				t.Errorf("resources (-want +got):\n%s", diff)
			}
			want := map[string]string{}
			for _, header := range tc.headers {
				if path := strings.TrimPrefix(header.Name, "./"); slices.Contains(tc.files, path) {
					want[path] = strings.Repeat("x", int(header.Size))
				}
			}
			if diff := cmp.Diff(want, contents(t, s)); diff != "" {
				t.Errorf("contents (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNewSpool_Errors(t *testing.T) {
	archive := written(t, Item{Identity: pod("a", "x"), JSON: []byte("{}")})
	dir := t.TempDir()
	if _, err := NewSpool(t.Context(), iotest.TimeoutReader(iotest.OneByteReader(bytes.NewReader(archive))), SpoolOptions{Dir: dir}); !errors.Is(err, iotest.ErrTimeout) {
		t.Errorf("a failing store: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := NewSpool(ctx, bytes.NewReader(archive), SpoolOptions{Dir: dir}); !errors.Is(err, context.Canceled) {
		t.Errorf("a canceled context: %v", err)
	}
	checkNothingLeft(t, dir)
	checkNoneOpen(t, dir)
	if _, err := NewSpool(t.Context(), bytes.NewReader(archive), SpoolOptions{Dir: filepath.Join(dir, "missing")}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing directory: %v", err)
	}
}

func TestSpoolAll_DiskFull(t *testing.T) {
	for name, content := range map[string]string{
		"at the end":     "{}",
		"before the end": strings.Repeat("x", 2*outputBufferSize),
	} {
		t.Run(name, func(t *testing.T) {
			archive := written(t, Item{Identity: pod("a", "x"), JSON: []byte(content)})
			err := newSpooler(&fullDisk{left: 1}, SpoolOptions{}).spoolAll(bytes.NewReader(archive), Limits{})
			if !errors.Is(err, errDisk) {
				t.Errorf("reading the archive: %v, want %v", err, errDisk)
			}
		})
	}
}

func TestSpool_ConcurrentReads(t *testing.T) {
	const objects = 200
	items := make([]Item, objects)
	for i := range items {
		items[i] = Item{Identity: pod("ns", strconv.Itoa(i)), JSON: bytes.Repeat([]byte(strconv.Itoa(i)+","), 10*i)}
	}
	s := spooled(t, written(t, items...), SpoolOptions{})
	var readers sync.WaitGroup
	for range 8 {
		readers.Go(func() {
			var buf []byte
			for _, want := range items {
				objects := s.Objects("pods", "v1")
				at, ok := objects.Find("ns", want.Name)
				var err error
				if buf, err = s.Read(objects.At(at), buf); !ok || err != nil || !bytes.Equal(buf, want.JSON) {
					t.Errorf("%s: %t, %v, %d bytes of %d", want.Name, ok, err, len(buf), len(want.JSON))
				}
			}
			for _, item := range s.Objects("pods", "").All() {
				if _, err := s.Read(item, nil); err != nil {
					t.Errorf("%s: %v", item.Name, err)
				}
			}
		})
	}
	readers.Wait()
}

func TestSpool_ReadAfterClose(t *testing.T) {
	s := spooled(t, written(t, Item{Identity: pod("a", "x"), JSON: []byte("{}")}), SpoolOptions{})
	item := s.Objects("pods", "v1").At(0)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Read(item, nil); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Read after Close: %v", err)
	}
}
