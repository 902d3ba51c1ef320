// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"sigs.k8s.io/yaml"

	"github.com/grapnel-dev/grapnel/hack/release/image"
)

const changelog = `# Changelog

## v0.2.0

Later.

## v0.1.0 - not released yet

### Added

- Something.

## v0.0.1
`

// buildTiny returns the small program, which is built once.
var buildTiny = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "tiny-*")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	target := filepath.Join(dir, "tiny")
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", target, "./testdata/tiny").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	return os.ReadFile(target)
})

// newBuilder returns a builder for a copy of this repository, in a commit of its own, whose programs
// are all the same small one.
func newBuilder(t *testing.T) builder {
	t.Helper()
	root := t.TempDir()
	for _, dir := range []string{"charts", "config"} {
		if err := os.CopyFS(filepath.Join(root, dir), os.DirFS(filepath.Join("..", "..", dir))); err != nil {
			t.Fatal(err)
		}
	}
	license, err := os.ReadFile("../../LICENSE")
	if err := errors.Join(err, os.WriteFile(filepath.Join(root, "LICENSE"), license, 0o600),
		os.WriteFile(filepath.Join(root, "CHANGELOG.md"), []byte(changelog), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"} {
		t.Setenv(name, "a")
	}
	for _, name := range []string{"GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"} {
		t.Setenv(name, "a@example.com")
	}
	for _, name := range []string{"GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"} {
		t.Setenv(name, "2026-11-28T12:00:00Z")
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"commit", "-q", "--no-gpg-sign", "-m", "one"}} {
		if _, err := runGit(t.Context(), root, args...); err != nil {
			t.Fatal(err)
		}
	}
	content, err := buildTiny()
	if err != nil {
		t.Fatal(err)
	}
	return builder{root: root, log: io.Discard, build: func(_ context.Context, _ string, _ program, _, target string) error {
		return os.WriteFile(target, content, 0o600)
	}}
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// readTree returns the content of all files by their paths.
func readTree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			name, _ := filepath.Rel(dir, path)
			files[name] = string(readFile(t, path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestRelease reads each file of a release as its users do.
func TestRelease(t *testing.T) {
	b := newBuilder(t)
	dir := filepath.Join(t.TempDir(), "dist", "v0.1.0")
	if err := run(t.Context(), b, []string{"release", "-version", "v0.1.0", "-out", dir}, io.Discard); err != nil {
		t.Fatal(err)
	}
	files := []string{
		"checksums.txt", "grapnel-0.1.0.tgz", "grapnel_v0.1.0_image.cdx.json", "grapnel_v0.1.0_image.tar", "image", "install.yaml", "krew.yaml",
		"kubectl-grapnel_v0.1.0.cdx.json",
		"kubectl-grapnel_v0.1.0_darwin_amd64.tar.gz", "kubectl-grapnel_v0.1.0_darwin_arm64.tar.gz",
		"kubectl-grapnel_v0.1.0_linux_amd64.tar.gz", "kubectl-grapnel_v0.1.0_linux_arm64.tar.gz",
		"kubectl-grapnel_v0.1.0_windows_amd64.zip", "kubectl-grapnel_v0.1.0_windows_arm64.zip", "release-notes.md",
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, entry := range entries {
		got = append(got, entry.Name())
	}
	if !slices.Equal(got, files) {
		t.Errorf("it has the files %q, want %q", got, files)
	}
	if entries, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(entries) != 1 {
		t.Errorf("beside it there is something left: %v, %v", entries, err)
	}

	t.Run("checksums", func(t *testing.T) {
		listed := 0
		for line := range strings.Lines(string(readFile(t, filepath.Join(dir, "checksums.txt")))) {
			sum, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
			if got, err := sumFile(filepath.Join(dir, name)); err != nil || got != sum {
				t.Errorf("%s has the checksum %s, listed is %s (%v)", name, got, sum, err)
			}
			listed++
		}
		if listed != len(files)-3 { // without itself, the notes, and the layout, which is in the archive
			t.Errorf("it lists %d files", listed)
		}
	})
	t.Run("image", func(t *testing.T) { checkImage(t, dir, b.root) })
	t.Run("krew", func(t *testing.T) { checkKrew(t, dir) })
	t.Run("chart", func(t *testing.T) {
		chart, err := loader.Load(filepath.Join(dir, "grapnel-0.1.0.tgz"))
		if err != nil {
			t.Fatal(err)
		}
		if chart.Metadata.Version != "0.1.0" || chart.Metadata.AppVersion != "v0.1.0" || len(chart.Templates) < 5 || len(chart.Files) < 20 {
			t.Errorf("the chart is %+v with %d templates and %d files", chart.Metadata, len(chart.Templates), len(chart.Files))
		}
	})
	t.Run("installer", func(t *testing.T) {
		text := string(readFile(t, filepath.Join(dir, "install.yaml")))
		if strings.Count(text, "image: ghcr.io/grapnel-dev/grapnel:v0.1.0\n") != 1 || strings.Contains(text, "grapnel:latest") || !strings.Contains(text, "kind: CustomResourceDefinition") {
			t.Error("install.yaml does not install this version")
		}
	})
	for name, programs := range map[string]int{"grapnel_v0.1.0_image.cdx.json": 4, "kubectl-grapnel_v0.1.0.cdx.json": 6} {
		t.Run(name, func(t *testing.T) { checkBOM(t, filepath.Join(dir, name), programs) })
	}
	t.Run("notes", func(t *testing.T) {
		text := string(readFile(t, filepath.Join(dir, notesFile)))
		_, descriptor, err := image.ReadLayout(filepath.Join(dir, "image"))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(text, "### Added\n\n- Something.\n") || strings.Contains(text, "Later") || strings.Contains(text, "v0.0.1") ||
			!strings.Contains(text, "ghcr.io/grapnel-dev/grapnel:v0.1.0@"+descriptor.Digest.String()) {
			t.Errorf("the notes are:\n%s", text)
		}
	})

	// Elsewhere, later, and over an earlier one.
	again := filepath.Join(t.TempDir(), "other")
	if err := errors.Join(os.MkdirAll(again, 0o755), os.WriteFile(filepath.Join(again, "old"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	clone := filepath.Join(t.TempDir(), "clone")
	if _, err := runGit(t.Context(), b.root, "clone", "-q", ".", clone); err != nil {
		t.Fatal(err)
	}
	b.root = clone
	if err := run(t.Context(), b, []string{"release", "-version", "v0.1.0", "-out", again}, io.Discard); err != nil {
		t.Fatal(err)
	}
	first, second := readTree(t, dir), readTree(t, again)
	for name := range first {
		if first[name] != second[name] {
			t.Errorf("built again from the same commit, %s differs", name)
		}
	}
	if len(second) != len(first) {
		t.Errorf("built again, it has the files %q", slices.Sorted(maps.Keys(second)))
	}
}

func checkImage(t *testing.T, dir, root string) {
	t.Helper()
	index, descriptor, err := image.ReadLayout(filepath.Join(dir, "image"))
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	from, err := readCommit(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	var platforms []string
	for _, one := range manifest.Manifests {
		platforms = append(platforms, one.Platform.String())
		i, err := index.Image(one.Digest)
		if err != nil {
			t.Fatal(err)
		}
		config, err := i.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if config.Architecture != one.Platform.Architecture || !config.Created.Equal(from.time) || config.Config.User != "65532:65532" ||
			!slices.Equal(config.Config.Entrypoint, []string{"/manager"}) || config.Config.Labels["org.opencontainers.image.revision"] != from.hash {
			t.Errorf("the image for %s has the configuration %+v", one.Platform, config)
		}
		files := readLayer(t, i)
		for name, mode := range map[string]int64{"manager": 0o755, "plugins/csi": 0o755, "etc/ssl/certs/ca-certificates.crt": 0o644, "tmp/": 0o1777} {
			if files[name] != mode {
				t.Errorf("in the image for %s, %s has the mode %o", one.Platform, name, files[name])
			}
		}
	}
	if !slices.Equal(platforms, []string{"linux/amd64", "linux/arm64"}) {
		t.Errorf("it is for %q", platforms)
	}
	archive := readFile(t, filepath.Join(dir, "grapnel_v0.1.0_image.tar"))
	if !bytes.Contains(archive, []byte(descriptor.Digest.String())) || !bytes.Contains(archive, []byte(`"io.containerd.image.name":"ghcr.io/grapnel-dev/grapnel:v0.1.0"`)) {
		t.Error("the archive has another image")
	}
}

// readLayer returns the modes of what an image has.
func readLayer(t *testing.T, i v1.Image) map[string]int64 {
	t.Helper()
	layers, err := i.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("it has %d layers, %v", len(layers), err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = content.Close() }()
	modes := map[string]int64{}
	for archive := tar.NewReader(content); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return modes
		}
		if err != nil {
			t.Fatal(err)
		}
		modes[header.Name] = header.Mode
	}
}

// checkKrew installs each archive as krew does.
func checkKrew(t *testing.T, dir string) {
	t.Helper()
	var plugin krewPlugin
	if err := yaml.UnmarshalStrict(readFile(t, filepath.Join(dir, "krew.yaml")), &plugin); err != nil {
		t.Fatal(err)
	}
	if plugin.APIVersion != "krew.googlecontainertools.github.com/v1alpha2" || plugin.Kind != "Plugin" || plugin.Metadata.Name != "grapnel" || plugin.Spec.Version != "v0.1.0" || len(plugin.Spec.Platforms) != 6 {
		t.Errorf("the manifest is %+v", plugin)
	}
	if len(plugin.Spec.ShortDescription) > 50 {
		t.Error("the short description is longer than what the index of krew accepts")
	}
	for _, p := range plugin.Spec.Platforms {
		place, name := path.Split(p.URI)
		if place != "https://github.com/grapnel-dev/grapnel/releases/download/v0.1.0/" {
			t.Errorf("%s is downloaded from %s", name, place)
		}
		content := readFile(t, filepath.Join(dir, name))
		if sum, err := sumFile(filepath.Join(dir, name)); err != nil || sum != p.SHA256 {
			t.Errorf("%s has the checksum %s, the manifest has %s (%v)", name, sum, p.SHA256, err)
		}
		modes := readTar
		want := "kubectl-grapnel"
		if p.Selector.MatchLabels["os"] == "windows" {
			modes, want = readZip, "kubectl-grapnel.exe"
		}
		if p.Bin != want || !strings.Contains(name, p.Selector.MatchLabels["os"]+"_"+p.Selector.MatchLabels["arch"]) {
			t.Errorf("%s in %s is for %v", p.Bin, name, p.Selector.MatchLabels)
		}
		if got := modes(t, content); !maps.Equal(got, map[string]fs.FileMode{want: 0o755, "LICENSE": 0o644}) {
			t.Errorf("%s has %v", name, got)
		}
		for _, file := range p.Files {
			if file.From != want && file.From != "LICENSE" {
				t.Errorf("%s is not in %s", file.From, name)
			}
		}
	}
}

func readTar(t *testing.T, content []byte) map[string]fs.FileMode {
	t.Helper()
	reader, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	modes := map[string]fs.FileMode{}
	for archive := tar.NewReader(reader); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return modes
		}
		if err != nil {
			t.Fatal(err)
		}
		modes[header.Name] = header.FileInfo().Mode()
	}
}

func readZip(t *testing.T, content []byte) map[string]fs.FileMode {
	t.Helper()
	archive, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	modes := map[string]fs.FileMode{}
	for _, file := range archive.File {
		modes[file.Name] = file.Mode()
	}
	return modes
}

// checkBOM looks for the modules of the small program.
func checkBOM(t *testing.T, path string, programs int) {
	t.Helper()
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(bytes.NewReader(readFile(t, path)), cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	if bom.Metadata.Component.Version != "v0.1.0" || bom.Metadata.Timestamp != "2026-11-28T12:00:00Z" {
		t.Errorf("it describes %+v of %s", bom.Metadata.Component, bom.Metadata.Timestamp)
	}
	refs, found := map[string]string{}, 0
	for _, component := range *bom.Components {
		refs[component.BOMRef] = component.PackageURL
		if component.Type == cdx.ComponentTypeApplication {
			found++
			if len(*component.Hashes) != 1 {
				t.Errorf("%s has no checksum", component.BOMRef)
			}
		}
	}
	if found != programs {
		t.Errorf("it has %d programs, want %d", found, programs)
	}
	contains := map[string][]string{}
	for _, dependency := range *bom.Dependencies {
		contains[dependency.Ref] = *dependency.Dependencies
		for _, ref := range *dependency.Dependencies {
			if _, found := refs[ref]; !found {
				t.Errorf("%s contains %s, which is not listed", dependency.Ref, ref)
			}
		}
	}
	for ref, modules := range contains {
		if strings.HasPrefix(ref, "linux/") && (!slices.Contains(modules, "pkg:golang/sigs.k8s.io/yaml@v1.6.0") ||
			!slices.Contains(modules, "pkg:golang/github.com/grapnel-dev/grapnel/hack/release@v0.1.0") ||
			!slices.ContainsFunc(modules, func(one string) bool { return strings.HasPrefix(one, "pkg:golang/std@1.") })) {
			t.Errorf("%s contains %q", ref, modules)
		}
	}
}

func TestRelease_Refused(t *testing.T) {
	b := newBuilder(t)
	dir := filepath.Join(t.TempDir(), "v0.1.0")
	for version, want := range map[string]string{
		"":                "is not a version such as v0.1.0",
		"0.1.0":           "is not a version such as v0.1.0",
		"v0.1":            "is not a version such as v0.1.0",
		"v0.1.0+build":    "is not a version such as v0.1.0",
		"b4a202bf-dirty":  "is not a version such as v0.1.0",
		"v0.1.0-rc.1":     "CHANGELOG.md has no section for v0.1.0-rc.1",
		"v0.1.1":          "CHANGELOG.md has no section for v0.1.1",
		"v0.0.1":          "the section for v0.0.1 in CHANGELOG.md is empty",
		"v0.1.0/../../up": "is not a version such as v0.1.0",
	} {
		if err := b.buildRelease(t.Context(), version, dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: want an error with %q, got: %v", version, want, err)
		}
	}

	// An earlier release stays if the next one fails.
	kept := filepath.Join(dir, "kept")
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(kept, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	failing := b
	failing.build = func(context.Context, string, program, string, string) error { return errors.New("undefined: x") }
	if err := failing.buildRelease(t.Context(), "v0.1.0", dir); err == nil || !strings.Contains(err.Error(), "undefined: x") {
		t.Errorf("a program that does not compile: %v", err)
	}
	if err := os.WriteFile(filepath.Join(b.root, "LICENSE"), []byte("other"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := b.buildRelease(t.Context(), "v0.1.0", dir); err == nil || !strings.Contains(err.Error(), "commit them") || !strings.Contains(err.Error(), "LICENSE") {
		t.Errorf("a file with changes: %v", err)
	}
	if _, err := os.Stat(kept); err != nil {
		t.Error(err)
	}
	if entries, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(entries) != 1 {
		t.Errorf("something is left: %v, %v", entries, err)
	}
}

func TestRun_Usage(t *testing.T) {
	for _, args := range [][]string{nil, {"help"}, {"release", "-version", "v0.1.0"}, {"release", "--unknown"}, {"image"}, {"root"}} {
		if err := run(t.Context(), builder{}, args, io.Discard); !errors.Is(err, errUsage) {
			t.Errorf("%q: %v", args, err)
		}
	}
}

// TestBuildProgram builds the same source in two directories, for users who build a release to
// compare it.
func TestBuildProgram(t *testing.T) {
	var built [2][]byte
	for i := range built {
		source, target := t.TempDir(), filepath.Join(t.TempDir(), "hello")
		if err := errors.Join(
			os.WriteFile(filepath.Join(source, "go.mod"), []byte("module example.com/hello\n\ngo 1.26\n"), 0o600),
			os.WriteFile(filepath.Join(source, "main.go"), []byte("package main\n\nvar version string\n\nfunc main() { print(version) }\n"), 0o600),
		); err != nil {
			t.Fatal(err)
		}
		t.Setenv("GOFLAGS", []string{"-tags=a", ""}[i])
		here := program{name: "hello", dir: ".", platform: hostPlatform()}
		if err := buildProgram(t.Context(), source, here, "v0.1.0", target); err != nil {
			t.Fatal(err)
		}
		built[i] = readFile(t, target)
		out, err := exec.CommandContext(t.Context(), target).CombinedOutput()
		if err != nil || string(out) != "v0.1.0" {
			t.Errorf("it prints %q (%v)", out, err)
		}
	}
	if !bytes.Equal(built[0], built[1]) {
		t.Error("built in another directory, with other settings, it differs")
	}
	if err := buildProgram(t.Context(), t.TempDir(), program{name: "x", dir: ".", platform: hostPlatform()}, "v0.1.0", "x"); err == nil || !strings.Contains(err.Error(), "building x for") {
		t.Errorf("without a source: %v", err)
	}
}

// TestCommitTime keeps time zones out of what is built.
func TestCommitTime(t *testing.T) {
	from, err := readCommit(t.Context(), newBuilder(t).root)
	if err != nil {
		t.Fatal(err)
	}
	if want := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC); from.time != want {
		t.Errorf("the time of the commit is %v, want %v", from.time, want)
	}
}

// TestCommandLine_Windows finds what only compiles for Unix, without compiling it.
func TestCommandLine_Windows(t *testing.T) {
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", ".")
	list.Dir, list.Env = filepath.Join("..", "..", commandLine.dir), append(os.Environ(), "GOOS=windows", "CGO_ENABLED=0")
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := strings.Fields(string(out))
	if slices.Contains(packages, "golang.org/x/sys/unix") || !slices.Contains(packages, "golang.org/x/sys/windows") {
		t.Error("the command line for Windows has system calls of Unix")
	}
}
