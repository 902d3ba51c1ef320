// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// TestPrintPreview compares the plan of a Backup as it is printed, and its exit code.
func TestPrintPreview(t *testing.T) {
	timeout := &metav1.Duration{Duration: 10 * time.Minute}
	for name, tc := range map[string]struct {
		status v1alpha1.BackupPreviewStatus
		code   int
		want   string
	}{
		"hooks and objects": {
			status: v1alpha1.BackupPreviewStatus{
				Phase: v1alpha1.RunPhasePartiallyFailed, Message: "A Backup would archive 302 objects, with 1 error: namespace \"shopp\" does not exist",
				StorageLocation: "main", ArchiveBytes: 40 << 10, Objects: 302, Errors: 1,
				Actions: []v1alpha1.PreviewedAction{
					{Hook: v1alpha1.HookPreBackup, ActionName: "example.io/freeze", Plugin: "shop", Timeout: timeout, Retries: 2},
					{ActionName: "example.io/snapshot", Plugin: "storage", Timeout: timeout},
					{Hook: v1alpha1.HookPostBackup, ActionName: "example.io/freeze", Plugin: "shop", Timeout: timeout, Owed: true},
					{Hook: v1alpha1.HookPostBackup, ActionName: "example.io/notify", Plugin: "shop", Timeout: timeout, RunOn: []v1alpha1.Outcome{"Failed", "PartiallyFailed"}},
					{Hook: v1alpha1.HookPostBackup, ActionName: "example.io/audit\x1b[2J", Skipped: "by annotation"},
				},
				Resources: []v1alpha1.PreviewedResource{
					{Resource: "configmaps", Objects: 2, Bytes: 900}, {Resource: "pods", Objects: 300, Bytes: 3 << 20},
				},
				Problems: []v1alpha1.Problem{{Severity: v1alpha1.ProblemSeverityError, Reason: "NamespaceNotFound", Message: "namespace \"shopp\" does not exist"}},
			},
			code: exitPartialFailure,
			want: `HOOK        ACTION               PLUGIN   TIMEOUT  NOTE
PreBackup   example.io/freeze    shop     10m0s    2 retries
PerObject   example.io/snapshot  storage  10m0s
PostBackup  example.io/freeze    shop     10m0s    runs whatever happens
PostBackup  example.io/notify    shop     10m0s    only after Failed or PartiallyFailed
PostBackup  example.io/audit[2J                    skipped: by annotation

RESOURCE    OBJECTS  SIZE
pods        300      3.0 MiB
configmaps  2        900 B

The archive in main would have about 40 KiB.
Plan: PartiallyFailed (A Backup would archive 302 objects, with 1 error: namespace "shopp" does not exist)
  Error NamespaceNotFound: namespace "shopp" does not exist
`,
		},
		"an invalid spec": {
			status: v1alpha1.BackupPreviewStatus{
				Phase: v1alpha1.RunPhaseFailedValidation, Message: "The Backup would fail validation with 2 problems, the first: one",
				ValidationErrors: []string{"one", "two"},
			},
			code: exitFailure,
			want: "Plan: FailedValidation (The Backup would fail validation with 2 problems, the first: one)\n  one\n  two\n",
		},
		"nothing to do": {
			status: v1alpha1.BackupPreviewStatus{Phase: v1alpha1.RunPhaseCompleted, Message: "A Backup would archive 0 objects"},
			want:   "Plan: Completed (A Backup would archive 0 objects)\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			a := &app{out: newTerminal(&out)}
			err := a.printPreview(&v1alpha1.BackupPreview{Status: tc.status}, outputFlag{format: outputTable})
			code := exitSuccess
			if exit, ok := errors.AsType[*exitError](err); ok {
				code = exit.code
			}
			if code != tc.code {
				t.Errorf("exit code %d (%v), want %d", code, err, tc.code)
			}
			if diff := cmp.Diff(tc.want, out.String()); diff != "" {
				t.Errorf("output (-want +got):\n%s", diff)
			}
		})
	}
}
