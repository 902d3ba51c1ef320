// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// writeChart packages the chart, which installs the image with the tag of its appVersion.
func (r release) writeChart() error {
	chart, err := loader.Load(filepath.Join(r.root, "charts", "grapnel"))
	if err != nil {
		return fmt.Errorf("loading the chart: %w", err)
	}
	chart.Metadata.Version, chart.Metadata.AppVersion = strings.TrimPrefix(r.version, "v"), r.version
	chart.StampModTimes(r.commit.time)
	if _, err := chartutil.Save(chart, r.dir); err != nil {
		return fmt.Errorf("packaging the chart: %w", err)
	}
	return nil
}

// developmentImage is what config/ installs.
const developmentImage = "image: " + imageRepository + ":latest"

// writeInstaller writes what make build-installer writes with this version.
func (r release) writeInstaller() error {
	objects, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Join(r.root, "config", "default"))
	if err != nil {
		return fmt.Errorf("building config/default: %w", err)
	}
	manifests, err := objects.AsYaml()
	if err != nil {
		return fmt.Errorf("building config/default: %w", err)
	}
	if !bytes.Contains(manifests, []byte(developmentImage)) {
		return errors.New("config/default has no " + developmentImage)
	}
	manifests = bytes.ReplaceAll(manifests, []byte(developmentImage), []byte("image: "+imageRepository+":"+r.version))
	return os.WriteFile(r.path("install.yaml"), manifests, 0o644)
}
