// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/grapnel-dev/grapnel/internal/archive"
	"github.com/grapnel-dev/grapnel/internal/testing/controlplane"
	"github.com/grapnel-dev/grapnel/internal/testing/program"
)

// installation is a kustomization that a user may write.
type installation struct {
	// resource and components are directories below config.
	resource   string
	components []string
	// rest is what else is in it.
	rest string
}

// image names the image of the component plugins-initcontainer.
const image = "images: [{name: grapnel-plugin, newName: registry.example.com/plugin, newTag: v1}]\n"

// installations has every overlay, and every component in each way in which it is meant to be
// used.
var installations = map[string]installation{
	"base":                     {resource: "base"},
	"default":                  {resource: "default"},
	"s3":                       {resource: "overlays/s3"},
	"ha":                       {resource: "overlays/ha"},
	"ha-shared-volume":         {resource: "overlays/ha-shared-volume"},
	"the volume, by itself":    {resource: "base", components: []string{"store-volume"}},
	"a plugin that is copied":  {resource: "default", components: []string{"plugins-initcontainer"}, rest: image},
	"a plugin that is mounted": {resource: "default", components: []string{"plugins-image-volume"}},
	"commands in pods":         {resource: "default", components: []string{"pod-exec"}},
	"for backups only":         {resource: "default", components: []string{"backup-only"}},
	"snapshots of volumes":     {resource: "default", components: []string{"csi"}},
	"alerts":                   {resource: "overlays/ha", components: []string{"monitoring"}},
	"for backups, with hooks":  {resource: "overlays/s3", components: []string{"backup-only", "quiesce", "pod-exec", "csi"}},
	"everything": {resource: "base", rest: image, components: []string{
		"store-shared-volume", "high-availability", "plugins-initcontainer", "plugins-image-volume", "pod-exec", "velero-hooks", "quiesce", "csi",
		"monitoring",
	}},
}

// write makes a directory with the kustomization, as one that refers to a clone of Grapnel.
func (i installation) write(t *testing.T) string {
	t.Helper()
	text := "resources: [grapnel/config/" + i.resource + "]\n" + i.rest
	if len(i.components) > 0 {
		text += "components:\n"
	}
	for _, component := range i.components {
		text += "  - grapnel/config/components/" + component + "\n"
	}
	return writeKustomization(t, text)
}

// writeKustomization makes a directory with a kustomization in which grapnel stands for the clone.
func writeKustomization(t *testing.T, text string) string {
	t.Helper()
	root, err := program.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if root, err = filepath.EvalSymlinks(root); err != nil {
		t.Fatal(err)
	}
	clone, err := filepath.Rel(dir, root)
	if err != nil {
		t.Fatal(err)
	}
	text = strings.ReplaceAll(text, "grapnel/config/", clone+"/config/")
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// kustomize builds a directory, as kubectl does.
func kustomize(t *testing.T, dir string) (manifests string, err error) {
	t.Helper()
	programs, err := controlplane.FindBinaryDir()
	if err != nil {
		t.Fatal(err)
	}
	return output(t.Context(), exec.CommandContext(t.Context(), filepath.Join(programs, "kubectl"), "kustomize", dir))
}

// output runs a command; its error has what it wrote.
func output(ctx context.Context, cmd *exec.Cmd) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s%s", strings.Join(cmd.Args, " "), errors.Join(err, ctx.Err()), &stdout, &stderr)
	}
	return stdout.String(), nil
}

// built keeps what was built of installations: it takes a second each.
var built sync.Map

// manifests returns what an installation is made of.
func (i installation) manifests(t *testing.T) string {
	t.Helper()
	if manifests, done := built.Load(fmt.Sprint(i)); done {
		return manifests.(string)
	}
	manifests, err := kustomize(t, i.write(t))
	if err != nil {
		t.Fatal(err)
	}
	built.Store(fmt.Sprint(i), manifests)
	return manifests
}

// render returns the objects of an installation.
func (i installation) render(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	return decode(t, i.manifests(t))
}

