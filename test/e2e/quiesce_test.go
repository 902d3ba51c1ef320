// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// shop is one workload of each kind.
var shop = fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {terminationGracePeriodSeconds: 1, containers: [{name: c, image: %[1]s, command: [sleep, "3600"]}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: idle, namespace: shop}
spec:
  replicas: 0
  selector: {matchLabels: {app: idle}}
  template:
    metadata: {labels: {app: idle}}
    spec: {containers: [{name: c, image: %[1]s, command: [sleep, "3600"]}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: orders, namespace: shop}
spec:
  serviceName: orders
  replicas: 2
  selector: {matchLabels: {app: orders}}
  template:
    metadata: {labels: {app: orders}}
    spec: {terminationGracePeriodSeconds: 1, containers: [{name: c, image: %[1]s, command: [sleep, "3600"]}]}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent, namespace: shop}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec: {terminationGracePeriodSeconds: 1, containers: [{name: c, image: %[1]s, command: [sleep, "3600"]}]}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: report, namespace: shop}
spec:
  schedule: "0 0 1 1 *"
  jobTemplate:
    spec:
      template:
        spec: {restartPolicy: Never, containers: [{name: c, image: %[1]s, command: ["true"]}]}
`, busyboxImage)

// quiesced stops the shop, around Backups and after Restores.
const quiesced = `
executor: {builtin: {quiesce: {}}}
actions:
  - {name: e2e.example.io/quiesce, kind: PreBackupAction, order: 1, timeout: 60s, selector: {matchLabels: {story: quiesce}}}
  - {name: e2e.example.io/quiesce, kind: PostBackupAction, order: 1, timeout: 60s, selector: {matchLabels: {story: quiesce}}}
  - {name: e2e.example.io/quiesce, kind: PostRestoreAction, order: 1, timeout: 60s, selector: {matchLabels: {story: quiesce}}}
