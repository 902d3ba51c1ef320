// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// reachable is a web server, and a pod in another namespace that says whenever the metrics of
// the operator can be reached and could not before, or the other way round.
var reachable = fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: web, namespace: reachable}
spec: {selector: {app: web}, ports: [{port: 443, targetPort: 8080}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: reachable}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
        - name: web
          image: %[1]s
          command: [httpd, -f, -p, "8080", -h, /tmp]
          readinessProbe: {tcpSocket: {port: 8080}, periodSeconds: 1}
---
apiVersion: v1
kind: Pod
metadata: {name: curious, namespace: curious}
spec:
  terminationGracePeriodSeconds: 1
  containers:
    - name: curious
      image: %[1]s
      command:
        - sh
        - -c
        - |
          last=
          while sleep 1; do
            nc -w 2 grapnel-controller-manager-metrics.grapnel-system 8443 </dev/null >/dev/null 2>&1 && now=open || now=closed
            [ $now = "$last" ] || echo $now
            last=$now
          done
`, busyboxImage)

// connects is a script that ends well as soon as the server can be reached, or cannot: a new
// pod may be without the rules of its policies for a moment.
func connects(want string) string {
	return fmt.Sprintf(`
for i in $(seq 30); do
  nc -w 2 web.reachable 443 </dev/null >/dev/null 2>&1 && now=open || now=closed
  if [ $now = %s ]; then echo it is $now >/dev/termination-log; exit; fi
  sleep 1
done
echo it stays $now
exit 1
`, want)
}

// openedJobs is what docs/installation.md has for the Jobs of a Plugin.
const openedJobs = `
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: e2e-opened, namespace: grapnel-system}
spec:
  podSelector: {matchLabels: {grapnel.dev/plugin: opened}}
  policyTypes: [Egress]
  egress:
    - to: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: reachable}}}]
      ports: [{protocol: TCP, port: 8080}]
`

func describeNetwork() {
	It("lets its pods reach what a policy allows, and blocks ingress", Label("network-policies"), func(ctx SpecContext) {
		c.createNamespace(ctx, "reachable")
		c.createNamespace(ctx, "curious")
		c.apply(ctx, reachable)
		c.rolledOut(ctx, "reachable", "deployment/web")
		c.apply(ctx, openedJobs)
		c.plugin(ctx, "closed", script("network", "PreBackupAction", "e2e.example.io/closed", connects("closed")))
		c.plugin(ctx, "opened", script("network", "PreBackupAction", "e2e.example.io/opened", connects("open")))

		c.backup(ctx, "network", "reachable", "network")
		b := c.backupEnds(ctx, "network", v1alpha1.RunPhaseCompleted)
		for action, says := range map[string]string{"e2e.example.io/closed": "it is closed", "e2e.example.io/opened": "it is open"} {
			Expect(c.hookRun(ctx, b, v1alpha1.HookPreBackup, action).Status.Message).To(Equal(says))
		}
		By("letting in who reads metrics, when its namespace says so")
		heard := func() (string, error) { return c.try(ctx, "logs", "pod/curious", "-n", "curious") }
		Eventually(ctx, heard).Should(Equal("closed\n"))
		c.kubectl(ctx, "label", "namespace", "curious", "grapnel.dev/scrape-metrics=true")
		Eventually(ctx, heard).Should(Equal("closed\nopen\n"))
	}, SpecTimeout(minutes(4)))
}
