// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var modTime = time.Date(2026, 3, 4, 5, 6, 7, 890, time.UTC)

func pod(namespace, name string) Identity {
	return Identity{Version: "v1", Resource: "pods", Preferred: true, Namespace: namespace, Name: name}
}

// written returns the archive of items and fails the test on an error.
func written(t *testing.T, items ...Item) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := NewWriter(&out, WriterOptions{ModTime: modTime})
	if err != nil {
		t.Fatal(err)
	}
	for _, item := range items {
		if err := w.AddObject(item); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// file is an entry as read by the standard library, and so by Velero.
type file struct {
	Name, Content string
	Mode          int64
	Type          byte
	Time          time.Time
}

func untar(t *testing.T, compressed []byte) []file {
	t.Helper()
	plain, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		t.Fatal(err)
	}
	var files []file
	for r := tar.NewReader(plain); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file{header.Name, string(content), header.Mode, header.Typeflag, header.ModTime.UTC()})
	}
}

func TestWriter_Paths(t *testing.T) {
	long := strings.Repeat("n", 253)
	role := Identity{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles", Preferred: true, Namespace: "ns"}
	named := func(name string) Identity { id := role; id.Name = name; return id }
	for name, tc := range map[string]struct {
		id   Identity
		want []string
	}{
		"namespaced": {pod("ns", "a"), []string{
			"resources/pods/namespaces/ns/a.json",
			"resources/pods/v1-preferredversion/namespaces/ns/a.json",
		}},
		"cluster-scoped": {
			Identity{Version: "v1", Resource: "persistentvolumes", Preferred: true, Name: "pv"},
			[]string{
				"resources/persistentvolumes/cluster/pv.json",
				"resources/persistentvolumes/v1-preferredversion/cluster/pv.json",
			},
		},
		"version that is not preferred": {
			Identity{Group: "apps", Version: "v1beta1", Resource: "deployments", Namespace: "ns", Name: "d"},
			[]string{"resources/deployments.apps/v1beta1/namespaces/ns/d.json"},
		},
		"colon and spaces of RBAC": {named("system:node proxier"), []string{
			"resources/roles.rbac.authorization.k8s.io/namespaces/ns/system:node proxier.json",
			"resources/roles.rbac.authorization.k8s.io/v1-preferredversion/namespaces/ns/system:node proxier.json",
		}},
		"not ASCII": {named("größe-☃"), []string{
			"resources/roles.rbac.authorization.k8s.io/namespaces/ns/größe-☃.json",
			"resources/roles.rbac.authorization.k8s.io/v1-preferredversion/namespaces/ns/größe-☃.json",
		}},
		"control characters and backslash": {named("a\\b\nc..d~*?\"<>|#"), []string{
			"resources/roles.rbac.authorization.k8s.io/namespaces/ns/a\\b\nc..d~*?\"<>|#.json",
			"resources/roles.rbac.authorization.k8s.io/v1-preferredversion/namespaces/ns/a\\b\nc..d~*?\"<>|#.json",
		}},
		"longest name": {named(long), []string{
			"resources/roles.rbac.authorization.k8s.io/namespaces/ns/" + long + ".json",
			"resources/roles.rbac.authorization.k8s.io/v1-preferredversion/namespaces/ns/" + long + ".json",
		}},
		"path in two header fields": {named(long[:90]), []string{
			"resources/roles.rbac.authorization.k8s.io/namespaces/ns/" + long[:90] + ".json",
			"resources/roles.rbac.authorization.k8s.io/v1-preferredversion/namespaces/ns/" + long[:90] + ".json",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			want := []file{{"metadata/version", "1.1.0\n", 0o755, tar.TypeReg, modTime.Truncate(time.Second)}}
			for _, path := range tc.want {
				want = append(want, file{path, "{}", 0o755, tar.TypeReg, modTime.Truncate(time.Second)})
			}
			compressed := written(t, Item{Identity: tc.id, JSON: []byte("{}")})
			if diff := cmp.Diff(want, untar(t, compressed)); diff != "" {
				t.Errorf("archive (-want +got):\n%s", diff)
			}
			var ids []Identity
			err := Walk(bytes.NewReader(compressed), Limits{}, func(e Entry) error {
				if e.IsObject() && e.Object.Version != "" {
					ids = append(ids, e.Object)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]Identity{tc.id}, ids); diff != "" {
				t.Errorf("Walk (-want +got):\n%s", diff)
			}
		})
	}
}

// A header created from the template must equal the one that archive/tar writes, byte by
// byte.
func TestHeaderFormatter_AppendHeader(t *testing.T) {
	h, err := newHeaderFormatter(modTime)
	if err != nil {
		t.Fatal(err)
	}
	for _, length := range []int{1, 99, 100, 101, 150, 155, 156, 200, 255, 256, 257, 400} {
		for _, size := range []int{0, 1, 511, 512, 1_400_000} {
			path := strings.Repeat("0123456789/", 40)[:length-1] + "x"
			got, err := h.appendHeader(nil, []byte(path), size)
			if err != nil {
				t.Fatal(err)
			}
			want, err := h.formatGenericHeader(path, size)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("header of a path of %d and a file of %d bytes differs from archive/tar's", length, size)
			}
		}
	}
}

func TestWriter_Contents(t *testing.T) {
	big := strings.Repeat("0123456789abcdef", 1_400_000/16)
	var items []Item
	want := map[string]string{}
	for i, content := range []string{"", "{}", strings.Repeat("x", 511), strings.Repeat("x", 512), big} {
		id := pod("ns", string(rune('a'+i)))
		items = append(items, Item{Identity: id, JSON: []byte(content)})
		want[id.Path()] = content
	}
	got := map[string]string{}
	for _, f := range untar(t, written(t, items...)) {
		if strings.Contains(f.Name, preferredSuffix) {
			got[f.Name] = f.Content
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("contents differ:\n%.500s", diff)
	}
}

// Large base64 alternates with text. The stream changes its method, remains one gzip
// stream, and is smaller than the base64 text.
func TestWriter_LargeSecrets(t *testing.T) {
	random := make([]byte, 300_000)
	source := rand.NewChaCha8([32]byte{})
	if _, err := source.Read(random); err != nil {
		t.Fatal(err)
	}
	secret := []byte(base64.StdEncoding.EncodeToString(random))
	release := []byte(base64.StdEncoding.EncodeToString(secret))
	text := bytes.Repeat([]byte("some text that repeats itself, "), 5000)
	contents := [][]byte{text, secret, secret, []byte("{}"), release, text, []byte("{}"), secret}
	var items []Item
	var total int
	for i, content := range contents {
		items = append(items, Item{Identity: pod("ns", string(rune('a'+i))), JSON: content})
		total += len(content) * 2
	}
	compressed := written(t, items...)
	for i, f := range untar(t, compressed)[1:] {
		if f.Content != string(contents[i/2]) {
			t.Errorf("content of %s has changed", f.Name)
		}
	}
	if ratio := float64(len(compressed)) / float64(total); ratio > 0.72 {
		t.Errorf("archive has %.2f of the size of its content", ratio)
	}
}

func TestWriter_AddObjectErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		id   Identity
		want error
	}{
		"empty name":          {pod("ns", ""), ErrInvalidName},
		"parent directory":    {pod("ns", ".."), ErrInvalidName},
		"slash in name":       {pod("ns", "a/b"), ErrInvalidName},
		"slash in namespace":  {pod("a/b", "c"), ErrInvalidName},
		"NUL":                 {pod("ns", "a\x00b"), ErrInvalidName},
		"not UTF-8":           {pod("ns", "a\xffb"), ErrInvalidName},
		"no version":          {Identity{Resource: "pods", Name: "a"}, ErrInvalidName},
		"subresource":         {Identity{Version: "v1", Resource: "pods/log", Name: "a"}, ErrInvalidName},
		"second time":         {pod("ns", "there"), ErrDuplicate},
		"reserved by another": {pod("ns", "claimed"), ErrDuplicate},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			w, err := NewWriter(&out, WriterOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if err := w.AddObject(Item{Identity: pod("ns", "there"), JSON: []byte("1")}); err != nil {
				t.Fatal(err)
			}
			if !w.ReserveObject(pod("ns", "claimed")) {
				t.Fatal("a new object cannot be claimed")
			}
			if err := w.AddObject(Item{Identity: tc.id, JSON: []byte("2")}); !errors.Is(err, tc.want) {
				t.Errorf("Add: %v, want %v", err, tc.want)
			}
			// The archive is still usable.
			if err := w.AddObject(Item{Identity: pod("ns", "claimed"), Reserved: true, JSON: []byte("3")}); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			if got := len(untar(t, out.Bytes())); got != 5 {
				t.Errorf("archive has %d files, want 5", got)
			}
		})
	}
}

