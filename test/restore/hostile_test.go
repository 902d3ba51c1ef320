// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"archive/tar"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

// manifestOfVelero is what Velero says of a good backup.
const manifestOfVelero = `{"apiVersion":"velero.io/v1","kind":"Backup","metadata":{"name":"BACKUP","namespace":"velero"},
	"status":{"version":1,"formatVersion":"1.1.0","phase":"Completed"}}`

// maxArchive is --max-archive-size of the operator that meets hostile archives.
const maxArchive = 256 << 20

// hostileArchives are made by an attacker who may write to the bucket. Each begins as a
// good one does, so that there would be something to restore.
var hostileArchives = map[string]struct {
	archive func(t testing.TB, app string) []byte
	texts   []string
}{
	"out of the directory": {evil(tar.Header{Name: "resources/configmaps/namespaces/../../../../../tmp/evil.json"}, "{}"), forged("/evil.json")},
	"an absolute path":     {evil(tar.Header{Name: "/etc/cron.d/evil.json"}, "{}"), forged("/etc/cron.d/evil.json")},
	"a symbolic link": {
		evil(tar.Header{Typeflag: tar.TypeSymlink, Name: "resources/configmaps/namespaces/a/b.json", Linkname: "/etc/passwd"}, ""),
		forged("b.json", "is neither a file nor a directory"),
	},
	"a hard link": {
		evil(tar.Header{Typeflag: tar.TypeLink, Name: "resources/configmaps/namespaces/a/b.json", Linkname: "/etc/passwd"}, ""),
		forged("b.json", "is neither a file nor a directory"),
	},
	"a device": {evil(tar.Header{Typeflag: tar.TypeBlock, Name: "resources/configmaps/namespaces/a/b.json"}, ""), forged("b.json")},
	"the same file twice": {
		func(t testing.TB, app string) []byte {
			t.Helper()
			return evil(tar.Header{Name: pathOf(app, "c0")}, "{}")(t, app)
		}, forged("already", "c0"),
	},
	"another archive behind it": {
		func(t testing.TB, app string) []byte {
			t.Helper()
			one := newArchive(t, func(w *tar.Writer) { goodStart(t, w, app) })
			return slices.Concat(one, one)
		}, forged("continues after its end"),
	},
	"two preferred versions": {
		func(t testing.TB, app string) []byte {
			t.Helper()
			return newArchive(t, func(w *tar.Writer) {
				goodStart(t, w, app)
				file(t, w, "resources/roles.example.io/v1-preferredversion/cluster/a.json", "{}")
				file(t, w, "resources/roles.example.io/v2-preferredversion/cluster/a.json", "{}")
			})
		}, forged("preferred versions"),
	},
	"a large object": {
		evil(tar.Header{Name: "resources/configmaps/namespaces/a/b.json"}, strings.Repeat(" ", 16<<20+1)),
		[]string{"b.json", "has 16777217 bytes", "raise --max-archive-size"},
	},
	"a gzip bomb": {bomb, []string{"too many bytes", "raise --max-archive-size", "otherwise restore another backup"}},
	"a gzip bomb of nothing": {
		func(t testing.TB, app string) []byte {
			t.Helper()
			return compressed(t, func(out io.Writer) {
				w := tar.NewWriter(out)
				goodStart(t, w, app)
				Expect(w.Flush()).To(Succeed())
				zeros := make([]byte, 1<<20)
				for range maxArchive >> 20 {
					if _, err := out.Write(zeros); err != nil {
						t.Fatal(err)
					}
				}
			})
		}, []string{"too many bytes", "raise --max-archive-size"},
	},
	"cut off": {
		func(t testing.TB, app string) []byte {
			t.Helper()
			good := newArchive(t, func(w *tar.Writer) { goodStart(t, w, app) })
			return good[:len(good)-9]
		}, damaged("unexpected EOF"),
	},
	"another byte": {
		func(t testing.TB, app string) []byte {
			t.Helper()
			good := newArchive(t, func(w *tar.Writer) { goodStart(t, w, app) })
			good[len(good)-6] ^= 1 // of the checksum, as nothing else reports it
			return good
		}, damaged("checksum"),
	},
	"nothing": {func(testing.TB, string) []byte { return nil }, damaged("EOF")},
}

// evil returns an archive with one more entry.
func evil(header tar.Header, content string) func(testing.TB, string) []byte {
	return func(t testing.TB, app string) []byte {
		t.Helper()
		return newArchive(t, func(w *tar.Writer) {
			goodStart(t, w, app)
			entry(t, w, header, content)
		})
	}
}

