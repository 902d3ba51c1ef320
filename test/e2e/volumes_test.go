// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strconv"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/csi/driverdir"
)

// driverData is where the CSI driver of test/node keeps volumes and snapshots.
const driverData = driverdir.Dir("/var/lib/grapnel-e2e/csi/data")

// ledger is a PostgreSQL server whose data is in a claim, with a client.
var ledger = fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: db, namespace: ledger, labels: {app: ledger}}
spec: {selector: {app: ledger}, ports: [{port: 5432}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: ledger, labels: {app: ledger}}
spec:
  serviceName: db
  replicas: 1
  selector: {matchLabels: {app: ledger}}
  template:
    metadata: {labels: {app: ledger}}
    spec:
      containers:
        - name: postgres
          image: %[1]s
          env: [{name: POSTGRES_DB, value: bank}, {name: PGDATA, value: /var/lib/postgresql/data/db}]
          readinessProbe: {exec: {command: [pg_isready, -h, localhost, -U, postgres]}, periodSeconds: 1}
          volumeMounts: [{name: data, mountPath: /var/lib/postgresql/data}]
  volumeClaimTemplates:
    - metadata: {name: data, labels: {app: ledger}}
      spec:
        storageClassName: directory-wait
        accessModes: [ReadWriteOnce]
        resources: {requests: {storage: 1Gi}}
`, postgresImage) + payingClient("ledger")

// ledgerFreeze is a Plugin that blocks writes to the database only until its data is captured. The
// first half returns what the database holds then.
const ledgerFreeze = `
executor:
  podExec:
    selector: {matchLabels: {app: ledger}}
    container: postgres
actions:
  - name: e2e.example.io/ledger
    kind: PreBackupAction
    selector: {matchLabels: {story: ledger}}
    timeout: 30s
    command:
      - sh
      - -euc
      - |
        psql -qAt -U postgres -c "ALTER SYSTEM SET default_transaction_read_only = on" -c "SELECT pg_reload_conf()" -c CHECKPOINT >/dev/null
        rows=$(psql -qAt -U postgres bank -c "SELECT count(*) FROM paid")
        lsn=$(psql -qAt -U postgres -c "SELECT pg_current_wal_lsn()")
        echo "{\"message\": \"frozen\", \"outputs\": {\"rows\": \"$rows\", \"lsn\": \"$lsn\"}}"
  - name: e2e.example.io/ledger
    kind: PostBackupAction
    runAfter: DataCaptured
    selector: {matchLabels: {story: ledger}}
    timeout: 30s
    command: [psql, -qAt, -U, postgres, -c, "SET default_transaction_read_only = off", -c, "ALTER SYSTEM RESET default_transaction_read_only", -c, "SELECT pg_reload_conf()"]
`

func describeVolumes() {
	It("freezes a database until its snapshot is taken, and restores it elsewhere", func(ctx SpecContext) {
		c.createNamespace(ctx, "ledger")
		c.apply(ctx, ledger)
		c.rolledOut(ctx, "ledger", "statefulset/db", "deployment/client")
		c.plugin(ctx, "ledger", ledgerFreeze)
		c.pluginReady(ctx, "csi")
		Expect(driverData.SetFaults(driverdir.Faults{NeverReady: true})).To(Succeed())
		DeferCleanup(func() { Expect(driverData.SetFaults(driverdir.Faults{})).To(Succeed()) })
		c.paysOn(ctx, "ledger")

		By("backing it up")
		c.backup(ctx, "ledger", "ledger", "ledger", "volumes: {requireCaptured: true}")
		b := &v1alpha1.Backup{}
		b.Namespace, b.Name = namespace, "ledger"
		Eventually(ctx, func(g Gomega) {
			g.Expect(c.Get(ctx, client.ObjectKeyFromObject(b), b)).To(Succeed())
			g.Expect(b.Status.PostBackupActionsStatuses).NotTo(BeNil())
			first := (*b.Status.PostBackupActionsStatuses)[0]
			g.Expect([]string{first.PluginName, string(first.Phase)}).To(Equal([]string{"e2e.example.io/ledger", "Completed"}), "%s", b.Status.Message)
		}).Should(Succeed())
		Expect(b.Status.Phase).To(Equal(v1alpha1.RunPhaseWaitingForPluginOperations))
		frozen := c.hookRun(ctx, b, v1alpha1.HookPreBackup, "e2e.example.io/ledger").Status.Outputs
		rows, err := strconv.Atoi(string(frozen["rows"]))
		Expect(err).NotTo(HaveOccurred())

		By("letting the client write while the Backup waits for the snapshot")
		Eventually(ctx, func() int { return c.paid(ctx, "ledger") }).Should(BeNumerically(">", rows))
		Expect(c.Get(ctx, client.ObjectKeyFromObject(b), b)).To(Succeed())
		Expect(b.Status.Phase).To(Equal(v1alpha1.RunPhaseWaitingForPluginOperations))
		Expect(driverData.SetFaults(driverdir.Faults{})).To(Succeed())
		b = c.backupEnds(ctx, "ledger", v1alpha1.RunPhaseCompleted)
		Expect(b.Status.Volumes).To(Equal(&v1alpha1.VolumeCounts{Claims: 1, Captured: 1}))
		Expect(driverdir.List[driverdir.Snapshot](driverData)).To(HaveLen(1))

		By("losing the namespace and the volume")
		c.kubectl(ctx, "delete", "namespace", "ledger", "--timeout=110s")
		Eventually(ctx, func() ([]driverdir.Volume, error) { return driverdir.List[driverdir.Volume](driverData) }).Should(BeEmpty())
		Expect(driverdir.List[driverdir.Snapshot](driverData)).To(HaveLen(1))

		By("restoring it into another namespace")
		c.restore(ctx, "ledger", "ledger", "ledger", "namespaceMapping: {ledger: ledger-again}", "labelSelector: {matchLabels: {app: ledger}}")
		c.restoreEnds(ctx, "ledger", v1alpha1.RunPhaseCompleted)
		c.rolledOut(ctx, "ledger-again", "statefulset/db")
		Expect(c.paid(ctx, "ledger-again")).To(Equal(rows))
		since := c.queryPostgres(ctx, "ledger-again", "postgres", fmt.Sprintf("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '%s')", frozen["lsn"]))
		passed, err := strconv.Atoi(since)
		Expect(err).NotTo(HaveOccurred())
		// A start of the server writes a checkpoint.
		Expect(passed).To(And(BeNumerically(">=", 0), BeNumerically("<", 1<<20)), "bytes of WAL since the freeze")

		By("leaving nothing behind")
		contents := func() (string, error) {
			return c.try(ctx, "get", "volumesnapshots,volumesnapshotcontents", "-A", "-o", "name")
		}
		c.apply(ctx, "apiVersion: grapnel.dev/v1alpha1\nkind: DeletionRun\nmetadata: {name: ledger, namespace: grapnel-system}\nspec: {backupName: ledger}\n")
		Eventually(ctx, c.phase(ctx, "deletionruns/ledger")).Should(Equal("Completed"))
		Expect(driverdir.List[driverdir.Snapshot](driverData)).To(BeEmpty())
		Eventually(ctx, contents).Should(BeEmpty())
		c.kubectl(ctx, "delete", "namespace", "ledger-again", "--timeout=110s")
		Eventually(ctx, func() ([]driverdir.Volume, error) { return driverdir.List[driverdir.Volume](driverData) }).Should(BeEmpty())
	}, SpecTimeout(minutes(8)))
}
