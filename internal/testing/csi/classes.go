// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package csi

import (
	"context"
	_ "embed" // for the classes
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/internal/testing/program"
)

const (
	// DriverName is the name of the driver.
	DriverName = "directory.csi.grapnel.dev"
	// ClassName is the name of the StorageClass, the VolumeSnapshotClass and the
	// VolumeGroupSnapshotClass of the driver; their policy is Delete.
	ClassName = "directory"
	// WaitClassName is the name of the StorageClass whose volumes are created for the first
	// pod that uses them.
	WaitClassName = "directory-wait"
)

// Classes are the manifests of the CSIDriver and of its classes.
//
//go:embed classes.yaml
var Classes string

// FindCRDs returns the directory with the CRDs of snapshots and of group snapshots, which is that of
// the module that the sidecars are built from.
func FindCRDs(ctx context.Context) (string, error) {
	root, err := program.ModuleRoot()
	if err != nil {
		return "", err
	}
	const module = "github.com/kubernetes-csi/external-snapshotter/client/v8"
	// A package of it, and not the module: then go downloads it, if that is necessary.
	cmd := exec.CommandContext(ctx, "go", "list", "-f", "{{.Module.Dir}}", module+"/apis/volumesnapshot/v1")
	cmd.Dir = filepath.Join(root, "hack", "controlplane", "csi")
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("looking for the CRDs of snapshots: %w", err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "config", "crd"), nil
}

// createClasses creates what Classes lists, if it is missing.
func createClasses(ctx context.Context, c client.Client) error {
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(Classes), len(Classes))
	for range strings.Count(Classes, "\nkind: ") {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); err != nil {
			return fmt.Errorf("decoding the classes: %w", err)
		}
		if err := client.IgnoreAlreadyExists(c.Create(ctx, object)); err != nil {
			return fmt.Errorf("creating %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}
