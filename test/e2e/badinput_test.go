// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// bad are Plugins that cannot do what they should, and what is said of each.
var bad = []struct{ name, spec, says string }{
	{"no-image", `
executor: {job: {image: "docker.io/local/not-there:1", startTimeout: 20s}}
actions: [{name: e2e.example.io/no-image, kind: PreBackupAction, selector: {matchLabels: {story: no-image}}}]
`, "image"},
	{"no-node", fmt.Sprintf(`
executor: {job: {image: %s, startTimeout: 5s, nodeSelector: {there-is-no: such-node}}}
actions: [{name: e2e.example.io/no-node, kind: PreBackupAction, selector: {matchLabels: {story: no-node}}}]
`, busyboxImage), "not scheduled|didn't match"},
	{"no-account", fmt.Sprintf(`
executor: {job: {image: %s, startTimeout: 5s, serviceAccountName: not-there}}
actions: [{name: e2e.example.io/no-account, kind: PreBackupAction, selector: {matchLabels: {story: no-account}}}]
`, busyboxImage), `serviceaccount "?not-there`},
	{"too-slow", fmt.Sprintf(`
executor: {job: {image: %s, command: [sleep, "600"]}}
actions: [{name: e2e.example.io/too-slow, kind: PreBackupAction, timeout: 5s, selector: {matchLabels: {story: too-slow}}}]
`, busyboxImage), "did not end before its deadline"},
	{"evicted", fmt.Sprintf(`
executor: {job: {image: %s, command: [sh, -c, "trap 'exit 1' TERM; sleep 600 & wait"]}}
actions: [{name: e2e.example.io/evicted, kind: PreBackupAction, timeout: 3m, selector: {matchLabels: {story: evicted}}}]
`, busyboxImage), "its pod was disrupted before it answered .EvictionByEvictionAPI."},
	{"crashing", `
executor: {podExec: {selector: {matchLabels: {app: crashing}}, command: ["true"]}}
actions: [{name: e2e.example.io/crashing, kind: PreBackupAction, timeout: 10s, selector: {matchLabels: {story: crashing}}}]
`, "crashing"},
	{"no-pod", `
executor: {podExec: {selector: {matchLabels: {app: there-is-none}}, command: ["true"]}}
actions: [{name: e2e.example.io/no-pod, kind: PreBackupAction, selector: {matchLabels: {story: no-pod}}}]
`, "no pod"},
	{"no-program", `
executor: {podExec: {selector: {matchLabels: {app: good}}, command: ["/not/there"]}}
actions: [{name: e2e.example.io/no-program, kind: PreBackupAction, selector: {matchLabels: {story: no-program}}}]
`, "/not/there"},
	{"no-host", `
executor: {webhook: {url: "https://not-there.bad.svc.cluster.local/hook"}}
actions: [{name: e2e.example.io/no-host, kind: PreBackupAction, timeout: 10s, selector: {matchLabels: {story: no-host}}}]
`, "not-there.bad.svc.cluster.local"},
}

