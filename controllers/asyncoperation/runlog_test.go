// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package asyncoperation_test

import (
	"io"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/controllers/asyncoperation"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/internal/runlog"
)

// readRunLog returns the log of a Backup; "" if there is none.
func readRunLog(t testing.TB, logs *runlog.Store, b *v1alpha1.Backup) string {
	t.Helper()
	log, err := logs.OpenReader(string(b.UID), runlog.Main)
	if err != nil {
		t.Fatal(err)
	}
	if log == nil {
		return ""
	}
	defer func() { _ = log.Close() }()
	content, err := io.ReadAll(log)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

var _ = Describe("What a plugin logs about an operation", Label("operations"), func() {
	It("is in the log of the run, as long as that is open", func() {
		t := GinkgoTB()
		env := cluster.NewEnv(t)
		logs, err := runlog.New(t.TempDir(), redact.New("hunter22"), logr.Discard())
		Expect(err).NotTo(HaveOccurred())
		logged, stored := backup(env), backup(env)
		logs.Open(string(logged.UID), runlog.Main)
		op, late := begin(env, logged), begin(env, stored)
		operator(t, env, stoppable(), func(r *asyncoperation.Reconciler) { r.Logs = logs })
		await(env, op, v1alpha1.AsyncOperationPhaseInProgress)
		await(env, late, v1alpha1.AsyncOperationPhaseInProgress)
		env.Delete(op)
		await(env, op, v1alpha1.AsyncOperationPhaseCancelled)

		text := readRunLog(t, logs, logged)
		for _, line := range []string{"Reading the progress with", "Stopping the copy"} {
			_, rest, found := strings.Cut(text, line)
			fields, _, _ := strings.Cut(rest, "\n")
			Expect(found).To(BeTrue(), "the log lacks the line %q:\n%s", line, text)
			Expect(fields).To(ContainSubstring("plugin=example action=example.io/copy operation=" + op.Name))
		}
		Expect(text).NotTo(ContainSubstring("hunter22"))
		Expect(readRunLog(t, logs, stored)).To(BeEmpty(), "a log that nobody stores or removes")
	})
})
