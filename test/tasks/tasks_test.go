// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package tasks

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

// The tasks build on each other, as the day of an administrator does.
var _ = Describe("Tasks", Ordered, ContinueOnFailure, func() {
	const app = "shop"

	BeforeAll(func(ctx context.Context) {
		t := suite.Spec(GinkgoTB())
		for _, object := range []string{app} {
			env.Create(t, world.Client, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: object}})
		}
		env.Create(t, world.Client, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: app, Name: "settings"}, Data: map[string]string{"color": "blue", "odd": "\x1b[31mred\u202e"},
		})
		env.Create(t, world.Client, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: app, Name: "db"}, StringData: map[string]string{"password": "swordfish"},
		})
	})

	It("backs up now, and waits for the outcome", func(ctx context.Context) {
		out := showTask(ctx, 2, "back up now, wait, and get an exit code", backupOperator, 0, "backup create shop-1 --include-namespaces shop --wait --timeout 1m")
		Expect(out).To(And(ContainSubstring("Backup shop-1 created"), ContainSubstring("Backup shop-1: Completed")))
	})

	It("has an exit code for a run that fails", func(ctx context.Context) {
		out := task(ctx, backupOperator, 1, "backup create nowhere --include-namespaces shop --storage-location nowhere --wait --timeout 1m")
		Expect(out).To(ContainSubstring(`BackupStorageLocation "nowhere" does not exist`))
	})

	It("lists backups in the columns of kubectl, as json, and by name", func(ctx context.Context) {
		Expect(task(ctx, viewer, 0, "backup get")).To(MatchRegexp(`(?m)^NAME +PHASE .*\n(.*\n)*shop-1 +Completed `))
		var list struct {
			Items []metav1.PartialObjectMetadata `json:"items"`
		}
		Expect(json.Unmarshal([]byte(task(ctx, viewer, 0, "backup get shop-1 -o json")), &list)).To(Succeed())
		Expect(list.Items).To(HaveLen(1))
		o := grapnel(ctx, viewer, "", "backup", "get", "shop-2")
		Expect(o.code).To(Equal(1))
		Expect(o.err).To(ContainSubstring(`there is no Backup "shop-2" in namespace grapnel-system; did you mean shop-1?`))
	})

	It("says what became of a backup", func(ctx context.Context) {
		Expect(task(ctx, viewer, 0, "backup describe shop-1")).To(And(
			MatchRegexp(`(?m)^Phase: +Completed$`), MatchRegexp(`(?m)^Objects: +\d+ of \d+$`), MatchRegexp(`(?m)^Location: +files$`)))
	})

	It("prints the log and the results", func(ctx context.Context) {
		Expect(showTask(ctx, 4, "read the log of a run", viewer, 0, "logs shop-1")).To(ContainSubstring("Archiving objects"))
		Expect(showTask(ctx, 5, "follow the log of a run", viewer, 0, "logs backup/shop-1 -f")).To(ContainSubstring("Archiving objects"))
		Expect(task(ctx, viewer, 0, "results shop-1")).To(ContainSubstring("0 errors, "))
	})

	It("lists what is in a backup, and finds the backups of an object", func(ctx context.Context) {
		Expect(showTask(ctx, 6, "what is in a backup?", viewer, 0, "ls shop-1")).To(And(ContainSubstring("v1/ConfigMap shop/settings\n"), ContainSubstring("v1/Secret shop/db\n")))
		Expect(showTask(ctx, 14, "which backups have an object?", viewer, 0, "find configmap/shop/settings")).To(ContainSubstring("shop-1"))
		for _, object := range []string{"ConfigMap/shop/settings", "configmaps/shop/settings", "namespace/shop"} {
			Expect(task(ctx, viewer, 0, "find "+object)).To(MatchRegexp(`^\S+ \S+  Completed  shop-1\n$`), object)
		}
		Expect(grapnel(ctx, viewer, "", "find", "secret/shop/missing").err).To(MatchRegexp(`none of \d+ backups has secret/shop/missing`))
	})

	It("prints one object of a backup, for those who may", func(ctx context.Context) {
		Expect(showTask(ctx, 7, "see one object of a backup, or get it back", administrator, 0, "cat shop-1 secret/shop/db")).To(And(ContainSubstring("kind: Secret"), ContainSubstring("password: c3dvcmRmaXNo")))
		Expect(task(ctx, administrator, 0, "cat shop-1 configmaps/shop/settings")).NotTo(ContainSubstring("\x1b"))
		o := grapnel(ctx, backupOperator, "", "cat", "shop-1", "secret/shop/db")
		Expect(o.code).To(Equal(1))
		Expect(o.err).To(ContainSubstring("you need the right to get backups/archive"))
	})

	It("downloads an archive, for those who may", func(ctx context.Context) {
		path := filepath.Join(GinkgoT().TempDir(), "shop.tar.gz")
		Expect(showTask(ctx, 8, "download the archive", administrator, 0, "download shop-1 -o FILE", path)).To(ContainSubstring(" bytes"))
		info, err := os.Stat(path)
		Expect(err).NotTo(HaveOccurred())
		Expect(info.Size()).To(BeNumerically(">", 100))
		Expect(info.Mode().Perm()).To(Equal(os.FileMode(0o600)))
		Expect(grapnel(ctx, administrator, "", "download", "shop-1", "-o", path).err).To(ContainSubstring("set --force to overwrite it"))
	})

	It("shows what a backup would do", func(ctx context.Context) {
		out := showTask(ctx, 19, "what would a backup do?", backupOperator, 0, "plan backup --include-namespaces shop")
		Expect(out).To(And(MatchRegexp(`(?m)^secrets +1 +\d+ B$`), ContainSubstring("Plan: Completed (A Backup would archive")))
		Expect(task(ctx, backupOperator, 2, "plan backup --include-namespaces shop,shopp")).To(ContainSubstring(`namespace "shopp" does not exist`))
		Expect(task(ctx, backupOperator, 1, "plan backup --storage-location nowhere")).To(ContainSubstring("would fail validation"))
		Expect(task(ctx, viewer, 0, "backup get")).NotTo(ContainSubstring("plan"), "dry runs that were shown")
		Expect(grapnel(ctx, viewer, "", "plan", "backup").err).To(ContainSubstring("grapnel-backup-operator"))
		Expect(grapnel(ctx, administrator, "", "plan", "backup", "-o", "yaml").out).To(ContainSubstring("kind: BackupPreview"))
		var left v1alpha1.BackupPreviewList
		Expect(world.Client.List(ctx, &left)).To(Succeed())
		Expect(left.Items).To(BeEmpty())
	})

	It("shows what a restore would do, and does it", func(ctx context.Context) {
		out := showTask(ctx, 9, "what would a restore change?", restoreOperator, 0, "plan restore shop-1 --namespace-mappings shop=shop-copy")
		Expect(out).To(And(ContainSubstring("v1/Secret shop-copy/db"), ContainSubstring("created")))
		out = showTask(ctx, 20, "restore into another namespace, and wait", restoreOperator, 0, "restore create copy --from-backup shop-1 --namespace-mappings shop=shop-copy --wait --timeout 1m")
		Expect(out).To(ContainSubstring("Restore copy: Completed"))
		Expect(task(ctx, restoreOperator, 0, "plan restore shop-1 --namespace-mappings shop=shop-copy")).NotTo(ContainSubstring("created "))
		Expect(task(ctx, viewer, 0, "restore describe copy")).To(MatchRegexp(`(?m)^Outcomes: +\d+ created, 0 updated`))
		Expect(task(ctx, viewer, 0, "restore get")).NotTo(ContainSubstring("plan-"), "dry runs that were shown")
	})

	It("compares a backup with the cluster, and with another backup", func(ctx context.Context) {
		Expect(task(ctx, restoreOperator, 0, "diff shop-1 --cluster")).To(Equal("no difference\n"))
		t := suite.Spec(GinkgoTB())
		world.Patch(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: app, Name: "settings"}}, `{"data":{"color":"red"}}`)
		world.Delete(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: app, Name: "db"}})
		env.Create(t, world.Client, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: app, Name: "more"}})
		Expect(showTask(ctx, 16, "what has changed since a backup?", restoreOperator, 1, "diff shop-1 --cluster")).To(And(
			ContainSubstring("changed  v1/ConfigMap shop/settings\n"), ContainSubstring("missing  v1/Secret shop/db\n"), Not(ContainSubstring("more"))))
		task(ctx, backupOperator, 0, "backup create shop-2 --include-namespaces shop --wait --timeout 1m")
		Expect(task(ctx, administrator, 1, "diff shop-1 shop-2")).To(Equal(
			"added    configmaps shop/more\nchanged  configmaps shop/settings\nremoved  secrets shop/db\n"))
		Expect(task(ctx, administrator, 0, "diff shop-2 shop-2")).To(Equal("no difference\n"))
		Expect(task(ctx, viewer, 0, "tree shop-2")).To(Equal("Backup shop-2: Completed\n"))
	})

	It("creates, pauses and resumes a Schedule, and backs up with its template", func(ctx context.Context) {
		task(ctx, backupOperator, 0, "schedule create nightly --schedule @daily --include-namespaces shop --ttl 720h --skip-immediately")
		task(ctx, backupOperator, 0, "schedule pause nightly")
		Eventually(ctx, func() string { return grapnel(ctx, viewer, "", "schedule", "describe", "nightly").out }).
			WithTimeout(patience).Should(ContainSubstring("Suspended"))
		task(ctx, backupOperator, 0, "schedule resume nightly")
		Expect(task(ctx, backupOperator, 0, "backup create now --from-schedule nightly --wait --timeout 1m")).To(ContainSubstring("Backup now: Completed"))
		Expect(grapnel(ctx, backupOperator, "n\n", "schedule", "delete", "nightly").err).To(ContainSubstring("not confirmed"))
		task(ctx, backupOperator, 0, "schedule delete nightly --confirm")
	})

	It("destroys a backup", func(ctx context.Context) {
		task(ctx, backupOperator, 0, "backup create gone --include-namespaces shop --wait --timeout 1m")
		showTask(ctx, 15, "destroy a backup with its data", backupOperator, 0, "backup delete gone --confirm --wait")
		o := grapnel(ctx, backupOperator, "y\n", "backup", "delete", "now", "--wait", "--timeout", "1m")
		Expect(o.code).To(Equal(0), o.String())
		Expect(o.err).To(ContainSubstring("Destroy backup now and its data?"))
		Expect(grapnel(ctx, viewer, "", "backup", "describe", "now").code).To(Equal(1))
	})

	It("converts the objects of Velero", func(ctx context.Context) {
		out := showTask(ctx, 18, "migrate from Velero", viewer, 2, "migrate velero -f FILE", filepath.Join("testdata", "velero.yaml"))
		Expect(out).To(And(ContainSubstring("apiVersion: grapnel.dev/v1alpha1\nkind: Schedule\n"), ContainSubstring("ttl: 720h0m0s")))
	})

	It("shows locations and plugins", func(ctx context.Context) {
		Expect(task(ctx, viewer, 0, "location get")).To(MatchRegexp(`(?m)^files +Available `))
		Expect(task(ctx, viewer, 0, "location describe files")).To(MatchRegexp(`(?m)^Phase: +Available$`))
		Expect(strings.Fields(task(ctx, administrator, 0, "location create more --provider s3 --bucket backups --credential keys -o yaml"))).
			To(ContainElements("kind:", "BackupStorageLocation", "credentialsSecret:"))
	})

	It("says what is missing to those who have no role", func(ctx context.Context) {
		for _, command := range []string{"backup get", "logs shop-1", "backup create mine", "ls shop-1", "find pod/a/b"} {
			o := grapnel(ctx, stranger, "", strings.Fields(command)...)
			Expect(o.code).To(Equal(1), command)
			Expect(o.err).To(And(ContainSubstring("forbidden"), ContainSubstring("one of the roles grapnel-viewer")), command)
		}
	})
})
