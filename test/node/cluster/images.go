// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/grapnel-dev/grapnel/hack/release/image"
	"github.com/grapnel-dev/grapnel/test/node/host"
	"github.com/grapnel-dev/grapnel/test/node/images"
)

// namespace is where containerd has what is Kubernetes'.
const namespace = "k8s.io"

// ctr runs containerd's own client.
func (l layout) ctr(ctx context.Context, args ...string) (string, error) {
	return host.Run(ctx, "ctr", append([]string{"--address=" + l.socket(), "--namespace=" + namespace}, args...)...)
}

// Load puts images from files as package image or `docker save` writes them on the node
// of the cluster that is up, and returns their names.
func Load(ctx context.Context, files ...string) (string, error) {
	l := newLayout("")
	if _, there, err := up(l.State); err != nil || !there {
		return "", errors.Join(errors.New("no cluster is up: run `make e2e-up` first"), err)
	}
	var names string
	for _, file := range files {
		out, err := l.load(ctx, file)
		if err != nil {
			return names, err
		}
		names += out
	}
	return names, nil
}

func (l layout) load(ctx context.Context, file string) (string, error) {
	out, err := l.ctr(ctx, "images", "import", "--snapshotter="+l.snapshotterInUse(), file)
	if err != nil {
		return "", fmt.Errorf("loading %s: %w", file, err)
	}
	return out, nil
}

// snapshotterInUse is that of the pods: an image must be unpacked for it.
func (l layout) snapshotterInUse() string {
	name, err := snapshotter(l.State)
	if err != nil {
		return "overlayfs"
	}
	return name
}

// importImages loads what pods need before any other can be loaded.
func (p *processes) importImages(ctx context.Context) error {
	l := p.layout
	pause, err := images.Pause(ctx, l.Root)
	if err != nil {
		return err
	}
	names := image.Image{
		Name: coreDNSImage, User: image.NonRoot, Entrypoint: []string{"/coredns"},
		Content: []image.Item{image.File{Path: "/coredns", Source: filepath.Join(l.node(), "coredns"), Mode: 0o755}},
	}
	if err := p.await(ctx, "containerd", []string{containerd}, func(ctx context.Context) error {
		_, err := l.ctr(ctx, "version")
		return err
	}); err != nil {
		return err
	}
	for _, i := range []image.Image{pause, names} {
		file := filepath.Join(l.State, "image.tar")
		if err := i.Save(file); err != nil {
			return err
		}
		if _, err := l.load(ctx, file); err != nil {
			return fmt.Errorf("%w%s", err, l.tail(containerd))
		}
		if err := os.Remove(file); err != nil {
			return err
		}
	}
	return nil
}
