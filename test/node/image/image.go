// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// NonRoot is a numeric user and group without rights, as Kubernetes wants to see it
// where runAsNonRoot is set.
const NonRoot = "65532:65532"

// Image is what becomes an image.
type Image struct {
	// Name is the full name with registry and tag. Without a registry, or with the tag
	// latest, the node would look for the image elsewhere.
	Name string
	// Aliases are further names, which documents use.
	Aliases []string
	// Entrypoint is the program and its first arguments, Cmd are further arguments that
	// the pod's replace.
	Entrypoint, Cmd []string
	// User is numeric, USER:GROUP; empty is root.
	User string
	// Env has elements NAME=VALUE. PATH is set unless it is here.
	Env []string
	// WorkingDir is / if it is empty.
	WorkingDir string
	Content    []Item
}

// Save writes the image to a file, which appears only once it is complete.
func (i Image) Save(path string) error {
	if err := i.check(); err != nil {
		return err
	}
	dir, name := filepath.Split(path)
	if dir == "" {
		dir = "."
	}
	layer, err := os.CreateTemp(dir, "."+name+"-layer-*")
	if err != nil {
		return fmt.Errorf("making a file for the layer of %s: %w", i.Name, err)
	}
	defer func() { _ = errors.Join(layer.Close(), os.Remove(layer.Name())) }()
	digest, err := writeLayer(layer, i.Content)
	if err != nil {
		return fmt.Errorf("packing %s: %w", i.Name, err)
	}
	out, err := os.CreateTemp(dir, "."+name+"-*")
	if err != nil {
		return fmt.Errorf("making a file for the image %s: %w", i.Name, err)
	}
	err = errors.Join(writeArchive(out, i, layer, digest), out.Chmod(0o644), out.Close())
	if err == nil {
		err = os.Rename(out.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("writing the image %s: %w", i.Name, err), os.Remove(out.Name()))
	}
	return nil
}

// check refuses what a node would take for something else.
func (i Image) check() error {
	for _, name := range i.names() {
		registry, rest, _ := strings.Cut(name, "/")
		_, tag, tagged := strings.Cut(rest, ":")
		switch {
		case !strings.ContainsAny(registry, ".:") || rest == "":
			return fmt.Errorf("the name %q of the image has no registry: write docker.io/local/NAME:TAG", name)
		case !tagged || tag == "" || tag == "latest":
			return fmt.Errorf("the name %q of the image needs a tag other than latest: nodes pull latest", name)
		}
	}
	if len(i.Entrypoint) == 0 {
		return fmt.Errorf("the image %s has no entrypoint", i.Name)
	}
	return nil
}

func (i Image) names() []string {
	return append([]string{i.Name}, i.Aliases...)
}
