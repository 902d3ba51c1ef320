// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/report"
	"github.com/grapnel-dev/grapnel/internal/results"
)

var update = flag.Bool("update", false, "write the files in testdata")

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// timestamp returns a time some seconds after noon.
func timestamp(seconds float64) *v1alpha1.MicroTime {
	t := v1alpha1.NewMicroTime(noon.Add(time.Duration(seconds * float64(time.Second))))
	return &t
}

// newStages returns stages, each of which ends when the next one begins.
func newStages(end float64, names []string, starts []float64) []v1alpha1.RunStage {
	stages := make([]v1alpha1.RunStage, len(names))
	for i := range stages {
		stages[i] = v1alpha1.RunStage{Name: names[i], StartTimestamp: *timestamp(starts[i]), CompletionTimestamp: timestamp(end)}
		if i > 0 {
			stages[i-1].CompletionTimestamp = timestamp(starts[i])
		}
	}
	return stages
}

// newBackupReport returns a report about a Backup with everything that a page can have.
func newBackupReport() *report.Report {
	b := &v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Name: "shop-nightly-20260102", CreationTimestamp: metav1.NewTime(noon)}}
	b.Spec = v1alpha1.BackupSpec{
		IncludedNamespaces: []v1alpha1.NamePattern{"shop", "shop-*"},
		LabelSelector:      &metav1.LabelSelector{MatchLabels: map[string]string{"app.kubernetes.io/part-of": "shop"}},
		TTL:                &metav1.Duration{Duration: 720 * time.Hour},
	}
	b.Status.Phase, b.Status.Message = v1alpha1.RunPhasePartiallyFailed, "2,841 objects are archived; 2 errors and 3 warnings"
	start, end := metav1.NewTime(noon.Add(4*time.Second)), metav1.NewTime(noon.Add(184*time.Second))
	expires := metav1.NewTime(noon.Add(720 * time.Hour))
	b.Status.StartTimestamp, b.Status.CompletionTimestamp, b.Status.Expiration, b.Status.StorageLocation = &start, &end, &expires, "main"
	b.Status.Progress = &v1alpha1.BackupProgress{TotalItems: 2843, ItemsBackedUp: 2841}
	b.Status.Operations = &v1alpha1.OperationCounts{Attempted: 40, Completed: 38, Failed: 2}
	b.Status.Errors, b.Status.Warnings = 2, 3
	b.Status.Timeline = newStages(190.4,
		[]string{"Queued", "Validating", "RunningPreBackupActions", "Archiving", "WaitingForPluginOperations", "Finalizing", "RunningPostBackupActions", "StoringLogs"},
		[]float64{0, 4, 4.3, 17.9, 61, 182, 184, 190})
	freeze := v1alpha1.HookRun{Spec: v1alpha1.HookRunSpec{
		Hook: v1alpha1.HookPreBackup, ActionName: "example.io/freeze", PluginRef: v1alpha1.PluginReference{Name: "postgres"},
	}}
	freeze.Status = v1alpha1.HookRunStatus{
		Phase: v1alpha1.HookRunPhaseCompleted, Message: "pg_backup_start succeeded in shop/db-0", Attempt: 2,
		Attempts: []v1alpha1.HookAttempt{
			{
				Number: 1, StartTimestamp: *timestamp(4.4), CompletionTimestamp: timestamp(14.4), Reason: v1alpha1.ReasonUnreachable,
				Message: "dial tcp 10.96.14.7:8443: connect: connection refused",
			},
			{Number: 2, StartTimestamp: *timestamp(16), CompletionTimestamp: timestamp(17.8)},
		},
		Outputs: map[string]v1alpha1.ParameterValue{"lsn": "0/3000148", "label": "grapnel-shop-nightly"},
	}
	thaw := v1alpha1.HookRun{Spec: v1alpha1.HookRunSpec{
		Hook: v1alpha1.HookPostBackup, ActionName: "example.io/freeze", PluginRef: v1alpha1.PluginReference{Name: "postgres"},
	}}
	thaw.Status = v1alpha1.HookRunStatus{
		Phase: v1alpha1.HookRunPhaseCompleted, Message: "Done", Attempt: 1,
		Attempts: []v1alpha1.HookAttempt{{Number: 1, StartTimestamp: *timestamp(184.1), CompletionTimestamp: timestamp(189.8)}},
	}
	return &report.Report{
		Kind: "Backup", Run: b, HookRuns: []v1alpha1.HookRun{freeze, thaw}, Operations: newOperations(40), Now: noon.Add(time.Hour), Version: "v1.2.3",
		Results: &results.Results{
			Objects: results.ResourceSummaries{
				{Resource: "configmaps", Objects: 412, Bytes: 1_204_121, Seconds: 3.271},
				{Resource: "customresourcedefinitions.apiextensions.k8s.io", Objects: 14, Bytes: 2_911_004, Seconds: 1.8},
				{Resource: "deployments.apps", Objects: 96, Bytes: 402_113, Seconds: 1.204},
				{Resource: "persistentvolumeclaims", Objects: 40, Bytes: 71_220, Seconds: 41.2},
				{Resource: "pods", Objects: 1804, Bytes: 18_120_004, Seconds: 12.75},
				{Resource: "secrets", Objects: 475, Bytes: 903_114, Seconds: 2.918},
			},
			Errors: results.Problems{
				{
					Subject: results.Subject{Resource: "persistentvolumeclaims", Namespace: "shop", Name: "data-3"}, Reason: results.ReasonOperationFailed,
					Message: "persistentvolumeclaims shop/data-3: example.io/move failed: the snapshot class csi-fast does not exist",
				},
				{
					Subject: results.Subject{Resource: "persistentvolumeclaims", Namespace: "shop", Name: "data-17"}, Reason: results.ReasonOperationFailed,
					Message: "persistentvolumeclaims shop/data-17: example.io/move failed: the snapshot class csi-fast does not exist",
				},
			},
			Warnings: results.Problems{
				{Reason: results.ReasonNoMatch, Message: "spec.includedNamespaces: no namespace matches shop-*"},
				{
					Subject: results.Subject{Resource: "events"}, Reason: results.ReasonNotServed, Message: "the cluster no longer serves this kind",
				},
				{
					Subject: results.Subject{Resource: "pods", Namespace: "shop", Name: "web-7d9c8b5c4-x2x5v"}, Reason: results.ReasonBeingDeleted,
					Message: "pods shop/web-7d9c8b5c4-x2x5v was being deleted",
				},
			},
		},
	}
}