func TestWriter_ReserveObject(t *testing.T) {
	w, err := NewWriter(io.Discard, WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	granted := make(chan bool, 8)
	for range cap(granted) {
		wg.Go(func() { granted <- w.ReserveObject(pod("ns", "a")) })
	}
	wg.Wait()
	close(granted)
	count := 0
	for ok := range granted {
		if ok {
			count++
		}
	}
	if count != 1 || !w.HasObject(pod("ns", "a")) || w.HasObject(pod("a", "ns")) {
		t.Errorf("claim granted %d times; Has is %t and %t", count, w.HasObject(pod("ns", "a")), w.HasObject(pod("a", "ns")))
	}
}

var errDisk = errors.New("disk full")

// fullDisk fails after a number of bytes.
type fullDisk struct{ left int }

func (d *fullDisk) Write(p []byte) (int, error) {
	if d.left -= len(p); d.left < 0 {
		return 0, errDisk
	}
	return len(p), nil
}

func TestWriter_DiskFull(t *testing.T) {
	w, err := NewWriter(&fullDisk{left: 10}, WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_ = w.AddObject(Item{Identity: pod("ns", "a"), JSON: []byte("{}")})
	if err := w.Close(); !errors.Is(err, errDisk) {
		t.Errorf("Close: %v, want %v", err, errDisk)
	}
	if err := w.AddObject(Item{Identity: pod("ns", "b"), JSON: []byte("{}")}); !errors.Is(err, errDisk) {
		t.Errorf("Add after a failure: %v, want %v", err, errDisk)
	}
}

func TestWriter_AddObjectAfterClose(t *testing.T) {
	w, err := NewWriter(io.Discard, WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.AddObject(Item{Identity: pod("ns", "a")}); !errors.Is(err, errClosed) {
		t.Errorf("Add after Close: %v", err)
	}
}

func BenchmarkAdd(b *testing.B) {
	w, err := NewWriter(io.Discard, WriterOptions{})
	if err != nil {
		b.Fatal(err)
	}
	id := Identity{
		Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles", Preferred: true, Namespace: "team-123",
		Name: strings.Repeat("n", 40),
	}
	content := bytes.Repeat([]byte(`{"some":"thing","is":"here"},`), 50)
	b.ReportAllocs()
	b.SetBytes(int64(len(content)))
	for b.Loop() {
		if err := w.AddObject(Item{Identity: id, Reserved: true, JSON: content}); err != nil {
			b.Fatal(err)
		}
	}
}
