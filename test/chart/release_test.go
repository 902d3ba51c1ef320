// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/cli"
	helmcmd "helm.sh/helm/v4/pkg/cmd"
	"helm.sh/helm/v4/pkg/kube"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/internal/testing/controlplane"
	"github.com/grapnel-dev/grapnel/internal/testing/program"
)

const (
	deployment = "deployment/grapnel-controller-manager"
	account    = "serviceaccount/grapnel-controller-manager"
	claim      = "persistentvolumeclaim/grapnel-store"
	plugin     = "plugins.grapnel.dev/csi"
	location   = "backupstoragelocations.grapnel.dev/main"
)

// withLocation needs a Plugin and a location.
const withLocation = `
csi: {enabled: true}
locations: [{name: main, spec: {default: true, filesystem: {path: main}}}]
`

// cluster is a real API server, with Helm as a user runs it.
type cluster struct {
	*controlplane.ControlPlane

	client client.WithWatch
	root   string
}

// TestRelease follows one cluster through the ways in which Grapnel is installed, changed and removed.
func TestRelease(t *testing.T) {
	// Discovery is cached by address, and ports are used again.
	t.Setenv("KUBECACHEDIR", t.TempDir())
	c := startCluster(t)

	c.install(t, "grapnel", withLocation)
	c.wantKept(t, true)
	pluginID, locationID := c.uid(t, plugin), c.uid(t, location)
	if pluginID == "" || locationID == "" {
		t.Fatal("in a cluster without the CRDs, the Plugin and the location are missing")
	}
	c.dryRunAll(t)
	// The second release of values that did not change, because the first one had hooks.
	c.upgrade(t, withLocation)
	if c.uid(t, plugin) != pluginID || c.uid(t, location) != locationID {
		t.Error("the upgrade replaces the Plugin and the location")
	}
	c.upgrade(t, "csi: {enabled: false}")
	if c.uid(t, plugin) != "" || c.uid(t, location) != "" {
		t.Error("an upgrade without them leaves the Plugin and the location")
	}

	c.followDocuments(t)
}

// followDocuments runs each helm of the documents as it is there: it installs once more, and changes to kustomize
// and back.
func (c *cluster) followDocuments(t *testing.T) {
	t.Helper()
	t.Chdir(c.root)
	commands := readHelmCommands(t)
	run := func(prefix string) {
		t.Helper()
		for command := range commands {
			if strings.HasPrefix(command, prefix) {
				delete(commands, command)
				if err := c.helm(t, command); err != nil {
					t.Fatalf("helm %s: %v", command, err)
				}
				return
			}
		}
		t.Fatalf("no document has helm %s", prefix)
	}
	for _, second := range []string{"another charts/grapnel -n grapnel-system", "grapnel charts/grapnel -n elsewhere --create-namespace"} {
		if err := c.helm(t, "install "+second); err == nil || !strings.Contains(err.Error(), "exists and cannot be imported into the current release") {
			t.Errorf("a second release, %s: %v", second, err)
		}
	}
	if c.uid(t, "namespace/elsewhere") != "" {
		t.Error("a second release that is refused leaves its namespace")
	}
	claimID := c.uid(t, claim)
	run("uninstall grapnel")
	c.wantKept(t, false)
	for _, flag := range []string{"--wait", "--set"} {
		run("install grapnel grapnel-0.1.0.tgz -n grapnel-system --create-namespace " + flag)
		if err := c.helm(t, "uninstall grapnel -n grapnel-system"); err != nil {
			t.Fatal(err)
		}
	}
	run("install grapnel charts/grapnel -n grapnel-system --create-namespace")
	c.wantImage(t, "registry.example.com/grapnel:v0.1.0")
	accountID := c.uid(t, account)
	run("upgrade grapnel")
	c.wantImage(t, "registry.example.com/grapnel:v0.2.0")

	text, err := os.ReadFile("docs/guides/operate.md")
	if err != nil {
		t.Fatal(err)
	}
	toKustomize := regexp.MustCompile(`(?m)^kubectl (.*)$`).FindAllStringSubmatch(string(text), -1)
	if len(toKustomize) != 2 {
		t.Fatalf("docs/guides/operate.md has %d commands that change to kustomize, want 2", len(toKustomize))
	}
	for _, command := range toKustomize {
		c.kubectl(t, strings.Fields(command[1])...)
	}
	c.wantImage(t, "ghcr.io/grapnel-dev/grapnel:latest")
	run("install grapnel charts/grapnel -n grapnel-system --wait --take-ownership")
	c.wantImage(t, "registry.example.com/grapnel:v0.1.0")
	if c.uid(t, account) != accountID || c.uid(t, claim) != claimID {
		t.Error("changing between the chart and kustomize replaces objects")
	}
	run("package charts/grapnel")
	for command := range commands {
		t.Errorf("no test runs helm %s of a document", command)
	}
}

