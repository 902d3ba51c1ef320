// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// database is a PostgreSQL server with a client.
var database = fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: db, namespace: bank}
spec: {selector: {app: db}, ports: [{port: 5432}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: bank}
spec:
  serviceName: db
  replicas: 1
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      containers:
        - name: postgres
          image: %[1]s
          env: [{name: POSTGRES_DB, value: bank}]
          readinessProbe: {exec: {command: [pg_isready, -h, localhost, -U, postgres]}, periodSeconds: 1}
`, postgresImage) + payingClient("bank")

// payingClient is a client of the PostgreSQL server of a namespace that writes a row again and again.
func payingClient(in string) string {
	return fmt.Sprintf(`
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: client, namespace: %[1]s}
spec:
  selector: {matchLabels: {app: client}}
  template:
    metadata: {labels: {app: client}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
        - name: client
          image: %[2]s
          command:
            - sh
            - -c
            - |
              db="psql -qAt -h db -U postgres bank"
              until $db -c "CREATE TABLE IF NOT EXISTS paid (at timestamptz DEFAULT clock_timestamp())"; do sleep 0.2; done
              while :; do $db -c "INSERT INTO paid DEFAULT VALUES" && echo paid; sleep 0.1; done
`, in, postgresImage)
}

// frozen is a Plugin that blocks writes to the database. A transaction that writes has
// ended when the checkpoint has been made.
const frozen = `
executor:
  podExec:
    selector: {matchLabels: {app: db}}
    container: postgres
actions:
  - name: e2e.example.io/freeze
    kind: PreBackupAction
    order: 1
    selector: {matchLabels: {story: postgres}}
    timeout: 30s
    command: [psql, -qAt, -U, postgres, -c, "ALTER SYSTEM SET default_transaction_read_only = on", -c, "SELECT pg_reload_conf()", -c, CHECKPOINT]
  - name: e2e.example.io/freeze
    kind: PostBackupAction
    order: 1
    selector: {matchLabels: {story: postgres}}
    timeout: 30s
    command: [psql, -qAt, -U, postgres, -c, "SET default_transaction_read_only = off", -c, "ALTER SYSTEM RESET default_transaction_read_only", -c, "SELECT pg_reload_conf()"]
`

// annotated is a Plugin that runs what pods have in Velero's annotations.
const annotated = `
executor:
  builtin:
    veleroHooks: {}
actions:
  - name: e2e.example.io/velero-hooks
    kind: PreBackupAction
    order: 1
    selector: {matchLabels: {story: annotated}}
    timeout: 1m
  - name: e2e.example.io/velero-hooks
    kind: PostBackupAction
    order: 1
    selector: {matchLabels: {story: annotated}}
    timeout: 1m
`

func describePostgres() {
	It("freezes a database whose pod has Velero's annotations, and thaws it", func(ctx SpecContext) {
		c.createNamespace(ctx, "bank")
		c.apply(ctx, database)
		c.rolledOut(ctx, "bank", "statefulset/db", "deployment/client")
		const psql = `command=["psql","-qAt","-U","postgres","-c","%s","-c","SELECT pg_reload_conf()"]`
		c.kubectl(ctx, "annotate", "pod/db-0", "-n", "bank", "pre.hook.backup.velero.io/container=postgres",
			fmt.Sprintf("pre.hook.backup.velero.io/"+psql, "ALTER SYSTEM SET default_transaction_read_only = on"),
			fmt.Sprintf("post.hook.backup.velero.io/"+psql, `SET default_transaction_read_only = off","-c","ALTER SYSTEM RESET default_transaction_read_only`))
		c.plugin(ctx, "velero-hooks", annotated)
		c.plugin(ctx, "hold-annotated", script("annotated", "PreBackupAction", "e2e.example.io/hold", "sleep 4", "order: 2"))
		c.paysOn(ctx, "bank")

		c.backup(ctx, "bank-annotated", "bank", "annotated")
		b := &v1alpha1.Backup{}
		b.Namespace, b.Name = namespace, "bank-annotated"
		c.hookRunning(ctx, b, "e2e.example.io/hold")
		_, err := c.try(ctx, "exec", "-n", "bank", "deployment/client", "--", "psql", "-h", "db", "-U", "postgres", "bank", "-c", "INSERT INTO paid DEFAULT VALUES")
		Expect(err).To(MatchError(ContainSubstring("read-only transaction")))
		b = c.backupEnds(ctx, "bank-annotated", v1alpha1.RunPhaseCompleted)
		Expect(c.hookRun(ctx, b, v1alpha1.HookPostBackup, "e2e.example.io/velero-hooks").Status.Message).To(Equal("1 pod: 1 ok"))
		c.paysOn(ctx, "bank")
	}, SpecTimeout(minutes(5)))

	It("freezes a database while it is backed up, and thaws it", func(ctx SpecContext) {
		c.createNamespace(ctx, "bank")
		c.apply(ctx, database)
		c.rolledOut(ctx, "bank", "statefulset/db", "deployment/client")
		c.plugin(ctx, "postgres", frozen)
		c.plugin(ctx, "hold-postgres", script("postgres", "PreBackupAction", "e2e.example.io/hold", "sleep 4", "order: 2"))
		c.paysOn(ctx, "bank")

		c.backup(ctx, "bank", "bank", "postgres")
		b := &v1alpha1.Backup{}
		b.Namespace, b.Name = namespace, "bank"
		c.hookRunning(ctx, b, "e2e.example.io/hold")
		By("rejecting writes meanwhile")
		first := c.paid(ctx, "bank")
		_, err := c.try(ctx, "exec", "-n", "bank", "deployment/client", "--", "psql", "-h", "db", "-U", "postgres", "bank", "-c", "INSERT INTO paid DEFAULT VALUES")
		Expect(err).To(MatchError(ContainSubstring("read-only transaction")))
		Expect(c.paid(ctx, "bank")).To(Equal(first))

		c.backupEnds(ctx, "bank", v1alpha1.RunPhaseCompleted)
		By("letting the client go on afterwards, with every payment that it was told of")
		c.paysOn(ctx, "bank")
		c.kubectl(ctx, "scale", "deployment/client", "-n", "bank", "--replicas=0")
	}, SpecTimeout(minutes(5)))

	It("thaws it also if the Backup fails", func(ctx SpecContext) {
		c.createNamespace(ctx, "bank")
		c.apply(ctx, database)
		c.rolledOut(ctx, "bank", "statefulset/db", "deployment/client")
		c.plugin(ctx, "postgres", frozen)
		c.plugin(ctx, "break-postgres", script("postgres", "PreBackupAction", "e2e.example.io/hold", "sleep 3; exit 1", "order: 2"))
		c.backup(ctx, "bank-failed", "bank", "postgres")
		b := c.backupEnds(ctx, "bank-failed", v1alpha1.RunPhaseFailedPreBackupActions)
		Expect(c.hookRun(ctx, b, v1alpha1.HookPostBackup, "e2e.example.io/freeze").Status.Phase).To(Equal(v1alpha1.HookRunPhaseCompleted))
		c.paysOn(ctx, "bank")
	}, SpecTimeout(minutes(5)))
}

// paid returns how many payments the database of a namespace knows of.
func (c *cluster) paid(ctx context.Context, in string) int {
	GinkgoHelper()
	n, err := strconv.Atoi(c.queryPostgres(ctx, in, "bank", "SELECT count(*) FROM paid"))
	Expect(err).NotTo(HaveOccurred())
	return n
}

// paysOn waits until there are more payments.
func (c *cluster) paysOn(ctx context.Context, in string) {
	GinkgoHelper()
	first := c.paid(ctx, in)
	Eventually(ctx, func() int { return c.paid(ctx, in) }).Should(BeNumerically(">", first))
}

// queryPostgres returns the answer of the PostgreSQL server of a namespace.
func (c *cluster) queryPostgres(ctx context.Context, in, database, query string) string {
	GinkgoHelper()
	var answer string
	Eventually(ctx, func(g Gomega) {
		out, err := c.try(ctx, "exec", "-n", in, "statefulset/db", "--", "psql", "-qAt", "-U", "postgres", database, "-c", query)
		g.Expect(err).NotTo(HaveOccurred())
		answer = strings.TrimSpace(out)
	}).Should(Succeed())
	return answer
}
