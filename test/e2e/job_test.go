// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"regexp"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// script is a Plugin whose Jobs run a shell script, for Backups and Restores with a label.
func script(label, kind, action, script string, more ...string) string {
	text := fmt.Sprintf(`
executor:
  job:
    image: %s
    command: [sh, -c, %q]
actions:
  - name: %s
    kind: %s
    selector: {matchLabels: {story: %s}}
`, busyboxImage, script, action, kind, label)
	for _, line := range more {
		text += "    " + line + "\n"
	}
	return text
}

func describeJobs() {
	It("runs a script as a Job around a Backup", func(ctx SpecContext) {
		c.createNamespace(ctx, "jobs")
		c.kubectl(ctx, "create", "configmap", "settings", "-n", "jobs", "--from-literal=a=b")
		c.plugin(ctx, "script", fmt.Sprintf(`
executor:
  job:
    image: %s
actions:
  - name: e2e.example.io/script
    kind: PreBackupAction
    selector: {matchLabels: {story: jobs}}
    command:
      - sh
      - -ec
      - |
        echo "hello from $GRAPNEL_POINT, attempt $GRAPNEL_ATTEMPT"
        grep -q '"name":"with-job"' "$GRAPNEL_SUBJECT_FILE"
        echo '{"message":"told '"$GRAPNEL_PARAM_GREETING"'","outputs":{"answer":"42"}}' > /dev/termination-log
  - name: e2e.example.io/script
    kind: PostBackupAction
    selector: {matchLabels: {story: jobs}}
    command: [sh, -ec, 'grep -q 42 "$GRAPNEL_OUTPUTS_FILE"; echo all of it seen > /dev/termination-log']
`, busyboxImage))
		jobs := c.created(ctx, &batchv1.JobList{}, client.InNamespace(namespace))

		c.backup(ctx, "with-job", "jobs", "jobs", "parameters: {e2e.example.io/script: {greeting: 'twice $(date)'}}")
		b := c.backupEnds(ctx, "with-job", v1alpha1.RunPhaseCompleted)

		By("telling what the script said, and not running what a parameter says")
		run := c.hookRun(ctx, b, v1alpha1.HookPreBackup, "e2e.example.io/script")
		Expect(run.Status.Message).To(Equal("told twice $(date)"))
		Expect(run.Status.Outputs).To(HaveKeyWithValue("answer", v1alpha1.ParameterValue("42")))
		post := c.hookRun(ctx, b, v1alpha1.HookPostBackup, "e2e.example.io/script")
		Expect(post.Status.Message).To(Equal("all of it seen"))
		By("having what it printed in the log of the Backup")
		Expect(c.backupLog(ctx, "with-job")).To(MatchRegexp("hello from PreBackup, attempt 1"))
		By("having started each Job once, and leaving none")
		Expect(jobs()).To(HaveLen(2))
		Eventually(ctx, func() (string, error) {
			return c.try(ctx, "get", "jobs,pods,secrets", "-n", namespace, "-l", "grapnel.dev/plugin=script", "-o", "name")
		}).Should(BeEmpty())
	}, SpecTimeout(minutes(4)))

	It("says why a script failed", func(ctx SpecContext) {
		c.createNamespace(ctx, "failing")
		c.plugin(ctx, "failing", script("failing", "PreBackupAction", "e2e.example.io/failing", "echo the disk is full; exit 3"))
		c.backup(ctx, "fails", "failing", "failing")
		b := c.backupEnds(ctx, "fails", v1alpha1.RunPhaseFailedPreBackupActions)
		Expect(b.Status.Message).To(MatchRegexp(regexp.QuoteMeta("the disk is full")))
	}, SpecTimeout(minutes(3)))
}
