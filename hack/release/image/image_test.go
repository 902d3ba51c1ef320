// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// members reads an archive; directories are in it without content.
func members(t *testing.T, archive io.Reader) (names []string, headers map[string]*tar.Header, contents map[string]string) {
	t.Helper()
	headers, contents = map[string]*tar.Header{}, map[string]string{}
	for r := tar.NewReader(archive); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return names, headers, contents
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, header.Name)
		headers[header.Name], contents[header.Name] = header, string(content)
	}
}

func save(t *testing.T, i Image) []byte {
	t.Helper()
	file := filepath.Join(t.TempDir(), "image.tar")
	if err := i.Save(file); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(filepath.Dir(file))
	if err != nil || len(entries) != 1 {
		t.Errorf("beside the image there is something left: %v, %v", entries, err)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func example(t *testing.T) Image {
	t.Helper()
	source := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(source, []byte("\x7fELF"), 0o600); err != nil {
		t.Fatal(err)
	}
	return Image{
		Name: "docker.io/local/hello:1", Aliases: []string{"docker.io/library/hello:quickstart"}, Entrypoint: []string{"/opt/hello"}, Cmd: []string{"world"}, User: NonRoot,
		Env: []string{"A=1"}, Content: []Item{File{Path: "/opt/hello", Source: source, Mode: 0o755}},
	}
}

// TestSave reads what a node would load.
func TestSave(t *testing.T) {
	i := example(t)
	i.Labels, i.Aliases = map[string]string{"a": "b"}, nil
	archive := save(t, i)
	dir := t.TempDir()
	names, _, contents := members(t, bytes.NewReader(archive))
	for _, name := range names {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(contents[name]), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	index, descriptor, err := ReadLayout(dir)
	if err != nil {
		t.Fatal(err)
	}
	if name := descriptor.Annotations["io.containerd.image.name"]; name != i.Name || descriptor.Annotations["org.opencontainers.image.ref.name"] != "1" {
		t.Errorf("the annotations of %s are %v", i.Name, descriptor.Annotations)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(manifest.Manifests) != 1 || manifest.Manifests[0].Platform.String() != "linux/"+runtime.GOARCH {
		t.Fatalf("it is for %v", manifest.Manifests)
	}
	loaded, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	config, err := loaded.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	e := config.Config
	if e.User != NonRoot || !slices.Equal(e.Entrypoint, i.Entrypoint) || !slices.Equal(e.Cmd, i.Cmd) || e.WorkingDir != "/" ||
		e.Env[0] != "A=1" || !strings.HasPrefix(e.Env[1], "PATH=") || e.Labels["a"] != "b" {
		t.Errorf("the execution is %+v", e)
	}
	layers, err := loaded.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("it has %d layers, %v", len(layers), err)
	}
	layer, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = layer.Close() }()
	if _, headers, content := members(t, layer); content["opt/hello"] != "\x7fELF" || headers["opt/hello"].Mode != 0o755 ||
		headers["tmp/"].Mode != 0o1777 || !strings.Contains(content["etc/passwd"], ":65532:65532:") {
		t.Errorf("the layer has %v", content)
	}
	if again := save(t, i); !bytes.Equal(archive, again) {
		t.Error("packed again, it differs")
	}
}

// TestWriteArchive_Name has the tests install what a release has, under their own name.
func TestWriteArchive_Name(t *testing.T) {
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "image.tar")
	if err := errors.Join(WriteLayout(dir, example(t)), WriteArchive(dir, file, "ghcr.io/a/b:e2e", "ghcr.io/a/c:e2e")); err != nil {
		t.Fatal(err)
	}
	archive, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = archive.Close() }()
	_, _, contents := members(t, archive)
	_, descriptor, err := ReadLayout(dir)
	if err != nil {
		t.Fatal(err)
	}
	if index := contents["index.json"]; !strings.Contains(index, `"ghcr.io/a/b:e2e"`) || !strings.Contains(index, `"ghcr.io/a/c:e2e"`) || strings.Contains(index, "hello") || !strings.Contains(index, descriptor.Digest.String()) {
		t.Errorf("the index of the archive is %s", index)
	}
}

