// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// stored returns what is in a compressed file of the store: read by a pod that mounts the
// volume, since nothing but the operator serves it.
func (c *cluster) stored(ctx context.Context, path string) string {
	GinkgoHelper()
	c.apply(ctx, fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: store-reader, namespace: grapnel-system}
spec:
  restartPolicy: Never
  automountServiceAccountToken: false
  securityContext: {runAsNonRoot: true, runAsUser: 65532, seccompProfile: {type: RuntimeDefault}}
  containers:
    - name: reader
      image: %s
      command: [zcat, /store/%s]
      securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
      volumeMounts: [{name: store, mountPath: /store, readOnly: true}]
  volumes: [{name: store, persistentVolumeClaim: {claimName: grapnel-store}}]
`, busyboxImage, path))
	defer c.kubectl(ctx, "delete", "pod", "store-reader", "-n", namespace, "--grace-period=1")
	Eventually(ctx, func() (string, error) {
		return c.try(ctx, "get", "pod", "store-reader", "-n", namespace, "-o", "jsonpath={.status.phase}")
	}).Should(BeElementOf("Succeeded", "Failed"))
	return c.kubectl(ctx, "logs", "store-reader", "-n", namespace)
}
