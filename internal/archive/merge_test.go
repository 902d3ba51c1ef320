// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// podItem is a Pod with a text.
func podItem(namespace, name, text string) Item {
	return Item{Identity: pod(namespace, name), JSON: []byte(`{"pod":"` + text + `"}`)}
}

// widgetItem is a custom resource in the given version.
func widgetItem(version string, preferred bool, name, text string) Item {
	return Item{
		Identity: Identity{Group: "example.org", Resource: "widgets", Version: version, Preferred: preferred, Name: name},
		JSON:     []byte(`{"widget":"` + text + `"}`),
	}
}

// merged merges two archives and fails the test on an error.
func merged(t testing.TB, base, overlay []byte) ([]byte, MergeResult) {
	t.Helper()
	var out bytes.Buffer
	got, err := Merge(t.Context(), &out, bytes.NewReader(base), spooled(t, overlay, SpoolOptions{}),
		MergeOptions{ModTime: modTime, SHA256: digest(base), Size: int64(len(base))})
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), got
}

func TestMerge(t *testing.T) {
	t.Parallel()
	a, b, c := podItem("shop", "a", "old"), podItem("shop", "b", "old"), podItem("office", "c", "old")
	for name, tc := range map[string]struct {
		base, overlay, want []Item
		merged              MergeResult
	}{
		"nothing to add": {base: []Item{a, b}, want: []Item{a, b}},
		"an empty base":  {overlay: []Item{b, a}, want: []Item{a, b}, merged: MergeResult{Added: 2}},
		"replaced, in its place": {
			base: []Item{a, b, c}, overlay: []Item{podItem("shop", "b", "new and longer")},
			want: []Item{a, podItem("shop", "b", "new and longer"), c}, merged: MergeResult{Replaced: 1},
		},
		"added, after the last": {
			base: []Item{c}, overlay: []Item{widgetItem("v1", true, "w", "new"), a, podItem("office", "a", "new")},
			want:   []Item{c, podItem("office", "a", "new"), a, widgetItem("v1", true, "w", "new")},
			merged: MergeResult{Added: 3},
		},
		"both, in every version": {
			base: []Item{
				widgetItem("v1", true, "w", "old"), widgetItem("v1beta1", false, "w", "old"), a, widgetItem("v0", false, "u", "old"),
			},
			overlay: []Item{
				widgetItem("v1", true, "w", "new"), widgetItem("v1beta1", false, "w", "new"),
				widgetItem("v1", true, "x", "new"), widgetItem("v1beta1", false, "x", "new"),
			},
			want: []Item{
				widgetItem("v1", true, "w", "new"), widgetItem("v1beta1", false, "w", "new"), a, widgetItem("v0", false, "u", "old"),
				widgetItem("v1", true, "x", "new"), widgetItem("v1beta1", false, "x", "new"),
			},
			merged: MergeResult{Replaced: 2, Added: 2},
		},
		"the preferred version could not be read": {
			base:    []Item{widgetItem("v1", true, "w", "old"), widgetItem("v1beta1", false, "w", "old")},
			overlay: []Item{widgetItem("v1beta1", false, "w", "new")},
			want:    []Item{widgetItem("v1", true, "w", "old"), widgetItem("v1beta1", false, "w", "new")},
			merged:  MergeResult{Replaced: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			archive, got := merged(t, written(t, tc.base...), written(t, tc.overlay...))
			// A Writer writes the same for those items: Velero's layout, once each.
			if diff := cmp.Diff(untar(t, written(t, tc.want...)), untar(t, archive)); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
			if got != tc.merged {
				t.Errorf("%+v, want %+v", got, tc.merged)
			}
			spooled(t, archive, SpoolOptions{})
		})
	}
}

// TestMerge_RandomArchives compares with maps, for random archives.
func TestMerge_RandomArchives(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 50 {
		objects := func(text string) (items []Item) {
			for i := range 12 {
				if random.IntN(2) == 0 {
					continue
				}
				if name := fmt.Sprintf("o%d", i/2); i%2 == 0 {
					items = append(items, podItem(fmt.Sprintf("ns%d", i%3), name, text+name))
				} else {
					items = append(items, widgetItem("v1", true, name, text+name), widgetItem("v2", false, name, text+name))
				}
			}
			random.Shuffle(len(items), func(i, j int) { items[i], items[j] = items[j], items[i] })
			return items
		}
		old, added := objects("old"), objects("new")
		want := map[string]string{}
		for _, item := range slices.Concat(old, added) {
			want[item.Path()] = string(item.JSON)
			if id := item.Identity; id.Preferred {
				id.Version, id.Preferred = "", false
				want[id.Path()] = string(item.JSON)
			}
		}
		archive, got := merged(t, written(t, old...), written(t, added...))
		if diff := cmp.Diff(want, contents(t, spooled(t, archive, SpoolOptions{}))); diff != "" {
			t.Fatalf("contents (-want +got):\n%s", diff)
		}
		if got.Replaced+got.Added != len(added) {
			t.Fatalf("%+v of %d objects", got, len(added))
		}
		again, twice := merged(t, archive, written(t, added...))
		if !bytes.Equal(archive, again) || twice.Added != 0 {
			t.Fatal("merging the same overlay twice differs")
		}
	}
}