// readHelmCommands returns the commands of Helm in the documents, without mere names of commands.
func readHelmCommands(t *testing.T) map[string]bool {
	t.Helper()
	commands := map[string]bool{}
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, match := range regexp.MustCompile("(?m)(?:^|^    |`)helm ([a-z]+ [^`\n]+)").FindAllSubmatch(text, -1) {
				commands[string(match[1])] = true
			}
		}
	}
	return commands
}

// helm runs Helm itself in the working directory.
func (c *cluster) helm(t *testing.T, line string) error {
	t.Helper()
	// A release packs the directory of the chart.
	line = strings.Replace(line, "grapnel-0.1.0.tgz", "charts/grapnel", 1)
	args := append(strings.Fields(line), "--kubeconfig="+c.KubeconfigPath())
	if strings.HasPrefix(line, "package ") {
		args = append(args, "--destination="+t.TempDir())
	}
	command, err := helmcmd.NewRootCmd(io.Discard, args, func(bool) {})
	if err != nil {
		return err
	}
	command.SetArgs(args)
	command.SetOut(io.Discard)
	command.SetErr(io.Discard)
	return command.ExecuteContext(t.Context())
}

func startCluster(t *testing.T) *cluster {
	t.Helper()
	root, err := program.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	plane, err := controlplane.Start(t.Context(), controlplane.Options{CRDPaths: []string{filepath.Join(root, "config", "testdata", "monitoring")}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	c, err := client.NewWithWatch(plane.Config(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return &cluster{ControlPlane: plane, client: c, root: root}
}

// newConfiguration returns what helm has for each command.
func (c *cluster) newConfiguration(t *testing.T) *action.Configuration {
	t.Helper()
	settings := cli.New()
	settings.KubeConfig = c.KubeconfigPath()
	settings.SetNamespace(namespace)
	configuration := action.NewConfiguration()
	if err := configuration.Init(settings.RESTClientGetter(), namespace, "secret"); err != nil {
		t.Fatal(err)
	}
	return configuration
}

// install is helm install -n grapnel-system --create-namespace --wait.
func (c *cluster) install(t *testing.T, name, values string) {
	t.Helper()
	install := action.NewInstall(c.newConfiguration(t))
	install.ReleaseName, install.Namespace, install.CreateNamespace = name, namespace, true
	install.WaitStrategy, install.Timeout = kube.StatusWatcherStrategy, 3*time.Minute
	c.runReady(t)
	if _, err := install.Run(loadChart(t), parseValues(t, values)); err != nil {
		t.Fatal(err)
	}
}

func (c *cluster) upgrade(t *testing.T, values string) {
	t.Helper()
	upgrade := action.NewUpgrade(c.newConfiguration(t))
	upgrade.Namespace, upgrade.WaitStrategy, upgrade.ServerSideApply = namespace, kube.HookOnlyStrategy, "auto"
	if _, err := upgrade.Run("grapnel", loadChart(t), parseValues(t, values)); err != nil {
		t.Fatal(err)
	}
}

// runReady reports, as the controllers of a cluster with nodes do, that Deployments are available and that
// claims are bound. It ends with the test.
func (c *cluster) runReady(t *testing.T) {
	t.Helper()
	watchObjects(t, c, &appsv1.DeploymentList{}, func(ctx context.Context, deployment *appsv1.Deployment) error {
		replicas := *deployment.Spec.Replicas
		status := appsv1.DeploymentStatus{
			ObservedGeneration: deployment.Generation, Replicas: replicas, UpdatedReplicas: replicas, ReadyReplicas: replicas, AvailableReplicas: replicas,
			Conditions: []appsv1.DeploymentCondition{
				{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue},
				{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable"},
			},
		}
		if deployment.Status.ObservedGeneration == status.ObservedGeneration {
			return nil
		}
		deployment.Status = status
		return c.client.Status().Update(ctx, deployment)
	})
	watchObjects(t, c, &corev1.PersistentVolumeClaimList{}, func(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
		if claim.Status.Phase == corev1.ClaimBound {
			return nil
		}
		claim.Status.Phase = corev1.ClaimBound
		return c.client.Status().Update(ctx, claim)
	})
}

// watchObjects calls update for each object, and again for each change, until the test ends.
func watchObjects[T client.Object](t *testing.T, c *cluster, list client.ObjectList, update func(context.Context, T) error) {
	t.Helper()
	watch, err := c.client.Watch(t.Context(), list)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { watch.Stop(); <-done })
	ctx := t.Context()
	go func() {
		defer close(done)
		for event := range watch.ResultChan() {
			object, isObject := event.Object.(T)
			if !isObject {
				continue
			}
			// After a conflict, there is another event.
			if err := update(ctx, object); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && ctx.Err() == nil {
				t.Error(err)
			}
		}
	}()
}

// get returns a field of an object, and nothing if the object does not exist.
func (c *cluster) get(t *testing.T, object, path string) string {
	t.Helper()
	return c.kubectl(t, "get", object, "-n", namespace, "--ignore-not-found", "-o", "jsonpath={"+path+"}")
}

func (c *cluster) uid(t *testing.T, object string) string {
	t.Helper()
	return c.get(t, object, ".metadata.uid")
}

// wantKept checks that what holds data exists, and whether the operator does.
func (c *cluster) wantKept(t *testing.T, operator bool) {
	t.Helper()
	for _, object := range []string{"namespace/" + namespace, claim, "crd/backups.grapnel.dev"} {
		if c.uid(t, object) == "" {
			t.Errorf("%s is missing", object)
		}
	}
	if exists := c.uid(t, deployment) != ""; exists != operator {
		t.Errorf("the Deployment exists: %v", exists)
	}
	if level := c.get(t, "namespace/"+namespace, `.metadata.labels.pod-security\.kubernetes\.io/enforce`); level != "restricted" {
		t.Errorf("the namespace enforces the level %q of Pod Security", level)
	}
}

func (c *cluster) wantImage(t *testing.T, want string) {
	t.Helper()
	if image := c.get(t, deployment, ".spec.template.spec.containers[0].image"); image != want {
		t.Errorf("the image is %s, want %s", image, want)
	}
}

// dryRunAll has the API server check everything that the chart renders for the installations in testdata.
func (c *cluster) dryRunAll(t *testing.T) {
	t.Helper()
	files, err := filepath.Glob("testdata/*/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	mounted, err := c.IsAtLeast("1.35")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		values, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !mounted && strings.Contains(string(values), "imageVolumes:") {
			t.Logf("%s needs a newer API server, for image volumes", file)
			continue
		}
		rendered, err := renderChart(t, loadChart(t), string(values), servedKinds)
		if err != nil {
			t.Fatal(err)
		}
		manifest := filepath.Join(t.TempDir(), "manifest.yaml")
		if err := os.WriteFile(manifest, []byte(rendered.Manifest), 0o600); err != nil {
			t.Fatal(err)
		}
		if output := c.kubectl(t, "apply", "--dry-run=server", "--validate=strict", "--server-side", "--force-conflicts", "-f", manifest); strings.Contains(output, "Warning") {
			t.Errorf("%s: %s", file, output)
		}
	}
}

func (c *cluster) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), c.KubectlPath(), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.KubeconfigPath())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}
