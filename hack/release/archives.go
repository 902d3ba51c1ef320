// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"sigs.k8s.io/yaml"
)

// packedFile is a file on its way into an archive.
type packedFile struct {
	name    string
	mode    fs.FileMode
	content []byte
}

// writeCommandLines writes an archive of the command line for each platform, and the manifest that
// names them.
func (r release) writeCommandLines() error {
	license, err := os.ReadFile(filepath.Join(r.root, "LICENSE"))
	if err != nil {
		return err
	}
	var platforms []krewPlatform
	for _, p := range commandLinePlatforms {
		built := commandLine.on(p)
		content, err := os.ReadFile(built.pathIn(r.programs))
		if err != nil {
			return err
		}
		pack, extension := packTar, ".tar.gz"
		if p.os == "windows" {
			pack, extension = packZip, ".zip"
		}
		name := fmt.Sprintf("kubectl-grapnel_%s_%s_%s%s", r.version, p.os, p.arch, extension)
		packed, err := pack(r.commit.time, packedFile{name: built.name, mode: 0o755, content: content}, packedFile{name: "LICENSE", mode: 0o644, content: license})
		if err == nil {
			err = os.WriteFile(r.path(name), packed, 0o644)
		}
		if err != nil {
			return fmt.Errorf("writing %s: %w", name, err)
		}
		sum, err := sumFile(r.path(name))
		if err != nil {
			return err
		}
		platforms = append(platforms, krewPlatform{
			URI: homepage + "/releases/download/" + r.version + "/" + name, SHA256: sum, Bin: built.name,
			Files:    []krewFile{{From: built.name, To: "."}, {From: "LICENSE", To: "."}},
			Selector: krewSelector{MatchLabels: map[string]string{"os": p.os, "arch": p.arch}},
		})
	}
	manifest, err := yaml.Marshal(newKrewPlugin(r.version, platforms))
	if err != nil {
		return err
	}
	return os.WriteFile(r.path("krew.yaml"), manifest, 0o644)
}

func packTar(changed time.Time, files ...packedFile) ([]byte, error) {
	var out bytes.Buffer
	compressor := gzip.NewWriter(&out)
	archive := tar.NewWriter(compressor)
	for _, file := range files {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: file.name, Mode: int64(file.mode), Size: int64(len(file.content)), ModTime: changed}
		if err := archive.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := archive.Write(file.content); err != nil {
			return nil, err
		}
	}
	err := errors.Join(archive.Close(), compressor.Close())
	return out.Bytes(), err
}

func packZip(changed time.Time, files ...packedFile) ([]byte, error) {
	var out bytes.Buffer
	archive := zip.NewWriter(&out)
	for _, file := range files {
		header := &zip.FileHeader{Name: file.name, Method: zip.Deflate, Modified: changed}
		header.SetMode(file.mode)
		writer, err := archive.CreateHeader(header)
		if err != nil {
			return nil, err
		}
		if _, err := io.Copy(writer, bytes.NewReader(file.content)); err != nil {
			return nil, err
		}
	}
	err := archive.Close()
	return out.Bytes(), err
}

// krewPlugin is a manifest of krew, the manager of plugins for kubectl. Its own types are in a module
// that requires a client-go of years ago.
type krewPlugin struct {
	APIVersion string       `json:"apiVersion"`
	Kind       string       `json:"kind"`
	Metadata   krewMetadata `json:"metadata"`
	Spec       krewSpec     `json:"spec"`
}

type krewMetadata struct {
	Name string `json:"name"`
}

type krewSpec struct {
	Version          string         `json:"version"`
	Homepage         string         `json:"homepage"`
	ShortDescription string         `json:"shortDescription"`
	Description      string         `json:"description"`
	Platforms        []krewPlatform `json:"platforms"`
}

type krewPlatform struct {
	Selector krewSelector `json:"selector"`
	URI      string       `json:"uri"`
	SHA256   string       `json:"sha256"`
	Bin      string       `json:"bin"`
	Files    []krewFile   `json:"files"`
}

type krewSelector struct {
	MatchLabels map[string]string `json:"matchLabels"`
}

type krewFile struct {
	From string `json:"from"`
	To   string `json:"to"`
}

func newKrewPlugin(version string, platforms []krewPlatform) krewPlugin {
	return krewPlugin{
		APIVersion: "krew.googlecontainertools.github.com/v1alpha2", Kind: "Plugin", Metadata: krewMetadata{Name: "grapnel"},
		Spec: krewSpec{
			Version: version, Homepage: homepage, ShortDescription: "Back up and restore the objects of a cluster",
			Description: `Creates, watches and describes the Backups and Restores of Grapnel, an operator that
backs up and restores the objects of a cluster, with hooks around that. It reads logs
and results, shows what a run would do, finds what is wrong with an installation, and
converts the objects of Velero.
`,
			Platforms: platforms,
		},
	}
}