// newOperations returns operations, of which the fourth and the eighteenth failed.
func newOperations(n int) []v1alpha1.AsyncOperation {
	operations := make([]v1alpha1.AsyncOperation, n)
	for i := range operations {
		o := &operations[i]
		o.Name = fmt.Sprintf("operation-%02d", i)
		o.Spec.ActionName, o.Spec.Item = "example.io/move", v1alpha1.OperationItem{Resource: "persistentvolumeclaims", Namespace: "shop", Name: fmt.Sprint("data-", i)}
		o.Status.Phase, o.Status.Message = v1alpha1.AsyncOperationPhaseCompleted, "Done"
		o.Status.StartTimestamp, o.Status.CompletionTimestamp = timestamp(20+float64(i)), timestamp(80+2.5*float64(i))
		if i == 3 || i == 17 {
			o.Status.Phase, o.Status.Message = v1alpha1.AsyncOperationPhaseFailed, "the snapshot class csi-fast does not exist"
			o.Status.CompletionTimestamp = timestamp(22 + float64(i))
			o.Status.Progress = &v1alpha1.AsyncOperationProgress{Summary: "0 of 10 GiB"}
		}
	}
	return operations
}

// newRestoreReport returns a report about a running Restore, whose results were not read.
func newRestoreReport() *report.Report {
	r := &v1alpha1.Restore{ObjectMeta: metav1.ObjectMeta{Name: "shop-copy", CreationTimestamp: metav1.NewTime(noon)}}
	r.Spec = v1alpha1.RestoreSpec{BackupName: "shop-1", NamespaceMapping: map[string]v1alpha1.NamespaceName{"shop": "copy"}, DryRun: true}
	r.Status.Phase, r.Status.Message = v1alpha1.RunPhaseInProgress, "Restoring objects"
	start := metav1.NewTime(noon)
	r.Status.StartTimestamp, r.Status.Attempts, r.Status.Warnings = &start, 2, 7
	r.Status.Progress = &v1alpha1.RestoreProgress{TotalItems: 90, ItemsRestored: 31}
	r.Status.Problems = []v1alpha1.Problem{{Severity: v1alpha1.ProblemSeverityWarning, Reason: "ItemDiffers", Resource: "secrets", Namespace: "copy", Name: "db", Message: "it differs from the backup"}}
	r.Status.Timeline = newStages(0, []string{"Queued", "VerifyingArchive", "Restoring"}, []float64{0, 0.2, 3})
	r.Status.Timeline[2].CompletionTimestamp = nil
	return &report.Report{
		Kind: "Restore", Run: r, Now: noon.Add(20 * time.Second), Version: "v1.2.3",
		Note: "The report has no objects by kind, and only the first problems: the results are stored when the run ends.",
	}
}

// newOutcomesReport returns a report about a Restore with the outcomes of its objects.
func newOutcomesReport() *report.Report {
	r := newRestoreReport()
	r.Note = ""
	r.Results = &results.Results{Objects: results.ResourceSummaries{
		{Resource: "configmaps", Objects: 31, Bytes: 9_000, Seconds: 0.2, Outcomes: map[string]int{"created": 12, "unchanged": 19}},
		{Resource: "deployments.apps", Objects: 9, Bytes: 40_000, Seconds: 0.3, Outcomes: map[string]int{"created": 4, "failed": 3, "skipped": 1, "updated": 1}},
	}}
	return r
}

// hostile is a text that would change the page.
const hostile = "\"'><script>alert(1)</script></title></style><style>*{background:url(//evil)}</style>\x1b[31m\u202e\x00\uffff\xff&<!--"

