// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/klauspost/compress/gzip"

	"github.com/grapnel-dev/grapnel/internal/scratch"
)

// TestWriter_TooLargeObject asserts that an object which no reader accepts is an error of
// that object alone.
func TestWriter_TooLargeObject(t *testing.T) {
	role := Identity{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles", Preferred: true, Namespace: "ns"}
	named := func(bytes int) Identity { id := role; id.Name = strings.Repeat("n", bytes); return id }
	fits := DefaultPathBytes - len(role.Path())
	for name, tc := range map[string]struct {
		item Item
		want error
	}{
		"largest object":       {item: Item{Identity: pod("ns", "a"), JSON: make([]byte, DefaultEntryBytes)}},
		"one byte more":        {item: Item{Identity: pod("ns", "a"), JSON: make([]byte, DefaultEntryBytes+1)}, want: ErrTooLarge},
		"longest path":         {item: Item{Identity: named(fits), JSON: []byte("{}")}},
		"a name one byte more": {item: Item{Identity: named(fits + 1), JSON: []byte("{}")}, want: ErrTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			w, err := NewWriter(&out, WriterOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if err := w.AddObject(tc.item); !errors.Is(err, tc.want) {
				t.Errorf("Add: %v, want %v", err, tc.want)
			}
			if err := w.AddObject(Item{Identity: pod("ns", "next"), JSON: []byte("{}")}); err != nil {
				t.Errorf("Add of the next object: %v", err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			want := 4
			if tc.want != nil {
				want = 2
			}
			if got := spooled(t, out.Bytes(), SpoolOptions{}).Len(); got != want {
				t.Errorf("the archive has %d files with objects, want %d", got, want)
			}
		})
	}
}

// write returns an archive of objects of many kinds, namespaces and names; nil if the
// Writer rejected it.
func write(t *testing.T, limits Limits) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := NewWriter(&out, WriterOptions{Limits: limits})
	for i := 0; err == nil && i < 60; i++ {
		id := Identity{
			Group: fmt.Sprintf("g%d.example.org", i%3), Version: "v1", Resource: "widgets", Preferred: i%5 != 0,
			Namespace: strings.Repeat("n", i%4), Name: fmt.Sprintf("%0*d", 1+i%150, i),
		}
		if !id.Preferred {
			id.Version = "v2"
		}
		err = w.AddObject(Item{Identity: id, JSON: bytes.Repeat([]byte("x"), i*20)})
	}
	if err == nil {
		err = w.Close()
	}
	switch {
	case err == nil:
		return out.Bytes()
	case !errors.Is(err, ErrLimitExceeded):
		t.Errorf("Writer: %v, want %v", err, ErrLimitExceeded)
	}
	return nil
}

// TestWriter_Limits asserts that every archive completed by a Writer can be spooled with
// the same limits, and that the limits are not stricter than necessary.
func TestWriter_Limits(t *testing.T) {
	for name, tc := range map[string]struct {
		limits func(n int64) Limits
		step   int64
		// slack is the difference within which a Writer must accept what a Spool does.
		slack int64
	}{
		"entries": {limits: func(n int64) Limits { return Limits{Entries: n} }, step: 1},
		"bytes":   {limits: func(n int64) Limits { return Limits{TotalBytes: n} }, step: 512},
		"memory":  {limits: func(n int64) Limits { return Limits{IndexBytes: n} }, step: 64, slack: 640},
	} {
		t.Run(name, func(t *testing.T) {
			whole, accepted := write(t, Limits{}), false
			for n := tc.step; !accepted; n += tc.step {
				limits := tc.limits(n)
				read, err := NewSpool(t.Context(), bytes.NewReader(whole), SpoolOptions{Dir: t.TempDir(), Limits: limits})
				if err == nil {
					_ = read.Close()
				}
				made := write(t, limits)
				if made != nil && err != nil {
					t.Fatalf("limit %d: a written archive is rejected: %v", n, err)
				}
				if stricter := write(t, tc.limits(n+tc.slack)) == nil; stricter && err == nil {
					t.Fatalf("limit %d: a Spool accepts what a Writer rejects with %d", n, n+tc.slack)
				}
				accepted = made != nil
			}
		})
	}
}

// TestMerge_Limits asserts that every archive completed by Merge can be spooled with the
// same limits.
func TestMerge_Limits(t *testing.T) {
	base := written(t, podItem("shop", "a", "old"), podItem("shop", "b", "old"))
	overlay := spooled(t, written(t, podItem("shop", "b", "new"), podItem("office", "c", "new")), SpoolOptions{})
	for name, limits := range map[string]func(n int64) Limits{
		"entries": func(n int64) Limits { return Limits{Entries: n} },
		"bytes":   func(n int64) Limits { return Limits{TotalBytes: n * 1024} },
		"memory":  func(n int64) Limits { return Limits{IndexBytes: n * 160} },
	} {
		t.Run(name, func(t *testing.T) {
			for n := int64(1); ; n++ {
				var out bytes.Buffer
				_, err := Merge(t.Context(), &out, bytes.NewReader(base), overlay, MergeOptions{Limits: limits(n)})
				if err != nil && (!errors.Is(err, ErrLimitExceeded) || n > 100) {
					t.Fatalf("Merge with limit %d: %v, want %v or nothing", n, err, ErrLimitExceeded)
				}
				if err == nil {
					spooled(t, out.Bytes(), SpoolOptions{Limits: limits(n)})
					return
				}
			}
		})
	}
}

// expanding returns an archive of n objects of a size each with the best possible
// compression.
func expanding(t *testing.T, limits Limits, n, size int) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := NewWriter(&out, WriterOptions{Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	content := make([]byte, size)
	for i := range n {
		if err := w.AddObject(Item{Identity: pod("ns", fmt.Sprint(i)), JSON: content}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestLimits_CheckRatio asserts that a decompression bomb is rejected when it begins to expand, and
// that no cluster can make a Writer write one.
func TestLimits_CheckRatio(t *testing.T) {
	limits := Limits{RatioFrom: 4 << 20, Ratio: 100}
	lax := Limits{RatioFrom: 1 << 40}
	bombs := map[string][]byte{
		"objects": expanding(t, lax, 24, 1<<20),
		"zeros behind the end": append(written(t), func() []byte {
			var out bytes.Buffer
			w, _ := gzip.NewWriterLevel(&out, gzip.BestCompression)
			for range 24 {
				_, _ = w.Write(make([]byte, 1<<20))
			}
			_ = w.Close()
			return out.Bytes()
		}()...),
		"holes": gzipped(t, sparse(t, 2<<20, 12)),
	}
	for name, bomb := range bombs {
		t.Run(name, func(t *testing.T) {
			s, err := NewSpool(t.Context(), bytes.NewReader(bomb), SpoolOptions{Dir: t.TempDir(), Limits: limits})
			if s != nil || !errors.Is(err, ErrLimitExceeded) {
				t.Errorf("NewSpool: %v, %v, want %v", s, err, ErrLimitExceeded)
			}
			spooled(t, bomb, SpoolOptions{Limits: Limits{RatioFrom: 1 << 40}})
		})
	}
	t.Run("of our own", func(t *testing.T) {
		spooled(t, expanding(t, limits, 24, 1<<20), SpoolOptions{Limits: limits})
	})
}

// endless is a sequence of empty gzip streams.
type endless struct {
	empty []byte
	read  int64
}

func (e *endless) Read(p []byte) (int, error) {
	n := 0
	for n+len(e.empty) <= len(p) {
		n += copy(p[n:], e.empty)
	}
	e.read += int64(n)
	return n, nil
}

// TestWalk_Endless reads an archive that is followed by endless empty data.
func TestWalk_Endless(t *testing.T) {
	source := &endless{empty: gzipped(t, nil)}
	err := Walk(io.MultiReader(bytes.NewReader(written(t)), source), Limits{TotalBytes: 1 << 20}, func(Entry) error { return nil })
	if !errors.Is(err, ErrLimitExceeded) || source.read > 2<<20 {
		t.Errorf("Walk: %v after %d bytes, want %v", err, source.read, ErrLimitExceeded)
	}
}

// TestWalk_Headers uses headers that do not match what follows.
func TestWalk_Headers(t *testing.T) {
	plain := func(headers ...tar.Header) []byte {
		reader, err := gzip.NewReader(bytes.NewReader(tarball(t, headers...)))
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		return content
	}
	resized := func(size string) []byte {
		content := plain(regular("resources/pods/cluster/a.json", 10))
		copy(content[ustarSizeOffset:ustarSizeOffset+12], size)
		copy(content[ustarChecksumOffset:], "        ")
		copy(content[ustarChecksumOffset:], fmt.Sprintf("%06o\x00 ", byteSum(content[:blockSize])))
		return gzipped(t, content)
	}
	for name, tc := range map[string]struct {
		archive []byte
		want    error
	}{
		"more than follows":    {resized("00000177777\x00"), io.ErrUnexpectedEOF},
		"more than is allowed": {resized("77777777777\x00"), ErrLimitExceeded},
		"less than nothing":    {resized("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xfe"), tar.ErrHeader},
		"a name of half a MiB": {tarball(t, regular("resources/pods/cluster/"+strings.Repeat("a", 512<<10)+".json", 1)), ErrLimitExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			err := Walk(bytes.NewReader(tc.archive), Limits{}, func(Entry) error { return nil })
			if !errors.Is(err, tc.want) {
				t.Errorf("Walk: %v, want %v", err, tc.want)
			}
		})
	}
}

// TestIndexMemory_Footprint asserts that an index never takes more memory than is counted, also while a
// slice of it grows.
func TestIndexMemory_Footprint(t *testing.T) {
	var refs []objectRef
	for n := 1; n < 300_000; n++ {
		before := cap(refs)
		refs = appendObjectRef(refs, objectRef{})
		if cap(refs) == before {
			continue
		}
		real, counted := (before+cap(refs))*int(unsafe.Sizeof(objectRef{})), directoryCost/2+n*refCost
		if real > counted {
			t.Fatalf("%d objects take %d bytes while they are copied, and %d are counted", n, real, counted)
		}
	}
	for name, tc := range map[string]struct{ directories, objects, namespaces int }{
		"one kind":         {directories: 1, objects: 100_000, namespaces: 50},
		"many small kinds": {directories: 5_000, objects: 3, namespaces: 5},
		"many namespaces":  {directories: 1, objects: 20_000, namespaces: 20_000},
	} {
		t.Run(name, func(t *testing.T) {
			before := heapBytes()
			x := newSpoolIndex(DefaultIndexBytes)
			for f := range tc.directories {
				for o := range tc.objects {
					id := Identity{
						Resource: fmt.Sprintf("widgets%d", f), Group: "example.org", Version: "v1",
						Namespace: fmt.Sprintf("namespace-%d", o%tc.namespaces), Name: fmt.Sprintf("name-%d", o),
					}
					if err := x.addObjectRef(id, 0, 1); err != nil {
						t.Fatal(err)
					}
				}
			}
			real := heapBytes() - before
			runtime.KeepAlive(x)
			if slack := int64(nameBlockSize); real > x.memory.used+slack {
				t.Errorf("the index takes %d bytes, and %d are counted", real, x.memory.used)
			}
			t.Logf("the index takes %d bytes of %d that are counted", real, x.memory.used)
		})
	}
}

func heapBytes() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestNewSpool_ScratchFull asserts that an archive which does not fit is rejected with the
// error of the scratch directory, and leaves nothing there.
func TestNewSpool_ScratchFull(t *testing.T) {
	dir := &scratch.Dir{Path: t.TempDir(), Limit: 1 << 20}
	archive := cluster(t, 2_000, 1000, true)
	for range 2 {
		s, err := NewSpool(t.Context(), bytes.NewReader(archive), SpoolOptions{Scratch: dir})
		if s != nil || !errors.Is(err, scratch.ErrFull) {
			t.Errorf("NewSpool: %v, %v, want %v", s, err, scratch.ErrFull)
		}
		checkNothingLeft(t, dir.Path)
		checkNoneOpen(t, dir.Path)
	}
	small := spooled(t, cluster(t, 500, 1000, true), SpoolOptions{Scratch: dir})
	if small.Len() != 1000 {
		t.Errorf("a smaller archive has %d files, want 1000", small.Len())
	}
}
