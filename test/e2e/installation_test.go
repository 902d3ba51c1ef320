// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func describeInstallation() {
	It("runs as it is installed", func(ctx SpecContext) {
		By("having one pod, which is ready and has not been restarted")
		Expect(c.kubectl(ctx, "get", "pods", "-n", namespace, "-l", operatorLabels,
			"-o", "jsonpath={range .items[*]}{.status.phase} {.status.containerStatuses[0].ready} {.status.containerStatuses[0].restartCount};{end}")).
			To(Equal("Running true 0;"))
		By("holding the lease")
		Expect(c.kubectl(ctx, "get", "lease", "operator.grapnel.dev", "-n", namespace, "-o", "jsonpath={.spec.holderIdentity}")).
			To(ContainSubstring("grapnel-controller-manager"))
		By("letting only the operator write status")
		c.kubectl(ctx, "create", "clusterrolebinding", "e2e-administrator", "--clusterrole=cluster-admin", "--user=e2e-administrator")
		DeferCleanup(func(ctx SpecContext) { c.kubectl(ctx, "delete", "clusterrolebinding", "e2e-administrator") }, NodeTimeout(minutes(1)))
		_, err := c.try(ctx, "patch", "backupstoragelocation", "main", "-n", namespace, "--subresource=status", "--type=merge",
			"-p", `{"status":{"phase":"Unavailable"}}`, "--as=e2e-administrator")
		Expect(err).To(MatchError(ContainSubstring("only the operator")))
		By("serving metrics only to authorized accounts")
		out, err := c.try(ctx, "get", "--raw", "/api/v1/namespaces/grapnel-system/services/https:grapnel-controller-manager-metrics:8443/proxy/metrics")
		Expect(err).To(HaveOccurred(), "%s", out)
	}, SpecTimeout(minutes(2)))
}