// newHostileReport returns a report with such a text wherever one is possible.
func newHostileReport() *report.Report {
	written := newBackupReport()
	b := written.Run.(*v1alpha1.Backup)
	b.Name, b.Spec.StorageLocation, b.Status.Phase, b.Status.Message = hostile, hostile, hostile, hostile
	b.Status.ValidationErrors, b.Status.StorageLocation = []string{hostile}, hostile
	b.Status.Timeline[0].Name = hostile
	written.Note, written.Version, written.Kind = hostile, hostile, hostile
	h := &written.HookRuns[0]
	h.Spec.ActionName, h.Spec.PluginRef.Name, h.Spec.Hook = hostile, hostile, hostile
	h.Status.Phase, h.Status.Message, h.Status.Outputs = hostile, hostile, map[string]v1alpha1.ParameterValue{hostile: hostile}
	h.Status.Attempts[0].Reason, h.Status.Attempts[0].Message = hostile, hostile
	o := &written.Operations[3]
	o.Spec.ActionName, o.Spec.Item.Name, o.Status.Message, o.Status.Progress = hostile, hostile, hostile, &v1alpha1.AsyncOperationProgress{Summary: hostile}
	written.Results.Objects = results.ResourceSummaries{{Resource: hostile, Objects: -1, Bytes: -1, Seconds: 1e300, Outcomes: map[string]int{hostile: -5}}}
	written.Results.Errors[0] = results.Problem{Subject: results.Subject{Resource: hostile, Namespace: hostile, Name: hostile}, Reason: hostile, Message: hostile}
	return written
}

func TestReport_Write(t *testing.T) {
	for name, written := range map[string]*report.Report{
		"backup": newBackupReport(), "restore": newRestoreReport(), "outcomes": newOutcomesReport(), "hostile": newHostileReport(),
	} {
		t.Run(name, func(t *testing.T) {
			var page strings.Builder
			if err := written.Write(&page); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("testdata", name+".html")
			if *update {
				if err := os.WriteFile(path, []byte(page.String()), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), page.String()); diff != "" {
				t.Errorf("%s; go test -update writes the file (-want +got):\n%s", path, diff)
			}
		})
	}
}

// TestReport_Write_Hostile checks that texts do not change the page.
func TestReport_Write_Hostile(t *testing.T) {
	written := newHostileReport()
	var page strings.Builder
	if err := written.Write(&page); err != nil {
		t.Fatal(err)
	}
	html := page.String()
	for _, forbidden := range []string{"<script", "<!--", "\x1b", "\u202e", "\x00", "\uffff", "\xff", "ZgotmplZ", "javascript:"} {
		if strings.Contains(html, forbidden) {
			t.Errorf("the page has %q", forbidden)
		}
	}
	for tag, want := range map[string]int{"</title>": strings.Count(html, "<title"), "<style>": 2, "<h1>": 1, "</html>": 1} {
		if got := strings.Count(html, tag); got != want {
			t.Errorf("the page has %d × %s, want %d", got, tag, want)
		}
	}
}

// TestReport_Write_ManyProblems lists the first problems of many, the errors before the warnings.
func TestReport_Write_ManyProblems(t *testing.T) {
	for name, tc := range map[string]struct {
		errors, warnings int
		counted          int64
		want             string
	}{
		"all":                  {errors: 400, warnings: 600, counted: 400},
		"one more":             {errors: 400, warnings: 601, counted: 400, want: "and 1 more<"},
		"only errors":          {errors: 1200, warnings: 10, counted: 1200, want: "and 210 more<"},
		"dropped by the run":   {errors: 2, counted: 30, want: "and 28 more<"},
		"a count that is less": {errors: 3, counted: 1},
	} {
		t.Run(name, func(t *testing.T) {
			written := newBackupReport()
			status := written.Run.Run()
			status.Errors, status.Warnings = tc.counted, int64(tc.warnings)
			written.Results.Errors = make(results.Problems, tc.errors)
			written.Results.Warnings = make(results.Problems, tc.warnings)
			for i := range written.Results.Errors {
				written.Results.Errors[i].Message = strings.Repeat("x", 5000)
			}
			var page strings.Builder
			if err := written.Write(&page); err != nil {
				t.Fatal(err)
			}
			if listed := strings.Count(page.String(), `<div class="title"><span class="badge Error">`); listed != min(tc.errors, 1000) {
				t.Errorf("%d errors are listed", listed)
			}
			if strings.Contains(page.String(), strings.Repeat("x", 4097)) {
				t.Error("a message is not cut")
			}
			if more := strings.Contains(page.String(), " more</li>"); more != (tc.want != "") || !strings.Contains(page.String(), tc.want) {
				t.Errorf("the page has no %q", tc.want)
			}
		})
	}
}

// failingWriter is a full disk.
type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestReport_Write_Error(t *testing.T) {
	if err := newBackupReport().Write(failingWriter{}); err == nil {
		t.Error("no error")
	}
}
