// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// WriteLayout writes an OCI layout with one index into a directory. The images are one image
// for several platforms, so they have one name.
func WriteLayout(dir string, images ...Image) error {
	if len(images) == 0 {
		return errNoImage
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, i := range images {
		packed, err := i.pack()
		if err != nil {
			return err
		}
		platform := i.platform()
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: packed, Descriptor: v1.Descriptor{Platform: &platform}})
	}
	written, err := layout.Write(dir, empty.Index)
	if err == nil {
		err = written.AppendIndex(index, layout.WithAnnotations(annotateName(images[0].Name)))
	}
	if err != nil {
		return fmt.Errorf("writing the layout of %s: %w", images[0].Name, err)
	}
	return nil
}

// annotateName returns the name as containerd, and as other tools read it.
func annotateName(name string) map[string]string {
	return map[string]string{
		"io.containerd.image.name":          name,
		"org.opencontainers.image.ref.name": name[strings.LastIndex(name, ":")+1:],
	}
}

// ReadLayout returns the index that [WriteLayout] wrote, and its descriptor with the digest.
func ReadLayout(dir string) (v1.ImageIndex, v1.Descriptor, error) {
	read, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, v1.Descriptor{}, fmt.Errorf("reading the layout %s: %w", dir, err)
	}
	manifest, err := read.IndexManifest()
	if err != nil {
		return nil, v1.Descriptor{}, fmt.Errorf("reading the layout %s: %w", dir, err)
	}
	if len(manifest.Manifests) != 1 || manifest.Manifests[0].MediaType != types.OCIImageIndex {
		return nil, v1.Descriptor{}, fmt.Errorf("the layout %s has not one index", dir)
	}
	index, err := read.ImageIndex(manifest.Manifests[0].Digest)
	return index, manifest.Manifests[0], err
}

// WriteArchive writes a layout to a file, under other names. The file appears only once it is
// complete.
func WriteArchive(dir, path string, names ...string) error {
	_, descriptor, err := ReadLayout(dir)
	if err != nil {
		return err
	}
	manifest := v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex}
	for _, name := range names {
		if err := checkName(name); err != nil {
			return err
		}
		named := descriptor
		named.Annotations = annotateName(name)
		manifest.Manifests = append(manifest.Manifests, named)
	}
	index, err := json.Marshal(manifest)
	if err != nil {
		return err
	}
	out, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return fmt.Errorf("making the file %s: %w", path, err)
	}
	err = errors.Join(archiveLayout(out, dir, index), out.Chmod(0o644), out.Close())
	if err == nil {
		err = os.Rename(out.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("writing the image to %s: %w", path, err), os.Remove(out.Name()))
	}
	return nil
}

// archiveLayout writes the files of a layout in the order of their names, with another index.json.
func archiveLayout(out io.Writer, dir string, index []byte) error {
	archive := tar.NewWriter(out)
	err := filepath.WalkDir(dir, func(path string, found fs.DirEntry, err error) error {
		if err != nil || found.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if name == "index.json" {
			return addMember(archive, name, int64(len(index)), strings.NewReader(string(index)))
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }()
		info, err := file.Stat()
		if err != nil {
			return err
		}
		return addMember(archive, name, info.Size(), file)
	})
	return errors.Join(err, archive.Close())
}

func addMember(archive *tar.Writer, name string, size int64, content io.Reader) error {
	header := &tar.Header{Typeflag: tar.TypeReg, Name: filepath.ToSlash(name), Size: size, Mode: 0o644, ModTime: time.Unix(0, 0)}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err := io.Copy(archive, content)
	return err
}
