// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/grapnel-dev/grapnel/hack/release/image"
)

// writeImage packs programs that are built into an OCI layout.
func writeImage(dir, imageName, version string, from commit, programs string, platforms []platform) error {
	var images []image.Image
	for _, p := range platforms {
		i := image.Grapnel(imageName, operator.on(p).pathIn(programs), csiPlugin.on(p).pathIn(programs))
		i.Architecture, i.Created = p.arch, from.time
		i.Labels = map[string]string{
			"org.opencontainers.image.title":    "Grapnel",
			"org.opencontainers.image.source":   homepage,
			"org.opencontainers.image.licenses": "Apache-2.0",
			"org.opencontainers.image.version":  version,
			"org.opencontainers.image.revision": from.hash,
		}
		images = append(images, i)
	}
	return image.WriteLayout(dir, images...)
}

func imagePrograms(platforms []platform) []program {
	var programs []program
	for _, p := range platforms {
		programs = append(programs, operator.on(p), csiPlugin.on(p))
	}
	return programs
}

// buildImage builds the image alone, also from a commit with changes. It replaces an earlier one.
func (b builder) buildImage(ctx context.Context, imageName, version string, texts []string, dir string) error {
	if dir == "" {
		return errUsage
	}
	var platforms []platform
	for _, text := range texts {
		p, err := parsePlatform(text)
		if err == nil && p.os != "linux" {
			err = fmt.Errorf("the image is for linux, not for %s", p)
		}
		if err != nil {
			return err
		}
		platforms = append(platforms, p)
	}
	from, err := readCommit(ctx, b.root)
	if err != nil {
		return err
	}
	return replaceDirectory(dir, func(stage, work string) error {
		if err := b.buildPrograms(ctx, version, work, imagePrograms(platforms)...); err != nil {
			return err
		}
		if err := writeImage(stage, imageName, version, from, work, platforms); err != nil {
			return err
		}
		return image.WriteArchive(stage, dir+".tar", imageName)
	})
}

// writeRoot writes what the image has below a directory, for the Dockerfile.
func (b builder) writeRoot(ctx context.Context, version, target, dir string) error {
	if dir == "" {
		return errUsage
	}
	p, err := parsePlatform(target)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "grapnel-root-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	if err := b.buildPrograms(ctx, version, work, imagePrograms([]platform{p})...); err != nil {
		return err
	}
	layer, err := image.Grapnel("", operator.on(p).pathIn(work), csiPlugin.on(p).pathIn(work)).Open()
	if err != nil {
		return err
	}
	defer func() { _ = layer.Close() }()
	return extractArchive(layer, dir)
}

// extractArchive writes the directories and files of an archive below a directory.
func extractArchive(in io.Reader, dir string) error {
	for archive := tar.NewReader(in); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading an archive: %w", err)
		}
		path := filepath.Join(dir, header.Name)
		if header.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, 0o755)
		} else {
			err = writeFile(path, archive)
		}
		if err == nil { // the umask does not apply
			err = os.Chmod(path, header.FileInfo().Mode())
		}
		if err != nil {
			return fmt.Errorf("extracting %s: %w", header.Name, err)
		}
	}
}

func writeFile(path string, content io.Reader) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	return errors.Join(err, file.Close())
}

// pushLayout pushes the image of an OCI layout, for all its platforms, and returns its name with
// the digest.
func pushLayout(ctx context.Context, layout, to string) (string, error) {
	index, descriptor, err := image.ReadLayout(layout)
	if err != nil {
		return "", fmt.Errorf("%w: build it first", err)
	}
	tag, err := name.NewTag(to, name.StrictValidation)
	if err != nil {
		return "", fmt.Errorf("the image cannot be pushed to %q: %w", to, err)
	}
	if err := remote.WriteIndex(tag, index, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return "", fmt.Errorf("pushing %s: %w", tag, err)
	}
	return withDigest(tag.String(), descriptor.Digest), nil
}

func withDigest(imageName string, digest v1.Hash) string {
	return imageName + "@" + digest.String()
}
