// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"archive/tar"
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	. "github.com/onsi/gomega"

	"github.com/grapnel-dev/grapnel/internal/testing/env"
)

// newArchive returns an archive of what write puts into it.
func newArchive(t testing.TB, write func(w *tar.Writer)) []byte {
	t.Helper()
	return compressed(t, func(out io.Writer) {
		w := tar.NewWriter(out)
		write(w)
		Expect(w.Close()).To(Succeed())
	})
}

func compressed(t testing.TB, write func(out io.Writer)) []byte {
	t.Helper()
	var archive bytes.Buffer
	out, err := gzip.NewWriterLevel(&archive, gzip.BestSpeed)
	Expect(err).NotTo(HaveOccurred())
	write(out)
	Expect(out.Close()).To(Succeed())
	return archive.Bytes()
}

// entry writes one entry of an archive as Velero does, and whatever a header says
// that is not as Velero does it.
func entry(t testing.TB, w *tar.Writer, header tar.Header, content string) {
	t.Helper()
	header.Mode = 0o755
	if header.Size == 0 {
		header.Size = int64(len(content))
	}
	Expect(w.WriteHeader(&header)).To(Succeed())
	if _, err := io.WriteString(w, content); err != nil {
		t.Fatal(err)
	}
}

func file(t testing.TB, w *tar.Writer, path, content string) {
	t.Helper()
	entry(t, w, tar.Header{Typeflag: tar.TypeReg, Name: path}, content)
}

// goodStart is how the archive of an app begins that holds its namespace and c0.
func goodStart(t testing.TB, w *tar.Writer, app string) {
	t.Helper()
	file(t, w, "metadata/version", "1.1.0\n")
	file(t, w, "resources/namespaces/cluster/"+app+".json",
		fmt.Sprintf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, app))
	file(t, w, pathOf(app, "c0"),
		fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c0","namespace":%q},"data":{"n":"0"}}`, app))
}

func pathOf(app, configMap string) string {
	return "resources/configmaps/namespaces/" + app + "/" + configMap + ".json"
}

// fromVelero puts a backup into the location, as if a Velero server had made it: the
// manifest, the archive and others of its files, but none of Grapnel. It returns its
// name, which stands for BACKUP in the manifest.
func (s site) fromVelero(t testing.TB, manifest string, archive []byte, others ...string) string {
	t.Helper()
	name := "velero-" + strings.ToLower(rand.Text()[:12])
	dir := filepath.Join(s.LocationDir(env.DefaultLocation), "backups", name)
	Expect(os.MkdirAll(dir, 0o755)).To(Succeed())
	files := map[string][]byte{
		"velero-backup.json": []byte(strings.ReplaceAll(manifest, "BACKUP", name)),
		archiveOf(name):      archive,
	}
	for _, other := range others {
		files[name+other] = compressed(t, func(out io.Writer) { _, _ = io.WriteString(out, "null") }) // a bytes.Buffer takes it
	}
	for file, content := range files {
		Expect(os.WriteFile(filepath.Join(dir, file), content, 0o600)).To(Succeed())
	}
	return name
}

// archiveOfDirectory returns an archive with the files of a directory. As in every archive of
// format 1.1.0, what is in the preferred version of its kind is there twice.
func archiveOfDirectory(t testing.TB, dir string) []byte {
	t.Helper()
	return newArchive(t, func(w *tar.Writer) {
		root := os.DirFS(dir)
		err := fs.WalkDir(root, ".", func(path string, found fs.DirEntry, err error) error {
			if err != nil || found.IsDir() {
				return err
			}
			content, err := fs.ReadFile(root, path)
			if err != nil {
				return err
			}
			if plain := preferredDirectory.ReplaceAllString(path, "/"); plain != path {
				file(t, w, plain, string(content))
			}
			file(t, w, path, string(content))
			return nil
		})
		Expect(err).NotTo(HaveOccurred())
	})
}

var preferredDirectory = regexp.MustCompile(`/[^/]+-preferredversion/`)
