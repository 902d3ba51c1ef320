// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"os"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// moveStore does what docs/installation.md says before the overlay with the shared volume is
// installed: stop the operator, make the claim, copy. Before that, it makes a Backup that has to
// come along.
func (c *cluster) moveStore(ctx context.Context) {
	GinkgoHelper()
	c.createNamespace(ctx, "moved")
	c.kubectl(ctx, "create", "configmap", "kept", "-n", "moved", "--from-literal=a=b")
	c.backup(ctx, "moved", "moved", "none")
	c.backupEnds(ctx, "moved", v1alpha1.RunPhaseCompleted)

	content, err := os.ReadFile("../../docs/installation.md")
	Expect(err).NotTo(HaveOccurred())
	_, text, found := strings.Cut(string(content), "### From the volume to one that several nodes mount\n")
	Expect(found).To(BeTrue(), "docs/installation.md does not say how the store is moved")
	text, _, _ = strings.Cut(text, "\n### ")
	text = strings.NewReplacer("config/overlays", "../../config/overlays", "busybox:1.37", busyboxImage).Replace(text)
	steps := strings.Split(text, "```sh\n")
	Expect(steps).To(HaveLen(4), "before the Job, after it, and the installation")
	c.documented(ctx, steps[1])
	_, job, _ := strings.Cut(text, "```yaml\n")
	job, _, _ = strings.Cut(job, "```")
	c.apply(ctx, job)
	c.documented(ctx, steps[2])
}

// documented runs the commands of a block, which are all of kubectl.
func (c *cluster) documented(ctx context.Context, block string) {
	GinkgoHelper()
	block, _, _ = strings.Cut(block, "```")
	for line := range strings.Lines(block) {
		words := strings.Fields(line)
		Expect(words[0]).To(Equal("kubectl"))
		c.kubectl(ctx, words[1:]...)
	}
}

// describeMove restores what was backed up before the store was moved.
func describeMove() {
	It("restores from the volume to which the store was moved", func(ctx SpecContext) {
		c.kubectl(ctx, "delete", "namespace", "moved", "--timeout=110s")
		c.restore(ctx, "moved", "moved", "none")
		c.restoreEnds(ctx, "moved", v1alpha1.RunPhaseCompleted)
		Expect(c.kubectl(ctx, "get", "configmap", "kept", "-n", "moved", "-o", "jsonpath={.data.a}")).To(Equal("b"))
	}, SpecTimeout(minutes(4)))
}
