// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/grapnel-dev/grapnel/hack/release/image"
	"github.com/grapnel-dev/grapnel/internal/testing/program"
	"github.com/grapnel-dev/grapnel/test/node/host"
)

// The names of the images that are built here.
const (
	BusyboxName   = "docker.io/local/busybox:1"
	EndpointsName = "docker.io/local/endpoints:1"
	GrapnelName   = "ghcr.io/grapnel-dev/grapnel:e2e"
	PauseName     = "docker.io/local/pause:1"
	PostgresName  = "docker.io/local/postgres:1"
)

// The names by which the quickstart of README.md has two of them.
const (
	busyboxQuickstart = "docker.io/library/busybox:1.37"
	grapnelQuickstart = "docker.io/local/grapnel:quickstart"
)

// busyboxPath is where Debian's busybox-static is.
const busyboxPath = "/bin/busybox"

// Busybox returns an image with the static busybox of this machine and links for all of
// its commands. It runs what its arguments say, or a shell, as [image.NonRoot].
func Busybox(ctx context.Context) (image.Image, error) {
	content, err := busyboxItems(ctx)
	if err != nil {
		return image.Image{}, err
	}
	return image.Image{
		Name: BusyboxName, Aliases: []string{busyboxQuickstart}, User: image.NonRoot, Content: content,
		Entrypoint: []string{"/usr/bin/env"}, Cmd: []string{"sh"},
	}, nil
}

func busyboxItems(ctx context.Context) ([]image.Item, error) {
	if err := checkStatic(busyboxPath); err != nil {
		return nil, fmt.Errorf("%w: run test/node/packages.sh as root, which installs busybox-static", err)
	}
	list, err := host.Run(ctx, busyboxPath, "--list")
	if err != nil {
		return nil, fmt.Errorf("asking busybox for its commands: %w", err)
	}
	items := []image.Item{image.File{Path: "/usr/bin/busybox", Source: busyboxPath, Mode: 0o755}, image.Link{Path: "/bin", Target: "usr/bin"}}
	for command := range strings.FieldsSeq(list) {
		if command != "busybox" {
			items = append(items, image.Link{Path: "/usr/bin/" + command, Target: "busybox"})
		}
	}
	return items, nil
}

// checkStatic fails for a program that needs libraries.
func checkStatic(path string) error {
	file, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	defer func() { _ = file.Close() }()
	for _, part := range file.Progs {
		if part.Type == elf.PT_INTERP {
			return fmt.Errorf("%s is not static", path)
		}
	}
	return nil
}

// SaveGrapnel writes the image of the operator with its plugins to a file, under its name in tests.
// It is that of an OCI layout, if there is one: of a release, for example. Without one, the programs
// are built as all tests build them, so that nothing is compiled twice, and packed as a release packs them.
func SaveGrapnel(ctx context.Context, root, layout, file string) error {
	if layout != "" {
		return image.WriteArchive(layout, file, GrapnelName, grapnelQuickstart)
	}
	manager, err := build(ctx, root, ".", "manager")
	if err != nil {
		return err
	}
	csi, err := build(ctx, root, "plugins/csi", "csi")
	if err != nil {
		return err
	}
	grapnel := image.Grapnel(GrapnelName, manager, csi)
	grapnel.Aliases = []string{grapnelQuickstart}
	return grapnel.Save(file)
}

// Pause builds the image of the process that keeps a pod's namespaces.
func Pause(ctx context.Context, root string) (image.Image, error) {
	return single(ctx, root, "pause", PauseName)
}

// Endpoints builds the image of what Plugins can call in another pod.
func Endpoints(ctx context.Context, root string) (image.Image, error) {
	return single(ctx, root, "endpoints", EndpointsName)
}

// single builds the image of one of the programs below test/node.
func single(ctx context.Context, root, name, imageName string) (image.Image, error) {
	built, err := build(ctx, root, filepath.Join("test/node", name), name)
	if err != nil {
		return image.Image{}, err
	}
	return image.Image{
		Name: imageName, User: image.NonRoot, Entrypoint: []string{"/" + name},
		Content: []image.Item{image.File{Path: "/" + name, Source: built, Mode: 0o755}},
	}, nil
}

// build builds a static program from a directory below the root of the repository.
func build(ctx context.Context, root, source, name string) (string, error) {
	target := filepath.Join(root, "bin", "e2e", "programs", name)
	return target, program.Build(ctx, filepath.Join(root, source), target)
}

// scratch makes a directory below bin/e2e that remove removes.
func scratch(root string) (dir string, remove func(), err error) {
	parent := filepath.Join(root, "bin", "e2e")
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return "", nil, err
	}
	dir, err = os.MkdirTemp(parent, "image-*")
	if err != nil {
		return "", nil, errors.Join(errors.New("creating a directory to build an image in"), err)
	}
	return dir, func() { _ = os.RemoveAll(dir) }, nil
}
