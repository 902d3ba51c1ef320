// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel/test/node/host"
)

// config is an image's configuration, as far as it is used; see the OCI image
// specification.
type config struct {
	Created      time.Time `json:"created"`
	Architecture string    `json:"architecture"`
	OS           string    `json:"os"`
	Config       execution `json:"config"`
	RootFS       rootFS    `json:"rootfs"`
}

type execution struct {
	User       string   `json:"User,omitempty"`
	Env        []string `json:"Env,omitempty"`
	Entrypoint []string `json:"Entrypoint"`
	Cmd        []string `json:"Cmd,omitempty"`
	WorkingDir string   `json:"WorkingDir"`
}

type rootFS struct {
	Type    string   `json:"type"`
	DiffIDs []string `json:"diff_ids"`
}

// manifest is one element of manifest.json.
type manifest struct {
	Config   string   `json:"Config"`
	RepoTags []string `json:"RepoTags"`
	Layers   []string `json:"Layers"`
}

// writeArchive writes the file of `docker save` around a layer.
func writeArchive(out io.Writer, i Image, layer *os.File, digest string) error {
	configuration, err := json.Marshal(i.config(digest))
	if err != nil {
		return err
	}
	sum := sha256.Sum256(configuration)
	configName, layerName := hex.EncodeToString(sum[:])+".json", digest+"/layer.tar"
	list, err := json.Marshal([]manifest{{Config: configName, RepoTags: i.names(), Layers: []string{layerName}}})
	if err != nil {
		return err
	}
	size, err := layer.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = layer.Seek(0, io.SeekStart)
	}
	if err != nil {
		return err
	}
	archive := tar.NewWriter(out)
	return errors.Join(
		member(archive, layerName, size, layer),
		member(archive, configName, int64(len(configuration)), strings.NewReader(string(configuration))),
		member(archive, "manifest.json", int64(len(list)), strings.NewReader(string(list))),
		archive.Close(),
	)
}

func member(archive *tar.Writer, name string, size int64, content io.Reader) error {
	header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o644, ModTime: epoch}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err := io.Copy(archive, content)
	return err
}

func (i Image) config(digest string) config {
	environment := slices.Clone(i.Env)
	if !slices.ContainsFunc(environment, func(one string) bool { return strings.HasPrefix(one, "PATH=") }) {
		environment = append(environment, "PATH="+host.Path)
	}
	return config{
		Created: epoch, Architecture: runtime.GOARCH, OS: "linux",
		Config: execution{
			User: i.User, Env: environment, Entrypoint: i.Entrypoint, Cmd: i.Cmd,
			WorkingDir: filepath.Join("/", i.WorkingDir),
		},
		RootFS: rootFS{Type: "layers", DiffIDs: []string{"sha256:" + digest}},
	}
}
