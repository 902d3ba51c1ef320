// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/grapnel-dev/grapnel/internal/testing/controlplane"
	"github.com/grapnel-dev/grapnel/internal/testing/program"
	"github.com/grapnel-dev/grapnel/internal/veleromigration"
)

// veleroModule returns the directory of Velero's source, which has examples and documentation.
func veleroModule(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/vmware-tanzu/velero").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// examplesOf returns the manifests with objects that are converted in Velero's examples and documentation, without
// parts of objects.
func examplesOf(t *testing.T, module string) map[string]string {
	t.Helper()
	converted := regexp.MustCompile(`(?m)^kind: (Backup|Restore|Schedule|BackupStorageLocation)$`)
	block := regexp.MustCompile("(?ms)^ *```(?:yaml)?\n(.*?)^ *```")
	examples, known := map[string]string{}, map[string]bool{}
	for _, pattern := range []string{"tilt-resources/examples/*.yaml", "examples/*/*.yaml", "site/content/docs/main/*.md", "site/content/docs/main/api-types/*.md", "site/content/docs/v1.*/api-types/*.md"} {
		files, err := filepath.Glob(filepath.Join(module, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			manifests := []string{string(content)}
			if filepath.Ext(file) == ".md" {
				manifests = nil
				for _, match := range block.FindAllStringSubmatch(string(content), -1) {
					manifests = append(manifests, match[1])
				}
			}
			for _, manifest := range manifests {
				if known[manifest] || !converted.MatchString(manifest) || !strings.Contains(manifest, "\nmetadata:") {
					continue
				}
				known[manifest] = true
				name, err := filepath.Rel(module, file)
				if err != nil {
					t.Fatal(err)
				}
				examples[fmt.Sprintf("%s %d", name, len(examples))] = manifest
			}
		}
	}
	return examples
}

// allowedSelectors are fields of examples that exclude others, to show all fields. Velero rejects such objects, too.
func allowedSelectors() [][]string {
	return [][]string{{"spec", "orLabelSelectors"}, {"spec", "template", "orLabelSelectors"}}
}

// withoutSelectors returns a manifest as JSON without the fields of allowedSelectors.
func withoutSelectors(t *testing.T, manifest string) string {
	t.Helper()
	inputs, err := veleromigration.ReadFile("example", strings.NewReader(manifest))
	if err != nil {
		t.Fatal(err)
	}
	var list unstructured.UnstructuredList
	list.SetAPIVersion("v1")
	list.SetKind("List")
	for _, input := range inputs {
		for _, field := range allowedSelectors() {
			unstructured.RemoveNestedField(input.Object.Object, field...)
		}
		list.Items = append(list.Items, *input.Object)
	}
	encoded, err := list.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return string(encoded)
}

// buildCommand compiles the command line. A test that imported it would need all modules of kubectl.
func buildCommand(t *testing.T) string {
	t.Helper()
	root, err := program.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(t.TempDir(), "kubectl-grapnel")
	if err := program.Build(t.Context(), filepath.Join(root, "cmd", "kubectl-grapnel"), binary); err != nil {
		t.Fatal(err)
	}
	return binary
}

// output is what the command line printed, and its exit code.
type output struct {
	code        int
	out, report string
}

// migrate runs the command line with an input.
func migrate(t *testing.T, binary, kubeconfig, input string, args ...string) output {
	t.Helper()
	var stdout, stderr bytes.Buffer
	command := exec.CommandContext(t.Context(), binary, append([]string{"--kubeconfig", kubeconfig, "migrate", "velero"}, args...)...)
	command.Stdin, command.Stdout, command.Stderr = strings.NewReader(input), &stdout, &stderr
	if err := command.Run(); err != nil && command.ProcessState == nil {
		t.Fatal(err)
	}
	return output{code: command.ProcessState.ExitCode(), out: stdout.String(), report: stderr.String()}
}

// kubectl runs kubectl with an input.
func kubectl(t *testing.T, plane *controlplane.ControlPlane, input string, args ...string) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), plane.KubectlPath(), append([]string{"--kubeconfig", plane.KubeconfigPath()}, args...)...)
	command.Stdin = strings.NewReader(input)
	out, err := command.CombinedOutput()
	return string(out), err
}

