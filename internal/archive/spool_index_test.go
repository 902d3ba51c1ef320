// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// cluster is an archive of n Pods with usual names, each stored twice if their version is
// the preferred one.
func cluster(t testing.TB, n, size int, preferred bool) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := NewWriter(&out, WriterOptions{ModTime: modTime})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		id := pod(fmt.Sprintf("team-%03d-production", i%75), fmt.Sprintf("frontend-%010d-x%04d", i, i%7919))
		id.Preferred = preferred
		content := fmt.Sprintf(`{"kind":"Pod","name":%q,"number":%0*d}`, id.Name, size, i)
		if err := w.AddObject(Item{Identity: id, JSON: []byte(content)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestSpoolIndex_Memory(t *testing.T) {
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	for name, preferred := range map[string]bool{"stored once": false, "stored twice": true} {
		most := int64(70)
		if preferred {
			most /= 2
		}
		t.Run(name, func(t *testing.T) {
			archive := cluster(t, 10_000, 10, preferred)
			before := heap()
			s := spooled(t, archive, SpoolOptions{})
			each := (heap() - before) / int64(s.Len())
			runtime.KeepAlive(archive)
			if each > most {
				t.Errorf("each of %d files takes %d bytes, want at most %d", s.Len(), each, most)
			}
			t.Logf("%d bytes for each of %d files", each, s.Len())
		})
	}
}

func FuzzSpool(f *testing.F) {
	f.Add("metadata/version\nresources/pods/namespaces/a/b.json\nresources/pods/v1-preferredversion/namespaces/a/b.json", []byte("content"))
	f.Add("resources/b.c/v1/cluster/a.json\nresources/b/v1/cluster/a.json\n./resources/b/v2/cluster/b.json", []byte(""))
	f.Add("resources/b/v1/cluster/a.json\nresources/b/v1-preferredversion/cluster/a.json", []byte("1"))
	f.Add("resources/b/v1-preferredversion/cluster/a.json\nresources/b/v2-preferredversion/cluster/b.json", []byte("12"))
	const plain, preferred = "resources/b/cluster/", "resources/b/v1-preferredversion/cluster/"
	twins := plain + "a.json\n" + preferred + "a.json\n" + preferred + "c.json\n" + plain + "c.json\n"
	for _, more := range []string{
		"", plain + "b.json", preferred + "b.json", plain + "b.json\n" + preferred + "d.json",
		plain + "a.json", preferred + "a.json", plain + "c.json", "resources/c/cluster/c.json",
	} {
		f.Add(twins+more, []byte(""))
		f.Add(twins+more, []byte("1234"))
	}
	f.Fuzz(func(t *testing.T, list string, content []byte) {
		if len(list) > 1000 {
			t.Skip()
		}
		var plain bytes.Buffer
		w := tar.NewWriter(&plain)
		model := newModel()
		for i, path := range strings.Split(list, "\n") {
			part := content[:i%(min(len(content), 60)+1)]
			// Ignore what tar takes for a directory, or cannot store.
			if strings.HasSuffix(path, "/") || w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: path, Size: int64(len(part))}) != nil {
				t.Skip()
			}
			if _, err := w.Write(part); err != nil {
				t.Fatal(err)
			}
			model.add(strings.TrimPrefix(path, "./"), string(part))
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		s, err := NewSpool(t.Context(), bytes.NewReader(gzipped(t, plain.Bytes())), SpoolOptions{Dir: t.TempDir()})
		if model.faulty {
			if !errors.Is(err, ErrInvalidName) && !errors.Is(err, ErrDuplicate) && !errors.Is(err, ErrAmbiguous) {
				t.Errorf("NewSpool of %q: %v", list, err)
			}
			return
		}
		if err != nil {
			t.Fatalf("NewSpool of %q: %v", list, err)
		}
		defer func() { _ = s.Close() }()
		if diff := cmp.Diff(model.files, contents(t, s)); diff != "" {
			t.Errorf("contents (-want +got):\n%s", diff)
		}
	})
}

// model is the simplest possible Spool.
type model struct {
	files     map[string]string     // content by path
	metadata  map[string]bool       // by path
	preferred map[string]string     // version by resource
	ordinary  map[directoryKey]bool // versions that are not the preferred one
	faulty    bool
}

func newModel() *model {
	return &model{
		files: map[string]string{}, metadata: map[string]bool{}, preferred: map[string]string{}, ordinary: map[directoryKey]bool{},
	}
}

func (m *model) add(path, content string) {
	if isMetadataPath(path) {
		m.faulty = m.faulty || m.metadata[path]
		m.metadata[path] = true
		return
	}
	id, err := parseObjectPath(path)
	_, taken := m.files[path]
	m.files[path] = content
	in := directoryKey{id.GroupResource(), id.Version}
	if id.Preferred {
		version, known := m.preferred[in.resource]
		taken = taken || (known && version != in.version)
		m.preferred[in.resource] = in.version
	} else {
		m.ordinary[in] = true
	}
	both := id.Version != "" && m.ordinary[in] && m.preferred[in.resource] == id.Version
	m.faulty = m.faulty || err != nil || taken || both
}

func BenchmarkNewSpool(b *testing.B) {
	archive := cluster(b, 10_000, 2000, true)
	opts := SpoolOptions{Dir: b.TempDir(), SHA256: digest(archive)}
	b.SetBytes(2 * 10_000 * 2000)
	b.ReportAllocs()
	for b.Loop() {
		s, err := NewSpool(b.Context(), bytes.NewReader(archive), opts)
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/20_000, "ns/file")
}

func BenchmarkSpoolRead(b *testing.B) {
	s := spooled(b, cluster(b, 10_000, 2000, true), SpoolOptions{})
	items := s.Objects("pods", "v1")
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		var buf []byte
		var err error
		for i := 0; pb.Next(); i++ {
			if buf, err = s.Read(items.At(i*31%items.Len()), buf); err != nil {
				b.Fatal(err)
			}
		}
	})
}