func TestMerge_InvalidArchives(t *testing.T) {
	t.Parallel()
	base, overlay := written(t, podItem("shop", "a", "old")), written(t, podItem("shop", "a", "new"))
	version := tar.Header{Typeflag: tar.TypeReg, Name: "metadata/version", Size: 1}
	for name, tc := range map[string]struct {
		base, overlay []byte
		opts          MergeOptions
		want          error
		text          string
	}{
		"another base":       {base: base, opts: MergeOptions{SHA256: digest(overlay)}, want: ErrDigestMismatch},
		"a longer base":      {base: base, opts: MergeOptions{Size: 10}, want: ErrDigestMismatch},
		"half a base":        {base: base[:len(base)/2], want: io.ErrUnexpectedEOF},
		"a base and more":    {base: slices.Concat(base, base), want: ErrTrailingData},
		"a checksum":         {base: flipLast(slices.Clone(base)), text: "checksum"},
		"too many files":     {base: base, opts: MergeOptions{Limits: Limits{Entries: 2}}, want: ErrLimitExceeded},
		"a path that climbs": {base: tarball(t, regular("resources/pods/namespaces/../a.json", 1)), want: ErrInvalidName},
		"a link":             {base: tarball(t, tar.Header{Typeflag: tar.TypeSymlink, Name: "resources/pods/cluster/a.json"}), want: ErrInvalidName},
		"an object twice":    {base: tarball(t, regular("resources/pods/namespaces/shop/a.json", 1), regular("resources/pods/namespaces/shop/a.json", 1)), want: ErrDuplicate},
		"an unknown version": {base: tarball(t, version), text: `the base has the format version "x", and only 1.1.0 can be merged`},
		"no version":         {base: tarball(t), text: `the base has the format version ""`},
		"an overlay of Velero's old": {
			base: base, overlay: tarball(t, regular("resources/pods/namespaces/shop/a.json", 1)), text: `the overlay has the format version ""`,
		},
		"two preferred versions": {
			base: written(t, widgetItem("v1", true, "a", "old")), overlay: written(t, widgetItem("v2", true, "b", "new")), want: ErrAmbiguous,
		},
		"a version that was preferred": {
			base: written(t, widgetItem("v1", true, "a", "old")), overlay: written(t, widgetItem("v1", false, "b", "new")), want: ErrAmbiguous,
		},
		"a version that was not": {
			base: written(t, widgetItem("v1", false, "a", "old")), overlay: written(t, widgetItem("v1", true, "b", "new")), want: ErrAmbiguous,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.overlay == nil {
				tc.overlay = overlay
			}
			_, err := Merge(t.Context(), io.Discard, bytes.NewReader(tc.base), spooled(t, tc.overlay, SpoolOptions{}), tc.opts)
			if err == nil || tc.want != nil && !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.text) {
				t.Errorf("error is %v, want %v %q", err, tc.want, tc.text)
			}
		})
	}
}

func TestMerge_CanceledOrDiskFull(t *testing.T) {
	t.Parallel()
	base, overlay := cluster(t, 5000, 10, true), spooled(t, written(t, podItem("shop", "a", "new")), SpoolOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Merge(ctx, io.Discard, bytes.NewReader(base), overlay, MergeOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v, want that of the context", err)
	}
	if _, err := Merge(t.Context(), &fullDisk{left: 10}, bytes.NewReader(base), overlay, MergeOptions{}); !errors.Is(err, errDisk) {
		t.Errorf("error is %v, want %v", err, errDisk)
	}
}

// TestMerge_Memory compares bases of two sizes.
func TestMerge_Memory(t *testing.T) {
	overlay := spooled(t, written(t, podItem("shop", "a", "new")), SpoolOptions{})
	held := func(objects int) int64 {
		base := cluster(t, objects, 10, true)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		// At the end of the base, Merge holds its maximum of memory.
		end := &lastRead{r: bytes.NewReader(base), at: func() {
			runtime.GC()
			runtime.ReadMemStats(&after)
		}}
		if _, err := Merge(t.Context(), io.Discard, end, overlay, MergeOptions{}); err != nil {
			t.Fatal(err)
		}
		runtime.KeepAlive(base)
		return int64(after.HeapAlloc) - int64(before.HeapAlloc)
	}
	small, large := held(100), held(20_000)
	if large-small > 1<<20 {
		t.Errorf("19900 objects more take %d bytes more", large-small)
	}
	t.Logf("%d bytes of 100 objects, %d of 20000", small, large)
}

// lastRead calls at before it returns io.EOF.
type lastRead struct {
	r  io.Reader
	at func()
}

func (l *lastRead) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	if err != nil {
		l.at()
	}
	return n, err
}
