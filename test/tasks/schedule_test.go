// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package tasks

import (
	"context"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

// A user needs a backup now that counts as one of a Schedule, for example before a change of the application.
var _ = Describe("Schedule run", Ordered, func() {
	const run = "schedule run before-change"
	created := regexp.MustCompile(`(?m)^Backup (before-change-\d{14}) created$`)
	var first, second string

	BeforeAll(func(ctx context.Context) {
		env.Create(suite.Spec(GinkgoTB()), world.Client, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ledger"}})
		task(ctx, backupOperator, 0, "schedule create before-change --schedule @yearly --include-namespaces ledger --skip-immediately --paused")
	})

	// Other stories count the Backups, and expect that doctor has nothing to say.
	AfterAll(func(ctx context.Context) {
		for _, backup := range []string{first, second} {
			task(ctx, backupOperator, 0, "backup delete "+backup+" --confirm --wait --timeout 1m")
		}
		for _, schedule := range []string{"before-change", "broken"} {
			task(ctx, backupOperator, 0, "schedule delete "+schedule+" --confirm")
		}
	})

	It("creates a Backup of a paused Schedule, and waits for its outcome", func(ctx context.Context) {
		out := showTask(ctx, 13, "back up with a Schedule now", backupOperator, 0, run+" --wait --timeout 1m")
		Expect(out).To(MatchRegexp(created.String()))
		first = created.FindStringSubmatch(out)[1]
		Expect(out).To(ContainSubstring("Backup " + first + ": Completed"))
		Expect(task(ctx, viewer, 0, "backup get -l grapnel.dev/schedule-name=before-change")).To(ContainSubstring(first))
		Expect(task(ctx, viewer, 0, "schedule describe before-change")).To(And(
			MatchRegexp(`(?m)^Phase: +Suspended$`), MatchRegexp(`(?m)^Last backup: +`+first+`$`), MatchRegexp(`(?m)^Last request: +\S+ `+first+`$`)))
	})

	It("creates another one each time", func(ctx context.Context) {
		out := task(ctx, backupOperator, 0, run)
		Expect(out).To(MatchRegexp(created.String()))
		second = created.FindStringSubmatch(out)[1]
		Expect(second).NotTo(Equal(first))
		Expect(out).To(ContainSubstring("Follow it with: kubectl grapnel backup wait " + second))
		task(ctx, backupOperator, 0, "backup wait "+second+" --timeout 1m")
	})

	It("restores the newest one with the name of the Schedule", func(ctx context.Context) {
		Expect(task(ctx, restoreOperator, 0, "restore create ledger --from-schedule before-change --wait --timeout 1m")).
			To(ContainSubstring("Restore ledger: Completed"))
	})

	It("says why the operator refuses", func(ctx context.Context) {
		task(ctx, backupOperator, 0, "schedule create broken --schedule sometimes --include-namespaces ledger")
		o := grapnel(ctx, backupOperator, "", "schedule", "run", "broken", "--wait")
		Expect(o.code).To(Equal(1))
		Expect(o.err).To(And(ContainSubstring("the operator created no Backup of Schedule broken: the Schedule is invalid"), ContainSubstring("write five fields")))
	})

	It("says what is missing", func(ctx context.Context) {
		o := grapnel(ctx, viewer, "", strings.Fields(run)...)
		Expect(o.code).To(Equal(1))
		Expect(o.err).To(And(
			ContainSubstring(`"before-change" is forbidden: User "grapnel-viewer" cannot patch resource "schedules"`), ContainSubstring("grapnel-backup-operator")))
		Expect(grapnel(ctx, backupOperator, "", "schedule", "run", "before-chang").err).To(ContainSubstring("did you mean before-change?"))
	})
})
