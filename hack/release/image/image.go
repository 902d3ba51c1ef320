// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// NonRoot is a numeric user and group without rights, as Kubernetes wants to see it
// where runAsNonRoot is set.
const NonRoot = "65532:65532"

// defaultPath is where programs are looked for in an image that does not set PATH.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Image is what becomes an image for one platform.
type Image struct {
	// Name is the full name with registry and tag. Without a registry, or with the tag
	// latest, the node would look for the image elsewhere.
	Name string
	// Aliases are further names in an archive, which documents use.
	Aliases []string
	// Architecture is that of its programs, in the names of Go; empty is this machine's.
	Architecture string
	// Created is when the content was last changed, and not when it was packed, which must not
	// make a difference. Zero is the beginning of 1970.
	Created time.Time
	// Entrypoint is the program and its first arguments, Cmd are further arguments that
	// the pod's replace.
	Entrypoint, Cmd []string
	// User is numeric, USER:GROUP; empty is root.
	User string
	// Env has elements NAME=VALUE. PATH is set unless it is here.
	Env []string
	// WorkingDir is / if it is empty.
	WorkingDir string
	Labels     map[string]string
	Content    []Item
}

// Save writes the image to a file, an archive of an OCI layout, which appears only once it is
// complete.
func (i Image) Save(path string) error {
	dir, err := os.MkdirTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return fmt.Errorf("making a directory for the image %s: %w", i.Name, err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := WriteLayout(dir, i); err != nil {
		return err
	}
	return WriteArchive(dir, path, append([]string{i.Name}, i.Aliases...)...)
}

// check refuses what a node would take for something else.
func (i Image) check() error {
	if err := checkName(i.Name); err != nil {
		return err
	}
	if len(i.Entrypoint) == 0 {
		return fmt.Errorf("the image %s has no entrypoint", i.Name)
	}
	return nil
}

func checkName(name string) error {
	registry, rest, _ := strings.Cut(name, "/")
	_, tag, tagged := strings.Cut(rest, ":")
	switch {
	case !strings.ContainsAny(registry, ".:") || rest == "":
		return fmt.Errorf("the name %q of the image has no registry: write docker.io/local/NAME:TAG", name)
	case !tagged || tag == "" || tag == "latest":
		return fmt.Errorf("the name %q of the image needs a tag other than latest: nodes pull latest", name)
	}
	return nil
}

func (i Image) platform() v1.Platform {
	architecture := i.Architecture
	if architecture == "" {
		architecture = runtime.GOARCH
	}
	return v1.Platform{OS: "linux", Architecture: architecture}
}

func (i Image) created() time.Time {
	if i.Created.IsZero() {
		return time.Unix(0, 0).UTC()
	}
	return i.Created.UTC()
}

// Open returns what the image has as an archive. Close it.
func (i Image) Open() (io.ReadCloser, error) {
	reader, writer := io.Pipe()
	go func() { writer.CloseWithError(writeLayer(writer, i.Content, i.created())) }()
	return reader, nil
}

// pack makes the image, with its one layer in memory.
func (i Image) pack() (v1.Image, error) {
	if err := i.check(); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(i.Open, tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(gzip.DefaultCompression), tarball.WithCompressedCaching)
	if err != nil {
		return nil, fmt.Errorf("packing %s: %w", i.Name, err)
	}
	created, platform := v1.Time{Time: i.created()}, i.platform()
	packed, err := mutate.Append(
		mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON),
		mutate.Addendum{Layer: layer, History: v1.History{Created: created, CreatedBy: "hack/release"}},
	)
	if err != nil {
		return nil, fmt.Errorf("packing %s: %w", i.Name, err)
	}
	config, err := packed.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("packing %s: %w", i.Name, err)
	}
	config = config.DeepCopy()
	config.Created, config.OS, config.Architecture = created, platform.OS, platform.Architecture
	config.Config = v1.Config{
		User: i.User, Env: i.environment(), Entrypoint: i.Entrypoint, Cmd: i.Cmd,
		WorkingDir: filepath.Join("/", i.WorkingDir), Labels: i.Labels,
	}
	return mutate.ConfigFile(packed, config)
}

func (i Image) environment() []string {
	environment := slices.Clone(i.Env)
	if !slices.ContainsFunc(environment, func(one string) bool { return strings.HasPrefix(one, "PATH=") }) {
		environment = append(environment, "PATH="+defaultPath)
	}
	return environment
}

var errNoImage = errors.New("there is nothing to pack")
