// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package tasks

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

var _ = Describe("Pictures of a run", Ordered, func() {
	const (
		app          = "gallery"
		hookAction   = "pictures.example.io/hang"
		moveAction   = "pictures.example.io/move"
		backupName   = "gallery-1"
		hostileValue = "\u202e<script>alert(1)</script>"
	)

	BeforeAll(func(ctx context.Context) {
		t := suite.Spec(GinkgoTB())
		env.Create(t, world.Client, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: app}})
		env.Create(t, world.Client, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: app, Name: "large", Annotations: map[string]string{"fault.example.io/operation": "steps:2;interval:100ms"}},
		})
		plugin := env.Create(t, world.Client, world.NewFaultPlugin("pictures", []v1alpha1.PluginAction{
			{Name: hookAction, Kind: v1alpha1.ActionKindPreBackup, Selector: env.SelectorForAction(hookAction)},
			{Name: moveAction, Kind: v1alpha1.ActionKindAsyncBackupItem, Selector: env.SelectorForAction(moveAction)},
		}, "FAULT_OPERATIONS="+GinkgoT().TempDir()))
		world.WaitForPlugins(t, plugin)
		DeferCleanup(func(ctx context.Context) error { return world.Client.Delete(ctx, plugin) })

		labels := env.LabelsForActions(hookAction, moveAction)
		var flags []string
		for name, value := range labels {
			flags = append(flags, name+"="+value)
		}
		task(ctx, backupOperator, 0, "backup create "+backupName+" --include-namespaces gallery --parameter "+hookAction+":note="+hostileValue+
			" --labels "+strings.Join(slices.Sorted(slices.Values(flags)), ",")+" --wait --timeout 1m")
	})

	It("shows a backup over time", func(ctx context.Context) {
		Expect(showTask(ctx, 21, "where did the time go?", viewer, 0, "timeline "+backupName)).To(And(
			HavePrefix("Backup gallery-1: Completed\n"), MatchRegexp(`(?m)^Stages +┊0`), MatchRegexp(`(?m)^  Archiving .*[█▌▐].* \d`),
			MatchRegexp(`(?m)^  WaitingForPluginOperations `), MatchRegexp(`(?m)^Hooks +┊0`), MatchRegexp(`(?m)^  ✓ PreBackup pictures.example.io/hang`),
			MatchRegexp(`(?m)^  ✓ pictures.example.io/move gallery/large`)))
		Expect(task(ctx, viewer, 0, "timeline "+backupName+" -o svg")).To(And(HavePrefix("<svg "), ContainSubstring("PreBackup pictures.example.io/hang")))
		Expect(task(ctx, viewer, 0, "timeline "+backupName+" -o html")).To(And(HavePrefix("<!DOCTYPE html>"), ContainSubstring("<svg ")))
		Expect(showTask(ctx, 11, "which hooks and operations ran, and for how long?", viewer, 0, "tree "+backupName)).To(ContainSubstring("operations of pictures.example.io/move: 1 × Completed\n"))
	})

	It("writes a page about a backup", func(ctx context.Context) {
		path := filepath.Join(GinkgoT().TempDir(), "gallery.html")
		Expect(showTask(ctx, 22, "share a report on a run", viewer, 0, "report "+backupName+" -o FILE", path)).To(HavePrefix(path + ": "))
		info, err := os.Stat(path)
		Expect(err).NotTo(HaveOccurred())
		Expect(info.Mode().Perm()).To(Equal(os.FileMode(0o600)))
		page, err := os.ReadFile(path)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(page)).To(And(
			ContainSubstring("Objects by kind"), ContainSubstring("<tr><td>configmaps\n"), ContainSubstring("<h3>PreBackup pictures.example.io/hang</h3>"),
			ContainSubstring("<td>pictures.example.io/move gallery/large"), ContainSubstring("note: "), Not(ContainSubstring(`id="note"`)),
			Not(ContainSubstring("<script")), Not(ContainSubstring("\u202e"))))
		Expect(grapnel(ctx, viewer, "", "report", backupName, "-o", path).err).To(ContainSubstring("set --force to overwrite it"))
		task(ctx, viewer, 0, "report "+backupName+" --force -o "+path)
		Expect(task(ctx, viewer, 0, "report "+backupName+" -o -")).To(HavePrefix("<!DOCTYPE html>"))
	})

	It("writes a page for those who may not read results", func(ctx context.Context) {
		const reader = "reader"
		env.Create(suite.Spec(GinkgoTB()), world.Client, &rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: reader},
			Rules:      []rbacv1.PolicyRule{{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"*"}, Verbs: []string{"get", "list"}}},
		})
		Expect(addUser(reader)).To(Succeed())
		Eventually(ctx, func(g Gomega) {
			o := grapnel(ctx, reader, "", "report", backupName, "-o", "-")
			g.Expect(o.code).To(Equal(0), o.String())
			g.Expect(o.out).To(And(ContainSubstring(`id="note"`), ContainSubstring("WaitingForPluginOperations"), Not(ContainSubstring("Objects by kind"))))
			g.Expect(o.err).To(ContainSubstring("forbidden"))
		}).WithTimeout(patience).Should(Succeed())
	})

	It("writes a page about a run that has no results", func(ctx context.Context) {
		task(ctx, backupOperator, 1, "backup create gallery-2 --include-namespaces gallery --storage-location nowhere --wait --timeout 1m")
		o := grapnel(ctx, viewer, "", "report", "backup/gallery-2", "-o", "-")
		Expect(o.code).To(Equal(0), o.String())
		Expect(o.out).To(And(ContainSubstring(`id="note"`), ContainSubstring("FailedValidation"), Not(ContainSubstring("Objects by kind"))))
		Expect(o.err).To(ContainSubstring("no objects by kind"))
	})
})
