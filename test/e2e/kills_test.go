// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// killOperator ends the pod that holds the lease, without a grace, and waits until another
// one works.
func (c *cluster) killOperator(ctx context.Context) {
	GinkgoHelper()
	before := c.leader(ctx)
	c.kubectl(ctx, "delete", "pod", before, "-n", namespace, "--grace-period=0", "--force")
	c.anotherLeads(ctx, before)
}

// anotherLeads waits until another pod has the lease.
func (c *cluster) anotherLeads(ctx context.Context, before string) {
	GinkgoHelper()
	Eventually(ctx, func() string { return c.leader(ctx) }).ShouldNot(BeElementOf(before, ""))
}

// leader returns the name of the pod that works.
func (c *cluster) leader(ctx context.Context) string {
	GinkgoHelper()
	holder := c.kubectl(ctx, "get", "lease", "operator.grapnel.dev", "-n", namespace, "-o", "jsonpath={.spec.holderIdentity}")
	for i := range len(holder) {
		if holder[i] == '_' {
			return holder[:i]
		}
	}
	return holder
}

// steps are actions at every point, which take long enough to be hit.
const steps = `
executor:
  job:
    image: %s
    command: [sh, -c, 'sleep 6; echo "{\"outputs\":{\"done\":\"yes\"}}" > /dev/termination-log']
actions:
  - {name: e2e.example.io/step, kind: PreBackupAction, onInterruption: Fail, selector: {matchLabels: {story: kills}}}
  - {name: e2e.example.io/step, kind: PostBackupAction, selector: {matchLabels: {story: kills}}}
  - {name: e2e.example.io/step, kind: PreRestoreAction, onInterruption: Fail, selector: {matchLabels: {story: kills}}}
  - {name: e2e.example.io/step, kind: PostRestoreAction, selector: {matchLabels: {story: kills}}}
`

func describeKills() {
	It("continues after its pod was killed, in each phase", func(ctx SpecContext) {
		c.createNamespace(ctx, "kills")
		c.kubectl(ctx, "create", "configmap", "kept", "-n", "kills", "--from-literal=a=b")
		c.plugin(ctx, "steps", fmt.Sprintf(steps, busyboxImage))
		jobs := c.created(ctx, &batchv1.JobList{}, client.InNamespace(namespace))
		killedAt := func(of client.Object, hook v1alpha1.HookPoint) {
			GinkgoHelper()
			By("killing it during " + string(hook))
			Eventually(ctx, func(g Gomega) {
				g.Expect(c.Get(ctx, client.ObjectKeyFromObject(of), of)).To(Succeed())
				runs, err := c.hookRuns(ctx, of)
				g.Expect(err).NotTo(HaveOccurred())
				running := ""
				for i := range runs {
					if runs[i].Status.Phase == v1alpha1.HookRunPhaseInProgress {
						running = string(runs[i].Spec.Hook)
					}
				}
				g.Expect(running).To(Equal(string(hook)))
			}).Should(Succeed())
			c.killOperator(ctx)
		}

		b := &v1alpha1.Backup{}
		b.Namespace, b.Name = namespace, "killed"
		c.backup(ctx, b.Name, "kills", "kills")
		killedAt(b, v1alpha1.HookPreBackup)
		killedAt(b, v1alpha1.HookPostBackup)
		c.backupEnds(ctx, b.Name, v1alpha1.RunPhaseCompleted)

		c.kubectl(ctx, "delete", "namespace", "kills", "--timeout=110s")
		r := &v1alpha1.Restore{}
		r.Namespace, r.Name = namespace, "killed"
		c.restore(ctx, r.Name, b.Name, "kills")
		killedAt(r, v1alpha1.HookPreRestore)
		killedAt(r, v1alpha1.HookPostRestore)
		c.restoreEnds(ctx, r.Name, v1alpha1.RunPhaseCompleted)
		Expect(c.kubectl(ctx, "get", "configmap", "kept", "-n", "kills", "-o", "jsonpath={.data.a}")).To(Equal("b"))

		By("having started no Job twice")
		Expect(jobs()).To(HaveLen(4))
	}, SpecTimeout(minutes(10)))

	It("continues after its pod was killed while it makes an archive, and while it restores one", func(ctx SpecContext) {
		c.createNamespace(ctx, "many")
		c.apply(ctx, manyConfigMaps("many", 400))
		b := &v1alpha1.Backup{}
		b.Namespace, b.Name = namespace, "many"
		c.backup(ctx, b.Name, "many", "none")
		Eventually(ctx, c.phase(ctx, "backups/many")).Should(BeElementOf("InProgress", "Completed"))
		c.killOperator(ctx)
		c.backupEnds(ctx, b.Name, v1alpha1.RunPhaseCompleted)

		c.kubectl(ctx, "delete", "namespace", "many", "--timeout=110s")
		c.restore(ctx, "many", "many", "none")
		Eventually(ctx, c.phase(ctx, "restores/many")).Should(BeElementOf("InProgress", "Completed"))
		c.killOperator(ctx)
		c.restoreEnds(ctx, "many", v1alpha1.RunPhaseCompleted)
		Expect(c.kubectl(ctx, "get", "configmaps", "-n", "many", "-l", "many=yes", "-o", `jsonpath={range .items[*]}x{end}`)).To(HaveLen(400))
	}, SpecTimeout(minutes(10)))
}

func manyConfigMaps(in string, n int) string {
	text := ""
	for i := range n {
		text += fmt.Sprintf("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: many-%d, namespace: %s, labels: {many: \"yes\"}}\ndata: {n: \"%d\"}\n", i, in, i)
	}
	return text
}

func describeLeaders() {
	It("continues a Backup when the leader changes in the middle of it", func(ctx SpecContext) {
		c.createNamespace(ctx, "leaders")
		c.kubectl(ctx, "create", "configmap", "kept", "-n", "leaders", "--from-literal=a=b")
		c.plugin(ctx, "steps", fmt.Sprintf(steps, busyboxImage))
		Expect(c.kubectl(ctx, "get", "pods", "-n", namespace, "-l", operatorLabels,
			"-o", "jsonpath={range .items[*]}{.status.containerStatuses[0].ready};{end}")).To(Equal("true;true;"))
		jobs := c.created(ctx, &batchv1.JobList{}, client.InNamespace(namespace))

		By("losing it without a word")
		b := &v1alpha1.Backup{}
		b.Namespace, b.Name = namespace, "lost-leader"
		c.backup(ctx, b.Name, "leaders", "kills")
		c.hookRunning(ctx, b, "e2e.example.io/step")
		c.killOperator(ctx)
		c.backupEnds(ctx, b.Name, v1alpha1.RunPhaseCompleted)

		By("having it hand over")
		c.backup(ctx, "handed-over", "leaders", "kills")
		b.Name = "handed-over"
		c.hookRunning(ctx, b, "e2e.example.io/step")
		before := c.leader(ctx)
		c.kubectl(ctx, "delete", "pod", before, "-n", namespace, "--wait=false")
		c.anotherLeads(ctx, before)
		c.backupEnds(ctx, b.Name, v1alpha1.RunPhaseCompleted)
		Expect(jobs()).To(HaveLen(4))
	}, SpecTimeout(minutes(6)))
}
