// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// describeUninstall removes Grapnel as docs/installation.md says.
func describeUninstall() {
	It("leaves nothing behind when it is removed", func(ctx SpecContext) {
		for _, args := range [][]string{
			{"delete", "schedules.grapnel.dev", "--all", "-n", namespace},
			{"delete", "restores.grapnel.dev,backups.grapnel.dev", "--all", "-n", namespace, "--timeout=3m"},
			{"delete", "deletionruns.grapnel.dev", "--all", "-n", namespace, "--timeout=1m"},
			{"delete", "plugins.grapnel.dev", "--all", "--timeout=1m"},
			{"delete", "backupstoragelocations.grapnel.dev", "--all", "-n", namespace},
		} {
			c.kubectl(ctx, args...)
		}
		c.helm(ctx, "uninstall grapnel -n "+namespace+" --wait --timeout=3m")
		Expect(c.kubectl(ctx, "get", "pvc", "-n", namespace, "-o", "name")).
			To(ContainSubstring("grapnel-store-shared"), "the stored backups stay")
		c.kubectl(ctx, "delete", "-k", "../../config/crd", "--timeout=3m")
		c.kubectl(ctx, "delete", "namespace", namespace, "--timeout=3m")
		By("having none of its kinds, accounts, roles and policies")
		for _, kinds := range []string{
			"customresourcedefinitions", "namespaces", "clusterroles", "clusterrolebindings",
			"validatingadmissionpolicies", "validatingadmissionpolicybindings", "leases -A", "apiservices",
		} {
			out := c.kubectl(ctx, append([]string{"get", "-o", "name"}, append(strings.Fields(kinds)[1:], strings.Fields(kinds)[0])...)...)
			Expect(out).NotTo(ContainSubstring("grapnel"), "%s", kinds)
		}
	}, SpecTimeout(minutes(8)))
}