func describeBadInput() {
	It("says what is wrong with hooks that cannot run", func(ctx SpecContext) {
		c.createNamespace(ctx, "bad")
		c.apply(ctx, fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: crashing, namespace: bad, labels: {app: crashing}}
spec: {containers: [{name: c, image: %[1]s, command: ["false"]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: good, namespace: bad, labels: {app: good}}
spec: {terminationGracePeriodSeconds: 1, containers: [{name: c, image: %[1]s, command: [sleep, "3600"]}]}
`, busyboxImage))
		c.kubectl(ctx, "wait", "pod/good", "-n", "bad", "--for=condition=Ready", "--timeout=60s")
		for _, plugin := range bad {
			c.plugin(ctx, plugin.name, plugin.spec)
			c.backup(ctx, plugin.name, "bad", plugin.name)
		}
		c.evict(ctx, "grapnel.dev/plugin=evicted")
		for _, plugin := range bad {
			By(plugin.name)
			b := c.backupEnds(ctx, plugin.name, v1alpha1.RunPhaseFailedPreBackupActions)
			Expect(b.Status.Message).To(MatchRegexp(plugin.says))
			_, _ = fmt.Fprintln(GinkgoWriter, b.Status.Message)
		}
		Eventually(ctx, func() (string, error) {
			return c.try(ctx, "get", "jobs", "-n", namespace, "-o", "name")
		}).Should(BeEmpty())
	}, SpecTimeout(minutes(5)))

	It("refuses a webhook at the metadata service of a cloud", func(ctx SpecContext) {
		c.apply(ctx, `
apiVersion: grapnel.dev/v1alpha1
kind: Plugin
metadata: {name: metadata}
spec:
  executor: {webhook: {url: "https://169.254.169.254/latest"}}
  actions: [{name: e2e.example.io/metadata, kind: PreBackupAction}]
`)
		DeferCleanup(func(ctx SpecContext) { c.kubectl(ctx, "delete", "plugin", "metadata", "--timeout=50s") }, NodeTimeout(minutes(1)))
		Eventually(ctx, func() (string, error) {
			return c.try(ctx, "get", "plugin", "metadata", "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].reason}: {.status.message}`)
		}).Should(And(HavePrefix("InvalidSpec: "), ContainSubstring("169.254.169.254")))
	}, SpecTimeout(minutes(2)))

	It("bounds what is printed", func(ctx SpecContext) {
		c.createNamespace(ctx, "loud")
		c.apply(ctx, fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: loud, namespace: loud, labels: {app: loud}}
spec: {terminationGracePeriodSeconds: 1, containers: [{name: c, image: %s, command: [sleep, "3600"]}]}
`, busyboxImage))
		c.kubectl(ctx, "wait", "pod/loud", "-n", "loud", "--for=condition=Ready", "--timeout=60s")
		const print = "yes 0123456789012345678901234567890123456789012345678901234567890123 | head -c 104857600; echo; echo done"
		c.plugin(ctx, "loud-job", script("loud", "PreBackupAction", "e2e.example.io/loud-job", print))
		c.plugin(ctx, "loud-exec", fmt.Sprintf(`
executor: {podExec: {selector: {matchLabels: {app: loud}}, command: [sh, -c, %q]}}
actions: [{name: e2e.example.io/loud-exec, kind: PreBackupAction, retries: 3, selector: {matchLabels: {story: loud}}}]
`, print)) // A busy kubelet may reset the connection before all of it was read, which is a failure.
		c.backup(ctx, "loud", "loud", "loud")
		c.backupEnds(ctx, "loud", v1alpha1.RunPhaseCompleted)
		Expect(len(c.backupLog(ctx, "loud"))).To(BeNumerically("<", 16<<20))
		Expect(c.kubectl(ctx, "get", "pods", "-n", namespace, "-l", operatorLabels,
			"-o", "jsonpath={.items[*].status.containerStatuses[0].restartCount}")).To(Equal("0"))
	}, SpecTimeout(minutes(5)))
}

// evict evicts the pod of a hook, as draining its node does.
func (c *cluster) evict(ctx context.Context, labels string) {
	GinkgoHelper()
	var pod string
	Eventually(ctx, func() (string, error) {
		var err error
		pod, err = c.try(ctx, "get", "pods", "-n", namespace, "-l", labels, "--field-selector=status.phase=Running",
			"-o", "jsonpath={.items[*].metadata.name}")
		return pod, err
	}).ShouldNot(BeEmpty())
	eviction := fmt.Sprintf(`{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": %q, "namespace": %q}}`, pod, namespace)
	_, err := c.run(ctx, eviction, "create", "-f", "-", "--raw", "/api/v1/namespaces/"+namespace+"/pods/"+pod+"/eviction")
	Expect(err).NotTo(HaveOccurred())
}