// TestGrapnel_Authorities checks what a connection to a bucket needs.
func TestGrapnel_Authorities(t *testing.T) {
	list := listAuthorities()
	if count := strings.Count(list, "BEGIN CERTIFICATE"); count < 80 || !x509.NewCertPool().AppendCertsFromPEM([]byte(list)) {
		t.Errorf("the image has %d certificates of public authorities", count)
	}
}

func TestImage_SaveErrors(t *testing.T) {
	cases := map[string]func(*Image){
		"no registry":         func(i *Image) { i.Name = "local/hello:1" },
		"no tag":              func(i *Image) { i.Name = "docker.io/local/hello" },
		"a tag to pull":       func(i *Image) { i.Name = "docker.io/local/hello:latest" },
		"an alias to pull":    func(i *Image) { i.Aliases = []string{"docker.io/library/hello:latest"} },
		"a registry alone":    func(i *Image) { i.Name = "localhost:5000" },
		"no entrypoint":       func(i *Image) { i.Entrypoint = nil },
		"no such file":        func(i *Image) { i.Content = []Item{File{Path: "/x", Source: "/nowhere"}} },
		"a file as directory": func(i *Image) { i.Content = append(i.Content, Data{Path: "/opt/hello/x"}) },
		"a directory as file": func(i *Image) { i.Content = append(i.Content, Data{Path: "/opt"}) },
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			i := example(t)
			change(&i)
			dir := t.TempDir()
			if err := i.Save(filepath.Join(dir, "image.tar")); err == nil {
				t.Error("it is packed")
			}
			if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
				t.Errorf("something is left: %v, %v", entries, err)
			}
		})
	}
}

// TestItems packs each kind of item, over a tree with some of each.
func TestItems(t *testing.T) {
	tree := t.TempDir()
	if err := errors.Join(
		os.MkdirAll(filepath.Join(tree, "usr/bin"), 0o755),
		os.WriteFile(filepath.Join(tree, "usr/bin/tool"), []byte("tool"), 0o600),
		os.Chmod(filepath.Join(tree, "usr/bin/tool"), 0o755|fs.ModeSetuid),
		os.Symlink("usr/bin", filepath.Join(tree, "bin")),
		os.WriteFile(filepath.Join(tree, "replaced"), []byte("old"), 0o644),
		os.Mkdir(filepath.Join(tree, "data"), 0o755),
	); err != nil {
		t.Fatal(err)
	}
	var layer bytes.Buffer
	if err := writeLayer(&layer, []Item{
		Tree{Source: tree},
		Tree{Source: filepath.Join(tree, "usr"), Path: "/copy"},
		Data{Path: "/replaced", Content: "new", Mode: 0o640},
		Link{Path: "/usr/bin/other", Target: "tool"},
		Directory{Path: "/data", Mode: 0o700, Owner: 999},
	}, time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	names, headers, contents := members(t, &layer)
	if !slices.IsSorted(names) {
		t.Errorf("a directory comes after its content: %q", names)
	}
	for name, want := range map[string]string{"usr/bin/tool": "tool", "copy/bin/tool": "tool", "replaced": "new"} {
		if contents[name] != want || headers[name].Uid != 0 {
			t.Errorf("%s is %q of %d, want %q of root", name, contents[name], headers[name].Uid, want)
		}
	}
	for name, want := range map[string]int64{"usr/bin/tool": 0o4755, "replaced": 0o640, "data/": 0o700, "usr/": 0o755, "etc/": 0o755} {
		if headers[name] == nil || headers[name].Mode != want {
			t.Errorf("%s: %+v, want mode %o", name, headers[name], want)
		}
	}
	if l := headers["bin"]; l.Typeflag != tar.TypeSymlink || l.Linkname != "usr/bin" {
		t.Errorf("bin is %+v", l)
	}
	if l := headers["usr/bin/other"]; l.Typeflag != tar.TypeSymlink || l.Linkname != "tool" {
		t.Errorf("usr/bin/other is %+v", l)
	}
	if headers["data/"].Uid != 999 || headers["data/"].Gid != 999 {
		t.Errorf("data is %+v", headers["data/"])
	}
}
