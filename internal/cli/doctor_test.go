// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// breakInstallation changes a good installation to one that has many problems.
func breakInstallation(f *fakeCluster) {
	velero := schema.GroupVersion{Group: "velero.io", Version: "v1"}
	f.answers["/apis"] = object{"kind": "APIGroupList", "apiVersion": "v1", "groups": []any{newGroup(v1alpha1.GroupVersion), newGroup(velero)}}
	f.answers["/apis/velero.io/v1"] = newAPIs(velero, "backups", "restores")
	f.answers[grapnelPath+"/plugins"] = newList("Plugin", v1alpha1.GroupVersion, object{
		"metadata": object{"name": "freeze", "creationTimestamp": timeAgo(time.Hour)},
		"status": object{
			"message":    "the program exits\u001b[2J at once",
			"conditions": []any{object{"type": "Ready", "status": "False", "reason": "ExitedAtOnce"}},
		},
	})
	f.answers[namespacedPath+"/backupstoragelocations"] = newList("BackupStorageLocation", v1alpha1.GroupVersion)
	f.answers[namespacedPath+"/schedules"] = newList("Schedule", v1alpha1.GroupVersion, object{
		"metadata": object{"name": "nightly", "creationTimestamp": timeAgo(1000 * time.Hour)},
		"spec":     object{"schedule": "@daily"}, "status": object{"lastBackup": "nightly-1"},
	})
	f.answers[namespacedPath+"/backups"] = newList("Backup", v1alpha1.GroupVersion, object{
		"metadata": object{"name": "nightly-1", "creationTimestamp": timeAgo(time.Hour)},
		"status": object{"phase": "FailedPreBackupActions", "conditions": []any{
			object{"type": "CleanupOwed", "status": "True", "reason": "CleanupOverdue", "message": "thaw failed"},
		}},
	})
	f.answers[corePath+"/services/grapnel-downloads"] = nil
	delete(f.answers, "/apis/coordination.k8s.io/v1/namespaces/grapnel-system/leases/operator.grapnel.dev")
}

// TestDoctor compares what doctor prints with golden files. Durations depend on the time.
func TestDoctor(t *testing.T) {
	for name, tc := range map[string]struct {
		prepare func(*fakeCluster)
		version string
		args    string
		code    int
	}{
		"good.txt":    {prepare: func(*fakeCluster) {}, version: "v1.2.3"},
		"good.json":   {prepare: func(*fakeCluster) {}, version: "v1.2.3", args: "-o json"},
		"warning.txt": {prepare: func(*fakeCluster) {}, version: "v1.1.0", code: exitPartialFailure},
		"bad.txt":     {prepare: breakInstallation, version: "v1.2.3", code: exitFailure},
		"bad.yaml":    {prepare: breakInstallation, version: "v1.2.3", args: "-o yaml", code: exitFailure},
		"none.txt": {prepare: func(f *fakeCluster) {
			f.answers["/apis"] = object{"kind": "APIGroupList", "apiVersion": "v1", "groups": []any{}}
		}, version: "v1.2.3", code: exitFailure},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeCluster()
			tc.prepare(f)
			code, out, errOut := f.run(t, tc.version, append([]string{"doctor"}, strings.Fields(tc.args)...)...)
			if code != tc.code || errOut != "" {
				t.Errorf("exit code %d, want %d; %s", code, tc.code, errOut)
			}
			compareGolden(t, "doctor-"+name, regexp.MustCompile(`\b(\d+h)?\d+m\d+s\b`).ReplaceAllString(out, "DURATION"))
		})
	}
}

func TestDoctor_Errors(t *testing.T) {
	f := newFakeCluster()
	for p := range f.answers {
		if strings.HasPrefix(p, namespacedPath) {
			delete(f.answers, p)
		}
	}
	if code, out, errOut := f.run(t, "v1", "doctor"); code != exitFailure || out != "" || !strings.Contains(errOut, "one of the roles grapnel-viewer") {
		t.Errorf("without rights: exit code %d\n%s%s", code, out, errOut)
	}
	if code, out, errOut := f.run(t, "v1", "doctor", "-o", "xml"); code != exitFailure || out != "" || !strings.Contains(errOut, "use table, json or yaml") {
		t.Errorf("an unknown format: exit code %d\n%s%s", code, out, errOut)
	}
	if code, out, errOut := runOffline(t, "doctor"); code != exitFailure || out != "" || !strings.Contains(errOut, "cannot be reached") {
		t.Errorf("no API server: exit code %d\n%s%s", code, out, errOut)
	}
}
