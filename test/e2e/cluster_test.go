// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

const (
	namespace      = "grapnel-system"
	operatorLabels = "app.kubernetes.io/component=controller-manager"
)

// The images that stories run, as test/node names them.
const (
	busyboxImage   = "docker.io/local/busybox:1"
	endpointsImage = "docker.io/local/endpoints:1"
	postgresImage  = "docker.io/local/postgres:1"
)

// cluster is how the stories reach the cluster: as people do, with kubectl, and with a client
// for what has to be watched.
type cluster struct {
	client.WithWatch
	config     *rest.Config
	kubeconfig string
	// program is kubectl: the one that was built with the test control plane, if it is there.
	program string
}

func connect(kubeconfig string) (*cluster, error) {
	absolute, err := filepath.Abs(kubeconfig)
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", absolute)
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	made, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}
	c := &cluster{WithWatch: made, config: config, kubeconfig: absolute, program: "kubectl"}
	if built, err := filepath.Abs("../../bin/controlplane/kubectl"); err == nil {
		if _, err := os.Stat(built); err == nil {
			c.program = built
		}
	}
	return c, nil
}

// loadImages builds the images that stories run, and has them put on the nodes by the command
// in $E2E_LOAD. Without it, they are there already.
func (c *cluster) loadImages(ctx context.Context) {
	GinkgoHelper()
	load := strings.Fields(os.Getenv("E2E_LOAD"))
	if len(load) == 0 {
		return
	}
	dir := GinkgoT().TempDir()
	for _, name := range []string{"busybox", "postgres", "endpoints", "grapnel"} {
		file := filepath.Join(dir, name+".tar")
		build := exec.CommandContext(ctx, "go", "run", ".", "image", name, file)
		build.Dir = "../node"
		for _, command := range []*exec.Cmd{build, exec.CommandContext(ctx, load[0], append(load[1:], file)...)} {
			out, err := command.CombinedOutput()
			Expect(err).NotTo(HaveOccurred(), "%s: %s", command, out)
		}
		Expect(os.Remove(file)).To(Succeed())
	}
}

// run runs kubectl and returns what it printed.
func (c *cluster) run(ctx context.Context, input string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, c.program, args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+c.kubeconfig)
	command.Stdin = strings.NewReader(input)
	var out, problems bytes.Buffer
	command.Stdout, command.Stderr = &out, &problems
	if err := command.Run(); err != nil {
		return out.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, problems.String())
	}
	return out.String(), nil
}

func (c *cluster) try(ctx context.Context, args ...string) (string, error) {
	return c.run(ctx, "", args...)
}

// kubectl fails the story if the command fails.
func (c *cluster) kubectl(ctx context.Context, args ...string) string {
	GinkgoHelper()
	out, err := c.try(ctx, args...)
	Expect(err).NotTo(HaveOccurred())
	return out
}

// apply applies objects in YAML, strictly.
func (c *cluster) apply(ctx context.Context, objects string) {
	GinkgoHelper()
	_, err := c.run(ctx, objects, "apply", "--validate=strict", "-f", "-")
	Expect(err).NotTo(HaveOccurred())
}

// helm runs the Helm of test/chart, in its directory.
func (c *cluster) helm(ctx context.Context, line string) {
	GinkgoHelper()
	args := append([]string{"run", "helm.sh/helm/v4/cmd/helm", "--kubeconfig=" + c.kubeconfig}, strings.Fields(line)...)
	command := exec.CommandContext(ctx, "go", args...)
	command.Dir = "../chart"
	out, err := command.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "helm %s: %s", line, out)
}
