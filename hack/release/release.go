// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/grapnel-dev/grapnel/hack/release/image"
)

const (
	homepage        = "https://github.com/grapnel-dev/grapnel"
	imageRepository = "ghcr.io/grapnel-dev/grapnel"
	checksumsFile   = "checksums.txt"
	notesFile       = "release-notes.md"
)

var (
	imagePlatforms       = []platform{{"linux", "amd64"}, {"linux", "arm64"}}
	commandLinePlatforms = []platform{
		{"darwin", "amd64"}, {"darwin", "arm64"}, {"linux", "amd64"}, {"linux", "arm64"}, {"windows", "amd64"}, {"windows", "arm64"},
	}
)

// release is one version on its way into a directory.
type release struct {
	version string
	notes   string
	commit  commit
	// root is that of the repository, dir has what is released, and programs those that are built.
	root, dir, programs string
}

// buildRelease builds everything that is released into a directory. It replaces an earlier one as
// a whole.
func (b builder) buildRelease(ctx context.Context, version, dir string) error {
	if dir == "" {
		return errUsage
	}
	if err := checkVersion(version); err != nil {
		return err
	}
	notes, err := readNotes(b.root, version)
	if err != nil {
		return err
	}
	if err := checkClean(ctx, b.root); err != nil {
		return err
	}
	from, err := readCommit(ctx, b.root)
	if err != nil {
		return err
	}
	programs := imagePrograms(imagePlatforms)
	for _, p := range commandLinePlatforms {
		programs = append(programs, commandLine.on(p))
	}
	err = replaceDirectory(dir, func(stage, work string) error {
		if err := b.buildPrograms(ctx, version, work, programs...); err != nil {
			return err
		}
		b.logf("Packing")
		return release{version: version, notes: notes, commit: from, root: b.root, dir: stage, programs: work}.pack()
	})
	if err == nil {
		b.logf("Grapnel %s is in %s", version, dir)
	}
	return err
}

func (r release) pack() error {
	imageName := imageRepository + ":" + r.version
	layout := filepath.Join(r.dir, "image")
	if err := writeImage(layout, imageName, r.version, r.commit, r.programs, imagePlatforms); err != nil {
		return err
	}
	if err := image.WriteArchive(layout, r.path("grapnel_"+r.version+"_image.tar"), imageName); err != nil {
		return err
	}
	for _, step := range []func() error{r.writeCommandLines, r.writeChart, r.writeInstaller, r.writeImageBOM, r.writeCommandLineBOM, r.writeNotes} {
		if err := step(); err != nil {
			return err
		}
	}
	return r.writeChecksums()
}

func (r release) path(name string) string {
	return filepath.Join(r.dir, name)
}

// writeNotes adds to the changes what can only be known of a release that is built.
func (r release) writeNotes() error {
	_, descriptor, err := image.ReadLayout(r.path("image"))
	if err != nil {
		return err
	}
	name := withDigest(imageRepository+":"+r.version, descriptor.Digest)
	notes := fmt.Sprintf(`%s
### Image

    %s

### Origin

Commit %s, built with %s. [Releases](%s/blob/%s/docs/guides/releases.md) explains the files, and
how to verify them.
`, r.notes, name, r.commit.hash, runtime.Version(), homepage, r.version)
	return os.WriteFile(r.path(notesFile), []byte(notes), 0o644)
}

// writeChecksums lists the files that users download, as sha256sum does.
func (r release) writeChecksums() error {
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		return err
	}
	var list strings.Builder
	for _, entry := range entries {
		if entry.IsDir() || entry.Name() == notesFile {
			continue
		}
		sum, err := sumFile(r.path(entry.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&list, "%s  %s\n", sum, entry.Name())
	}
	return os.WriteFile(r.path(checksumsFile), []byte(list.String()), 0o644)
}

// sumFile returns the SHA-256 of a file in hexadecimal.
func sumFile(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return "", fmt.Errorf("reading %s: %w", path, err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// replaceDirectory has a function fill a directory, which then replaces another one. What the
// function leaves in work is removed.
func replaceDirectory(dir string, fill func(stage, work string) error) error {
	parent := filepath.Dir(dir)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(parent, "."+filepath.Base(dir)+"-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	stage, work := filepath.Join(tmp, "stage"), filepath.Join(tmp, "work")
	for _, path := range []string{stage, work} {
		if err := os.Mkdir(path, 0o755); err != nil {
			return err
		}
	}
	if err := fill(stage, work); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return os.Rename(stage, dir)
}