// bomb has objects of 16 MiB of nothing, which take up a thousandth in the bucket.
func bomb(t testing.TB, app string) []byte {
	t.Helper()
	content := strings.Repeat(" ", 16<<20)
	return newArchive(t, func(w *tar.Writer) {
		goodStart(t, w, app)
		for i := range maxArchive>>24 + 1 {
			file(t, w, pathOf(app, fmt.Sprintf("bomb-%d", i)), content)
		}
	})
}

func forged(texts ...string) []string {
	return append(texts, "no backup writes such an archive: find out who put ", "restore another backup")
}

func damaged(texts ...string) []string {
	return append(texts, ".tar.gz is damaged or was not read to its end: restore again; if that does not help, restore the file from a copy")
}

var _ = Describe("Hostile archives", Label("security"), func() {
	// They leave nothing behind: neither files nor open ones, nor an operator that cannot continue.
	It("are refused before anything is written", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.StartOperator(t, fmt.Sprintf("--max-archive-size=%d", maxArchive))}
		app := world.CreateApp(t, 1)
		good := s.backUp(t, app)
		pid := s.Operator.PID()
		for name, c := range hostileArchives {
			By(name, func() {
				r, target := s.restoreOf(s.fromVelero(t, manifestOfVelero, c.archive(t, app)), app)
				r.Labels = env.LabelsForActions(first)
				texts := append([]string{"nothing was restored, because the archive cannot be used"}, c.texts...)
				r = outcome(t, env.Create(t, world.Client, r), v1alpha1.RunPhaseFailed, texts...)
				untouched(t, target)
				if r.Status.Counts != nil {
					t.Errorf("the counts are %v, want none", r.Status.Counts)
				}
				s.spoolIsEmpty(t)

				r, target = s.restoreOf(good.Name, app)
				outcome(t, env.Create(t, world.Client, r), v1alpha1.RunPhaseCompleted, "2 created")
				env.CheckEqual(t, "objects", restored(t, target), []string{"c0=0"})
				s.spoolIsEmpty(t)
			})
		}
		if s.Operator.PID() != pid || s.Operator.Err() != nil {
			t.Errorf("the operator has ended: %v", s.Operator.Err())
		}
	})

	// A good ConfigMap among them is restored.
	It("are reported in one sentence when 200,000 objects have no kind", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.StartOperator(t)}
		app := world.CreateApp(t, 1)
		const many = 200_000
		archive := newArchive(t, func(w *tar.Writer) {
			goodStart(t, w, app)
			for i := range many {
				file(t, w, fmt.Sprintf("resources/flies.example.io/namespaces/%s/f%d.json", app, i), "{}")
			}
		})
		backup := s.fromVelero(t, manifestOfVelero, archive)
		r, target := s.restoreOf(backup, app)
		r = outcome(t, env.Create(t, world.Client, r), v1alpha1.RunPhasePartiallyFailed, "2 created, 200000 failed; 1 error")
		env.CheckEqual(t, "objects", restored(t, target), []string{"c0=0"})
		says(t, s.results(t, r), "200000 objects of flies.example.io are not restored: the cluster does not serve them")
		s.spoolIsEmpty(t)

		r, target = s.restoreOf(backup, app)
		r.Spec.IncludedResources = []v1alpha1.NamePattern{"configmaps"}
		outcome(t, env.Create(t, world.Client, r), v1alpha1.RunPhaseCompleted, "2 created")
		env.CheckEqual(t, "objects", restored(t, target), []string{"c0=0"})
	})
})

// spoolIsEmpty checks that nothing of an archive is left in the scratch directory, and no
// file open that has no name there.
func (s site) spoolIsEmpty(t testing.TB) {
	t.Helper()
	files, err := os.ReadDir(filepath.Join(s.Dir, "scratch"))
	Expect(err).NotTo(HaveOccurred())
	for _, file := range files {
		t.Errorf("%s remains in the scratch directory", file.Name())
	}
	open, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", s.Operator.PID()))
	Expect(err).NotTo(HaveOccurred())
	for _, descriptor := range open {
		if path, err := os.Readlink(descriptor); err == nil && strings.HasPrefix(path, filepath.Join(s.Dir, "scratch")) {
			t.Errorf("%s is still open", path)
		}
	}
}