func decode(t *testing.T, manifests string) []*unstructured.Unstructured {
	t.Helper()
	var objects []*unstructured.Unstructured
	for decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(manifests), 4096); ; {
		var object unstructured.Unstructured
		switch err := decoder.Decode(&object); {
		case errors.Is(err, io.EOF):
			return objects
		case err != nil:
			t.Fatal(err)
		case len(object.Object) > 0:
			objects = append(objects, &object)
		}
	}
}

// ofKind returns the objects of some kinds as what they are.
func ofKind[T any](t *testing.T, objects []*unstructured.Unstructured, kinds ...string) []T {
	t.Helper()
	var found []T
	for _, object := range objects {
		if !slices.Contains(kinds, object.GetKind()) {
			continue
		}
		var one T
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &one); err != nil {
			t.Fatal(err)
		}
		found = append(found, one)
	}
	return found
}

func TestInstallations_AllDirectories(t *testing.T) {
	t.Parallel()
	tried := map[string]bool{}
	for _, i := range installations {
		tried[i.resource] = true
		for _, component := range i.components {
			tried["components/"+component] = true
		}
	}
	files, err := filepath.Glob("*/*/kustomization.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		dir := filepath.Dir(file)
		if (strings.HasPrefix(dir, "overlays/") || strings.HasPrefix(dir, "components/")) && !tried[dir] {
			t.Errorf("%s is not among the installations that are tried", dir)
		}
	}
	if len(files) < 10 {
		t.Errorf("found only %d overlays and components", len(files))
	}
}

// TestInstallations_Labels checks the labels that find everything to delete, and everything but the CRDs
// to downgrade.
func TestInstallations_Labels(t *testing.T) {
	t.Parallel()
	for name, i := range installations {
		for _, object := range i.render(t) {
			labels := object.GetLabels()
			isCRD := object.GetKind() == "CustomResourceDefinition"
			if labels["app.kubernetes.io/name"] != "grapnel" || (labels["app.kubernetes.io/component"] == "crd") != isCRD {
				t.Errorf("%s: the %s %s has the labels %v", name, object.GetKind(), object.GetName(), labels)
			}
		}
	}
}

// TestInstallations_Images compares the images of the pods with those that docs/guides/operate.md lists for clusters
// without access to the internet. It has those of plugins by their component.
func TestInstallations_Images(t *testing.T) {
	t.Parallel()
	page := readText(t, "../docs/guides/operate.md")
	for name, i := range installations {
		objects := i.render(t)
		for _, deployment := range ofKind[appsv1.Deployment](t, objects, "Deployment") {
			for _, container := range deployment.Spec.Template.Spec.Containers {
				if image, _, _ := strings.Cut(container.Image, ":"); !strings.Contains(page, "| `"+image+"` |") {
					t.Errorf("%s: docs/guides/operate.md does not list the image %s", name, container.Image)
				}
			}
		}
		if others := ofKind[unstructured.Unstructured](t, objects, "CronJob", "DaemonSet", "Job", "Pod", "StatefulSet"); len(others) > 0 {
			t.Errorf("%s has other workloads, whose images docs/guides/operate.md does not list: %v", name, others)
		}
	}
}

// TestHighAvailability_VolumeAccessMode builds installations with a second operator, and with a
// volume that one node mounts.
func TestHighAvailability_VolumeAccessMode(t *testing.T) {
	t.Parallel()
	for name, i := range map[string]installation{
		"on the default":  {resource: "default", components: []string{"high-availability"}},
		"with the volume": {resource: "base", components: []string{"store-volume", "high-availability"}},
		"with both volumes": {resource: "base", components: []string{
			"store-volume", "store-shared-volume", "high-availability",
		}},
		"with the volume, the other way round": {resource: "base", components: []string{"high-availability", "store-volume"}},
		"and then the volume":                  {resource: "overlays/ha", components: []string{"store-volume"}},
	} {
		_, err := kustomize(t, i.write(t))
		if err == nil || !strings.Contains(err.Error(), "/spec/accessModes") && !strings.Contains(err.Error(), "/spec/replicas") {
			t.Errorf("%s: want an error that names the mode of the volume or the number of operators, got %v", name, err)
		}
	}
}

