// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestEndToEnd(t *testing.T) {
	if os.Getenv("KUBECONFIG") == "" {
		t.Skip("KUBECONFIG is not set: make e2e brings up a cluster and runs this")
	}
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(3 * time.Minute)
	SetDefaultEventuallyPollingInterval(200 * time.Millisecond)
	EnforceDefaultTimeoutsWhenUsingContexts()
	RunSpecs(t, "Grapnel in a real cluster")
}

var c *cluster

// Everything is in one order: what the first stories install, the last one removes.
var _ = Describe("Grapnel", Ordered, ContinueOnFailure, func() {
	BeforeAll(func(ctx SpecContext) {
		var err error
		c, err = connect(os.Getenv("KUBECONFIG"))
		Expect(err).NotTo(HaveOccurred())
		c.loadImages(ctx)
	}, NodeTimeout(9*time.Minute))

	AfterEach(func(ctx SpecContext) {
		if CurrentSpecReport().Failed() {
			c.tell(ctx)
			c.cancelAll(ctx)
		}
	})

	describeQuickstart()

	Context("with one operator", Ordered, func() {
		BeforeAll(func(ctx SpecContext) { c.install(ctx, "one") }, NodeTimeout(5*time.Minute))
		describeInstallation()
		describeJobs()
		describePostgres()
		describeVolumes()
		describeEndpoints()
		describeNetwork()
		describeQuiesce()
		describeBadInput()
		describeKills()
	})

	Context("with two operators", Ordered, func() {
		BeforeAll(func(ctx SpecContext) {
			c.moveStore(ctx)
			c.installChart(ctx)
		}, NodeTimeout(8*time.Minute))
		describeMove()
		describeLeaders()
	})

	describeUninstall()
})

// install applies one of the installations in config/ and waits until it works.
func (c *cluster) install(ctx context.Context, name string) {
	GinkgoHelper()
	// As docs/installation.md has it for an upgrade: it is one, the second time.
	c.kubectl(ctx, "apply", "-k", "../../config/crd")
	c.kubectl(ctx, "wait", "crd", "--all", "--for=condition=Established", "--timeout=60s")
	c.kubectl(ctx, "apply", "-k", "config/"+name)
	c.awaitOperator(ctx)
}

// installChart installs two operators and a volume that both mount: the chart takes over what was installed with
// kustomize, as docs/guides/operate.md has it.
func (c *cluster) installChart(ctx context.Context) {
	GinkgoHelper()
	_, text, found := strings.Cut(readRepository("docs/guides/operate.md"), "\nhelm install grapnel charts/grapnel ")
	Expect(found).To(BeTrue(), "docs/guides/operate.md does not say how the chart takes over")
	flags, _, found := strings.Cut(text, " --set ")
	Expect(found).To(BeTrue())
	c.helm(ctx, "install grapnel ../../charts/grapnel "+flags+" --timeout=3m --values=../e2e/config/two/values.yaml")
	c.awaitOperator(ctx)
}

// awaitOperator waits until the operator runs and its location is available.
func (c *cluster) awaitOperator(ctx context.Context) {
	GinkgoHelper()
	c.kubectl(ctx, "rollout", "status", "deployment/grapnel-controller-manager", "-n", namespace, "--timeout=180s")
	c.apply(ctx, location)
	Eventually(ctx, func() (string, error) {
		return c.try(ctx, "get", "backupstoragelocation", "main", "-n", namespace, "-o", "jsonpath={.status.phase}")
	}).Should(Equal("Available"))
}

const location = `
apiVersion: grapnel.dev/v1alpha1
kind: BackupStorageLocation
metadata: {name: main, namespace: grapnel-system}
spec: {default: true, filesystem: {path: e2e}}
`

// cancelAll ends what a story that failed has left running, so that the next one finds the
// cluster as it expects it.
func (c *cluster) cancelAll(ctx context.Context) {
	names, err := c.try(ctx, "get", "backups.grapnel.dev,restores.grapnel.dev", "-n", namespace, "-o", "name")
	for name := range strings.FieldsSeq(names) {
		if _, failed := c.try(ctx, "patch", name, "-n", namespace, "--type=merge", "-p", `{"spec":{"desiredState":"Cancel"}}`); failed != nil {
			err = failed
		}
	}
	fmt.Fprintln(GinkgoWriter, "cancelled what was left:", names, err)
}

// tell prints what is needed to debug a failure.
func (c *cluster) tell(ctx context.Context) {
	for _, args := range [][]string{
		{"get", "pods", "-A", "-o", "wide"},
		{"get", "backups.grapnel.dev,restores.grapnel.dev,hookruns,plugins", "-A"},
		{"get", "backups.grapnel.dev,restores.grapnel.dev,hookruns.grapnel.dev", "-A", "-o", `jsonpath={range .items[*]}{.kind} {.metadata.name}: {.status.phase} {.status.message}{"\n"}{end}`},
		{"get", "events", "-A", "--sort-by=.lastTimestamp"},
		{"logs", "-n", namespace, "-l", operatorLabels, "--tail=80", "--prefix"},
	} {
		out, err := c.try(ctx, args...)
		fmt.Fprintf(GinkgoWriter, "\n$ kubectl %q\n%s", args, out)
		if err != nil {
			fmt.Fprintf(GinkgoWriter, "%v\n", err)
		}
	}
}
