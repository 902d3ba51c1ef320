// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// absent is the value of a metric that must not be there.
const absent = -1

// metrics returns what an operator measured, by name with labels.
func metrics(t *testing.T, s *site) map[string]float64 {
	t.Helper()
	resp, err := http.Get(s.op.MetricsURL())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	values := map[string]float64{}
	for scanner := bufio.NewScanner(resp.Body); scanner.Scan(); {
		line := scanner.Text()
		end := strings.LastIndexByte(line, ' ')
		if strings.HasPrefix(line, "#") || end < 0 {
			continue
		}
		value, err := strconv.ParseFloat(line[end+1:], 64)
		if err != nil {
			t.Fatal(err)
		}
		values[line[:end]] = value
	}
	return values
}

// metric waits until a metric has a value. Nobody tells when it changes, so that it is
// asked for again and again.
func metric(t *testing.T, s *site, name string, want float64) {
	t.Helper()
	var got float64
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		value, there := metrics(t, s)[name]
		if !there {
			value = absent
		}
		got = value
		return got == want, nil
	})
	if err != nil {
		t.Fatalf("%s is %v, want %v (%v stands for none): %v", name, got, want, absent, err)
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	app := newApp(t, 2)

	completed := s.backupOf(app)
	completed.Labels = use(pair)
	completed.Labels[v1alpha1.LabelScheduleName] = "nightly"
	completed = outcome(t, s.apply(t, completed), v1alpha1.BackupPhaseCompleted)
	failed := s.backupOf(app)
	failed.Labels = use(preFails)
	outcome(t, s.apply(t, failed), v1alpha1.BackupPhaseFailedPreBackupActions)
	invalid := s.backupOf(app)
	invalid.Spec.ExcludedNamespaces = invalid.Spec.IncludedNamespaces
	outcome(t, s.apply(t, invalid), v1alpha1.BackupPhaseFailedValidation)
	stopped := s.backupOf(app)
	stopped.Labels = use(preHolds)
	s.apply(t, stopped)
	awaitCall(t, stopped, v1alpha1.HookPreBackup, preHolds)
	metric(t, s, fmt.Sprintf(`grapnel_backup_cleanup_owed{backup=%q,namespace=%q,overdue="false"}`, stopped.Name, s.namespace), 1)
	cancelBackup(t, stopped)
	outcome(t, stopped, v1alpha1.BackupPhaseCancelled)

	items := float64(completed.Status.Progress.ItemsBackedUp)
	for name, want := range map[string]float64{
		`grapnel_backup_attempt_total{schedule="nightly"}`:                                                            1,
		`grapnel_backup_attempt_total{schedule=""}`:                                                                   2,
		`grapnel_backup_success_total{schedule="nightly"}`:                                                            1,
		`grapnel_backup_success_total{schedule=""}`:                                                                   absent,
		`grapnel_backup_failure_total{schedule=""}`:                                                                   1,
		`grapnel_backup_validation_failure_total{schedule=""}`:                                                        1,
		`grapnel_backup_cancelled_total{schedule=""}`:                                                                 1,
		`grapnel_backup_partial_failure_total{schedule=""}`:                                                           absent,
		`grapnel_backup_items_total{schedule="nightly"}`:                                                              items,
		`grapnel_backup_duration_seconds_count{schedule="nightly"}`:                                                   1,
		`grapnel_backup_duration_seconds_count{schedule=""}`:                                                          2,
		`grapnel_backup_last_successful_timestamp{schedule="nightly"}`:                                                float64(completed.Status.StartTimestamp.Unix()),
		`grapnel_backup_total{phase="Completed"}`:                                                                     1,
		`grapnel_backup_total{phase="FailedPreBackupActions"}`:                                                        1,
		`grapnel_backup_total{phase="FailedValidation"}`:                                                              1,
		`grapnel_backup_total{phase="Cancelled"}`:                                                                     1,
		fmt.Sprintf(`grapnel_hook_runs_total{plugin=%q,point="PreBackup",result="Completed"}`, pair):                  1,
		fmt.Sprintf(`grapnel_hook_runs_total{plugin=%q,point="PostBackup",result="Completed"}`, pair):                 1,
		fmt.Sprintf(`grapnel_hook_runs_total{plugin=%q,point="PreBackup",result="Failed"}`, preFails):                 1,
		fmt.Sprintf(`grapnel_hook_runs_total{plugin=%q,point="PreBackup",result="Cancelled"}`, preHolds):              1,
		fmt.Sprintf(`grapnel_hook_runs_total{plugin=%q,point="PostBackup",result="Completed"}`, preHolds):             1,
		fmt.Sprintf(`grapnel_backup_cleanup_owed{backup=%q,namespace=%q,overdue="false"}`, stopped.Name, s.namespace): absent,
	} {
		metric(t, s, name, want)
	}
	if size := metrics(t, s)[`grapnel_backup_tarball_size_bytes{schedule="nightly"}`]; size <= 0 {
		t.Errorf("the archive has %v bytes", size)
	}
}

func TestOverdueCleanupIsMeasured(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	b, _, _ := brokenCleanup(t, s)
	name := fmt.Sprintf(`grapnel_backup_cleanup_owed{backup=%q,namespace=%q,overdue="true"}`, b.Name, s.namespace)
	metric(t, s, name, 1)
	patch(t, b, `{"metadata":{"annotations":{"`+v1alpha1.AnnotationAbandonCleanup+`":"true"}}}`)
	outcome(t, b, v1alpha1.BackupPhaseCompleted)
	metric(t, s, name, absent)
}