`

const asWanted = "Deployment/idle=0 Deployment/web=3 StatefulSet/orders=2 CronJob/report=false "

func describeQuiesce() {
	It("stops workloads for a Backup, and gives them back here and after a restore", func(ctx SpecContext) {
		c.createNamespace(ctx, "shop")
		c.apply(ctx, shop)
		c.rolledOut(ctx, "shop", "deployment/web", "statefulset/orders", "daemonset/agent")
		c.plugin(ctx, "quiesce", quiesced)
		c.plugin(ctx, "hold-quiesce", script("quiesce", "PreBackupAction", "e2e.example.io/hold", "sleep 5", "order: 2"))

		c.backup(ctx, "shop", "shop", "quiesce")
		b := &v1alpha1.Backup{}
		b.Namespace, b.Name = namespace, "shop"
		c.hookRunning(ctx, b, "e2e.example.io/hold")
		By("having no pod left when the archive is made")
		Expect(c.pods(ctx, "shop")()).To(BeEmpty())
		c.backupEnds(ctx, "shop", v1alpha1.RunPhaseCompleted)
		By("having everything back afterwards")
		Expect(c.numbers(ctx, "shop")).To(Equal(asWanted))
		c.rolledOut(ctx, "shop", "deployment/web", "statefulset/orders", "daemonset/agent")

		By("losing all of it")
		c.kubectl(ctx, "delete", "namespace", "shop", "--timeout=110s")
		c.restore(ctx, "shop-again", "shop", "quiesce")
		c.restoreEnds(ctx, "shop-again", v1alpha1.RunPhaseCompleted)
		Expect(c.numbers(ctx, "shop")).To(Equal(asWanted))
		c.rolledOut(ctx, "shop", "deployment/web", "statefulset/orders", "daemonset/agent")
		Expect(c.kubectl(ctx, "get", "deployments,statefulsets,daemonsets,cronjobs", "-n", "shop", "-l", "grapnel.dev/quiesced=true", "-o", "name")).To(BeEmpty())
	}, SpecTimeout(minutes(8)))

	It("stops them once for two Backups, until the end of the last", func(ctx SpecContext) {
		c.createNamespace(ctx, "shop")
		c.apply(ctx, shop)
		c.rolledOut(ctx, "shop", "deployment/web", "statefulset/orders", "daemonset/agent")
		c.plugin(ctx, "quiesce", quiesced)
		c.plugin(ctx, "hold-quiesce", script("quiesce", "PreBackupAction", "e2e.example.io/hold", `[ "$GRAPNEL_PARAM_LONG" = yes ] && sleep 25 || sleep 2`, "order: 2"))
		c.backup(ctx, "first", "shop", "quiesce")
		c.backup(ctx, "second", "shop", "quiesce", "parameters: {e2e.example.io/hold: {long: 'yes'}}")
		c.backupEnds(ctx, "first", v1alpha1.RunPhaseCompleted)
		By("leaving them stopped after the first")
		Expect(c.numbers(ctx, "shop")).To(Equal("Deployment/idle=0 Deployment/web=0 StatefulSet/orders=0 CronJob/report=true "))
		c.backupEnds(ctx, "second", v1alpha1.RunPhaseCompleted)
		Expect(c.numbers(ctx, "shop")).To(Equal(asWanted))
		c.rolledOut(ctx, "shop", "deployment/web", "statefulset/orders", "daemonset/agent")
	}, SpecTimeout(minutes(5)))

	It("fails, and names the client, if a client scales up what it stops", func(ctx SpecContext) {
		c.createNamespace(ctx, "shop")
		c.apply(ctx, shop)
		c.rolledOut(ctx, "shop", "deployment/web")
		c.plugin(ctx, "quiesce", quiesced)
		stop := c.keepScaled(ctx, "shop", "web", 3)
		c.backup(ctx, "disturbed", "shop", "quiesce")
		b := c.backupEnds(ctx, "disturbed", v1alpha1.RunPhaseFailedPreBackupActions)
		Expect(b.Status.Message).To(MatchRegexp(`Deployment.*web.*was set .* times while it should be quiesced, last by "?shop-operator`))
		stop()
		Eventually(ctx, func() string { return c.numbers(ctx, "shop") }).Should(Equal(asWanted))
	}, SpecTimeout(minutes(4)))

	It("gives them back when it takes too long", func(ctx SpecContext) {
		c.createNamespace(ctx, "shop")
		c.apply(ctx, shop)
		c.rolledOut(ctx, "shop", "deployment/web")
		c.plugin(ctx, "quiesce", `
executor: {builtin: {quiesce: {maxQuiesceDuration: 45s}}}
actions:
  - {name: e2e.example.io/quiesce, kind: PreBackupAction, order: 1, selector: {matchLabels: {story: quiesce}}}
  - {name: e2e.example.io/quiesce, kind: PostBackupAction, order: 1, selector: {matchLabels: {story: quiesce}}}
`)
		c.plugin(ctx, "hold-quiesce", script("quiesce", "PreBackupAction", "e2e.example.io/hold", "sleep 300", "order: 2"))
		c.backup(ctx, "hangs", "shop", "quiesce")
		b := &v1alpha1.Backup{}
		b.Namespace, b.Name = namespace, "hangs"
		c.hookRunning(ctx, b, "e2e.example.io/hold")
		Expect(c.pods(ctx, "shop")()).To(BeEmpty())
		Eventually(ctx, func() string { return c.numbers(ctx, "shop") }).Should(Equal(asWanted))
		By("while the Backup still hangs")
		Expect(c.phase(ctx, "backups/hangs")()).To(Equal("InProgress"))
		c.kubectl(ctx, "patch", "backup", "hangs", "-n", namespace, "--type=merge", "-p", `{"spec":{"desiredState":"Cancel"}}`)
		c.backupEnds(ctx, "hangs", v1alpha1.RunPhaseCancelled)
		Expect(c.numbers(ctx, "shop")).To(Equal(asWanted))
	}, SpecTimeout(minutes(5)))
}
