// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// module is the path of all our own modules, or the beginning of it.
const module = "github.com/grapnel-dev/grapnel"

// writeImageBOM lists the modules in the programs of the image, and that of its authorities.
func (r release) writeImageBOM() error {
	bom, err := r.listModules("grapnel", cdx.ComponentTypeContainer, imagePrograms(imagePlatforms))
	if err != nil {
		return err
	}
	const authorities = "golang.org/x/crypto/x509roots/fallback"
	if info, found := debug.ReadBuildInfo(); found {
		for _, dependency := range info.Deps {
			if dependency.Path == authorities {
				bom.add(bom.subject, toLibrary(authorities, dependency.Version))
			}
		}
	}
	return bom.write(r.path("grapnel_" + r.version + "_image.cdx.json"))
}

// writeCommandLineBOM lists the modules in the command line for each platform.
func (r release) writeCommandLineBOM() error {
	var programs []program
	for _, p := range commandLinePlatforms {
		programs = append(programs, commandLine.on(p))
	}
	bom, err := r.listModules("kubectl-grapnel", cdx.ComponentTypeApplication, programs)
	if err != nil {
		return err
	}
	return bom.write(r.path("kubectl-grapnel_" + r.version + ".cdx.json"))
}

// billOfMaterials is what becomes a file in the format CycloneDX.
type billOfMaterials struct {
	subject    string
	metadata   cdx.Metadata
	components map[string]cdx.Component
	// contains has the references of components by the reference of what contains them.
	contains map[string][]string
}

// listModules reads from programs which modules they are built of.
func (r release) listModules(name string, kind cdx.ComponentType, programs []program) (*billOfMaterials, error) {
	bom := &billOfMaterials{
		subject: name,
		metadata: cdx.Metadata{
			Timestamp: r.commit.time.Format(time.RFC3339),
			Component: &cdx.Component{
				BOMRef: name, Type: kind, Name: name, Version: r.version,
				Licenses: &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}},
			},
			Properties: &[]cdx.Property{{Name: "grapnel:commit", Value: r.commit.hash}},
		},
		components: map[string]cdx.Component{}, contains: map[string][]string{},
	}
	for _, p := range programs {
		path := p.pathIn(r.programs)
		info, err := buildinfo.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("reading the modules of %s: %w", p.name, err)
		}
		sum, err := sumFile(path)
		if err != nil {
			return nil, err
		}
		ref := p.String() + "/" + p.name
		bom.add(name, cdx.Component{
			BOMRef: ref, Type: cdx.ComponentTypeApplication, Name: p.name, Version: r.version,
			Hashes:     &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: sum}},
			Properties: &[]cdx.Property{{Name: "grapnel:platform", Value: p.String()}},
		})
		bom.add(ref, toLibrary("std", strings.TrimPrefix(info.GoVersion, "go")))
		for _, dependency := range append(info.Deps, &info.Main) {
			bom.add(ref, r.toComponent(dependency))
		}
	}
	return bom, nil
}

// toComponent gives our own modules the version of the release: in the repository, they have none.
func (r release) toComponent(m *debug.Module) cdx.Component {
	if m.Path == module || strings.HasPrefix(m.Path, module+"/") {
		return toLibrary(m.Path, r.version)
	}
	if m.Replace != nil {
		m = m.Replace
	}
	return toLibrary(m.Path, m.Version)
}

func toLibrary(path, version string) cdx.Component {
	purl := "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
	return cdx.Component{BOMRef: purl, Type: cdx.ComponentTypeLibrary, Name: path, Version: version, PackageURL: purl}
}

func (b *billOfMaterials) add(container string, c cdx.Component) {
	b.components[c.BOMRef] = c
	if !slices.Contains(b.contains[container], c.BOMRef) {
		b.contains[container] = append(b.contains[container], c.BOMRef)
	}
}

func (b *billOfMaterials) write(path string) error {
	out := cdx.NewBOM()
	out.Metadata = &b.metadata
	out.Components, out.Dependencies = &[]cdx.Component{}, &[]cdx.Dependency{}
	for _, ref := range slices.Sorted(maps.Keys(b.components)) {
		*out.Components = append(*out.Components, b.components[ref])
	}
	for _, container := range slices.Sorted(maps.Keys(b.contains)) {
		contained := slices.Sorted(slices.Values(b.contains[container]))
		*out.Dependencies = append(*out.Dependencies, cdx.Dependency{Ref: container, Dependencies: &contained})
	}
	var encoded bytes.Buffer
	encoder := cdx.NewBOMEncoder(&encoded, cdx.BOMFileFormatJSON)
	encoder.SetPretty(true)
	if err := encoder.Encode(out); err != nil {
		return fmt.Errorf("encoding the list of modules: %w", err)
	}
	return os.WriteFile(path, encoded.Bytes(), 0o644)
}