// TestExamples converts the examples, and has the API server check the converted objects.
func TestExamples(t *testing.T) {
	module := veleroModule(t)
	plane, binary := startCluster(t, module), buildCommand(t)
	examples := examplesOf(t, module)
	for name, manifest := range examples {
		t.Run(name, func(t *testing.T) {
			o := migrate(t, binary, plane.KubeconfigPath(), withoutSelectors(t, manifest), "-f", "-", "--include-secrets")
			if o.code == 1 {
				t.Fatalf("%s\n%s", o.report, manifest)
			}
			t.Log(o.report)
			if o.out == "" {
				t.Fatal("nothing is converted")
			}
			if said, err := kubectl(t, plane, o.out, "apply", "--dry-run=server", "--validate=strict", "-f", "-"); err != nil {
				t.Errorf("%s\n%s", said, o.out)
			}
		})
	}
	if len(examples) < 30 {
		t.Errorf("found only %d examples", len(examples))
	}
}

// startCluster starts an API server with the kinds of Velero and Grapnel.
func startCluster(t *testing.T, module string) *controlplane.ControlPlane {
	t.Helper()
	plane, err := controlplane.Start(t.Context(), controlplane.Options{
		CRDPaths: []string{filepath.Join("..", "..", "..", "config", "crd", "bases"), filepath.Join(module, "config", "crd", "v1", "bases")},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	for _, namespace := range []string{"velero", "grapnel-system"} {
		if out, err := kubectl(t, plane, "", "create", "namespace", namespace); err != nil {
			t.Fatal(out)
		}
	}
	return plane
}

// TestCluster converts the objects of a cluster, with the same result as from a file. A user who may not read Secrets gets
// no converted Secrets.
func TestCluster(t *testing.T) {
	plane, binary := startCluster(t, veleroModule(t)), buildCommand(t)
	var objects strings.Builder
	for _, name := range []string{"fields", "secrets"} {
		content, err := os.ReadFile(filepath.Join("..", "..", "..", "internal", "veleromigration", "testdata", name, "input.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		objects.Write(content)
		objects.WriteString("---\n")
	}
	withoutCluster := regexp.MustCompile(`(?m)^  (uid|resourceVersion|generation|finalizers|managedFields|creationTimestamp): .*\n`).ReplaceAllString(objects.String(), "")
	withoutCluster = strings.ReplaceAll(withoutCluster, "metadata: {name: unused,", "metadata: {name: unused-by-locations,")
	if out, err := kubectl(t, plane, withoutCluster, "create", "--validate=strict", "-f", "-"); err != nil {
		t.Fatal(out)
	}
	wanted := migrate(t, binary, plane.KubeconfigPath(), withoutCluster, "-f", "-", "--include-secrets")
	got := migrate(t, binary, plane.KubeconfigPath(), "", "--include-secrets")
	if diff := cmp.Diff(wanted.out, got.out); diff != "" || got.code != 2 {
		t.Errorf("exit code %d, -file +cluster:\n%s\n%s", got.code, diff, got.report)
	}
	if said, err := kubectl(t, plane, got.out, "apply", "--dry-run=server", "--validate=strict", "-f", "-"); err != nil {
		t.Errorf("%s\n%s", said, got.out)
	}
	kubeconfig := addReader(t, plane)
	if o := migrate(t, binary, kubeconfig, "", "-n", "velero"); o.code != 2 || strings.Contains(o.out, "kind: Secret") || !strings.Contains(o.out, "kind: Schedule") {
		t.Errorf("%+v", o)
	}
	for args, want := range map[string]string{
		"--include-secrets": "Ask for the right to read secrets in namespace velero",
		"-n=grapnel-system": "Ask for the right to read backupstoragelocations in namespace grapnel-system",
	} {
		if o := migrate(t, binary, kubeconfig, "", args); o.code != 1 || o.out != "" || !strings.Contains(o.report, want) {
			t.Errorf("%s: %+v", args, o)
		}
	}
	if o := migrate(t, binary, plane.KubeconfigPath(), "", "-n=grapnel-system"); o.code != 1 || !strings.Contains(o.report, "set --namespace to that of Velero") {
		t.Errorf("%+v", o)
	}
}

// addReader adds a user who may read Velero's objects, and returns a kubeconfig.
func addReader(t *testing.T, plane *controlplane.ControlPlane) string {
	t.Helper()
	for _, args := range []string{
		"create role reader -n velero --verb=list --resource=backups.velero.io,restores.velero.io,schedules.velero.io,backupstoragelocations.velero.io",
		"create rolebinding reader -n velero --role=reader --user=reader",
	} {
		if out, err := kubectl(t, plane, "", strings.Fields(args)...); err != nil {
			t.Fatal(out)
		}
	}
	user, err := plane.AddUser("reader")
	if err != nil {
		t.Fatal(err)
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["test"] = &clientcmdapi.Cluster{Server: user.Host, CertificateAuthorityData: user.CAData}
	config.AuthInfos["reader"] = &clientcmdapi.AuthInfo{ClientCertificateData: user.CertData, ClientKeyData: user.KeyData}
	config.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "reader"}
	config.CurrentContext = "test"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}