// TestScratchVolume asserts that what the operator puts aside fits into its volume: a pod
// that exceeds a limit of ephemeral storage is evicted, with all running runs.
func TestScratchVolume(t *testing.T) {
	t.Parallel()
	for name, i := range installations {
		pod := ofKind[appsv1.Deployment](t, i.render(t), "Deployment")[0].Spec.Template.Spec
		manager := pod.Containers[slices.IndexFunc(pod.Containers, func(c corev1.Container) bool { return c.Name == "manager" })]
		var scratchSize, volumes resource.Quantity
		for _, argument := range manager.Args {
			if value, found := strings.CutPrefix(argument, "--max-scratch-size="); found {
				scratchSize = resource.MustParse(value)
			}
		}
		for _, volume := range pod.Volumes {
			if volume.EmptyDir == nil || volume.EmptyDir.SizeLimit == nil {
				continue
			}
			volumes.Add(*volume.EmptyDir.SizeLimit)
			if volume.Name == "scratch" && volume.EmptyDir.SizeLimit.Cmp(scratchSize) <= 0 {
				t.Errorf("%s: the scratch volume has %v, want more than the %v of --max-scratch-size", name, volume.EmptyDir.SizeLimit, &scratchSize)
			}
		}
		if scratchSize.CmpInt64(archive.DefaultTotalBytes) <= 0 {
			t.Errorf("%s: --max-scratch-size is %v, want more than the %d bytes that one archive may have", name, &scratchSize, int64(archive.DefaultTotalBytes))
		}
		if limit := manager.Resources.Limits.StorageEphemeral(); limit.Cmp(volumes) <= 0 || manager.Resources.Requests.StorageEphemeral().IsZero() {
			t.Errorf("%s: the limit of ephemeral storage is %v, want more than the %v of all volumes, and a request", name, limit, &volumes)
		}
	}
}

// TestDeployment_ContainerSecurity checks what Pod Security does not: the root file system, the token, the
// limits.
func TestDeployment_ContainerSecurity(t *testing.T) {
	t.Parallel()
	for name, i := range installations {
		deployments := ofKind[appsv1.Deployment](t, i.render(t), "Deployment")
		if len(deployments) != 1 {
			t.Fatalf("%s: %d Deployments", name, len(deployments))
		}
		pod := deployments[0].Spec.Template.Spec
		if pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken {
			t.Errorf("%s: every container gets the token", name)
		}
		for _, container := range slices.Concat(pod.InitContainers, pod.Containers) {
			if context := container.SecurityContext; context == nil || context.ReadOnlyRootFilesystem == nil || !*context.ReadOnlyRootFilesystem {
				t.Errorf("%s: container %s can write to its root", name, container.Name)
			}
			if container.Resources.Limits.Memory().IsZero() || container.Resources.Requests.Cpu().IsZero() {
				t.Errorf("%s: container %s has no limit of memory, or asks for no processor", name, container.Name)
			}
			for _, mount := range container.VolumeMounts {
				if mount.Name == "token" && container.Name != "manager" {
					t.Errorf("%s: container %s gets the token", name, container.Name)
				}
			}
		}
		wantProbes(t, name, &deployments[0])
	}
}

func wantProbes(t *testing.T, name string, deployment *appsv1.Deployment) {
	t.Helper()
	manager := deployment.Spec.Template.Spec.Containers[0]
	if manager.LivenessProbe == nil || manager.ReadinessProbe == nil {
		t.Errorf("%s: a probe is missing", name)
	}
	if !slices.Contains(manager.Args, "--leader-elect") {
		t.Errorf("%s: without leader election, two operators would work while one replaces the other", name)
	}
	if replicas := *deployment.Spec.Replicas; replicas > 1 && deployment.Spec.Strategy.Type != appsv1.RollingUpdateDeploymentStrategyType {
		t.Errorf("%s: both of %d operators end at the same time for an update", name, replicas)
	}
}

func readText(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
