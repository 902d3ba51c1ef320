// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/base64"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/test/node/pki"
)

// elsewhere is an endpoint for webhooks and a plugin in a pod of their own.
var elsewhere = fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: endpoints, namespace: elsewhere}
spec: {selector: {app: endpoints}, ports: [{name: https, port: 443, targetPort: 8443}, {name: grpc, port: 7443}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: endpoints, namespace: elsewhere}
spec:
  selector: {matchLabels: {app: endpoints}}
  template:
    metadata: {labels: {app: endpoints}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
        - name: endpoints
          image: %s
          readinessProbe: {tcpSocket: {port: 7443}, periodSeconds: 1}
          volumeMounts: [{name: tls, mountPath: /tls}]
      volumes: [{name: tls, secret: {secretName: endpoints-tls}}]
`, endpointsImage)

// opened lets the operator reach them where NetworkPolicies are enforced: on the ports of
// the pods, whichever port the Service has.
const opened = `
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: e2e-elsewhere, namespace: grapnel-system}
spec:
  podSelector: {matchLabels: {app.kubernetes.io/component: controller-manager}}
  policyTypes: [Egress]
  egress:
    - to: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: elsewhere}}}]
      ports: [{protocol: TCP, port: 8443}, {protocol: TCP, port: 7443}]
`

// calling is how both are called; the authority of their certificate comes last.
const (
	callingWebhook = `
executor:
  webhook:
    url: https://endpoints.elsewhere.svc/hook
    tls: {certificateSecret: {name: e2e-client}, caBundle: %s}
actions:
  - {name: e2e.example.io/webhook, kind: PreBackupAction, selector: {matchLabels: {story: elsewhere}}}
  - {name: e2e.example.io/webhook, kind: PostBackupAction, selector: {matchLabels: {story: elsewhere}}}
  - {name: e2e.example.io/webhook, kind: PreRestoreAction, selector: {matchLabels: {story: elsewhere}}}
  - {name: e2e.example.io/webhook, kind: PostRestoreAction, selector: {matchLabels: {story: elsewhere}}}
  - {name: e2e.example.io/webhook, kind: DeleteAction, selector: {matchLabels: {story: elsewhere}}}
`
	callingPlugin = `
executor:
  grpc:
    address: endpoints.elsewhere.svc:7443
    tls: {certificateSecret: {name: e2e-client}, caBundle: %s}
actions:
  - {name: e2e.example.io/elsewhere, kind: PreBackupAction, selector: {matchLabels: {story: elsewhere}}}
  - {name: e2e.example.io/elsewhere, kind: PostBackupAction, selector: {matchLabels: {story: elsewhere}}}
`
)

func describeEndpoints() {
	It("calls an HTTPS endpoint, and a plugin that runs elsewhere", func(ctx SpecContext) {
		c.createNamespace(ctx, "elsewhere")
		authority, err := pki.NewAuthority("elsewhere")
		Expect(err).NotTo(HaveOccurred())
		c.certify(ctx, authority)
		c.apply(ctx, opened)
		c.apply(ctx, elsewhere)
		c.rolledOut(ctx, "elsewhere", "deployment/endpoints")
		bundle := base64.StdEncoding.EncodeToString(authority.Pair().Certificate)
		c.plugin(ctx, "webhook", fmt.Sprintf(callingWebhook, bundle))
		c.plugin(ctx, "elsewhere", fmt.Sprintf(callingPlugin, bundle))
		const parameters = "parameters: {e2e.example.io/webhook: {who: me}, e2e.example.io/elsewhere: {who: me}}"

		c.backup(ctx, "elsewhere", "elsewhere", "elsewhere", parameters)
		b := c.backupEnds(ctx, "elsewhere", v1alpha1.RunPhaseCompleted)
		for hook, says := range map[v1alpha1.HookPoint]string{
			v1alpha1.HookPreBackup: "PreBackup: attempt 1 for elsewhere, by me", v1alpha1.HookPostBackup: "PostBackup: attempt 1 for elsewhere, by me",
		} {
			Expect(c.hookRun(ctx, b, hook, "e2e.example.io/webhook").Status.Message).To(Equal(says))
			Expect(c.hookRun(ctx, b, hook, "e2e.example.io/elsewhere").Status.Message).To(Equal("attempt 1 for elsewhere, by me"))
		}
		By("having what both say in the log of the Backup")
		Expect(c.backupLog(ctx, "elsewhere")).To(
			And(ContainSubstring("The endpoint was called for PreBackup"), ContainSubstring("The plugin was called")))

		By("calling those that took their place, with other certificates")
		before := c.hookRun(ctx, b, v1alpha1.HookPreBackup, "e2e.example.io/elsewhere").Status.Outputs
		c.certify(ctx, authority)
		c.kubectl(ctx, "rollout", "restart", "deployment/endpoints", "-n", "elsewhere")
		c.rolledOut(ctx, "elsewhere", "deployment/endpoints")
		c.backup(ctx, "elsewhere-again", "elsewhere", "elsewhere", parameters)
		b = c.backupEnds(ctx, "elsewhere-again", v1alpha1.RunPhaseCompleted)
		Expect(c.hookRun(ctx, b, v1alpha1.HookPreBackup, "e2e.example.io/elsewhere").Status.Outputs).NotTo(Equal(before))

		By("calling the endpoint around a Restore, and when the backup is destroyed")
		c.restore(ctx, "elsewhere", "elsewhere", "elsewhere", parameters)
		r := c.restoreEnds(ctx, "elsewhere", v1alpha1.RunPhaseCompleted)
		for _, hook := range []v1alpha1.HookPoint{v1alpha1.HookPreRestore, v1alpha1.HookPostRestore} {
			Expect(c.hookRun(ctx, r, hook, "e2e.example.io/webhook").Status.Message).To(Equal(string(hook) + ": attempt 1 for elsewhere, by me"))
		}
		c.apply(ctx, `
apiVersion: grapnel.dev/v1alpha1
kind: DeletionRun
metadata: {name: elsewhere, namespace: grapnel-system}
spec: {backupName: elsewhere}
`)
		Eventually(ctx, c.phase(ctx, "deletionruns/elsewhere")).Should(Equal("Completed"))
		Expect(c.kubectl(ctx, "get", "deletionrun", "elsewhere", "-n", namespace, "-o", "jsonpath={.status.deleteActionsStatuses[?(@.pluginName==\"e2e.example.io/webhook\")].message}")).
			To(Equal("Delete: attempt 1 for elsewhere, by me"))
	}, SpecTimeout(minutes(5)))
}

// certify gives both sides certificates of an authority.
func (c *cluster) certify(ctx context.Context, authority *pki.Authority) {
	GinkgoHelper()
	server, err := authority.Issue(pki.Subject{CommonName: "endpoints", Names: []string{"endpoints.elsewhere.svc"}})
	Expect(err).NotTo(HaveOccurred())
	operator, err := authority.Issue(pki.Subject{CommonName: "grapnel"})
	Expect(err).NotTo(HaveOccurred())
	c.apply(ctx, fmt.Sprintf(`
apiVersion: v1
kind: Secret
metadata: {name: endpoints-tls, namespace: elsewhere}
stringData: {tls.crt: %q, tls.key: %q, ca.crt: %q}
---
apiVersion: v1
kind: Secret
metadata: {name: e2e-client, namespace: grapnel-system}
type: kubernetes.io/tls
stringData: {tls.crt: %q, tls.key: %q}
`, server.Certificate, server.Key, authority.Pair().Certificate, operator.Certificate, operator.Key))
}
