// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backupimport_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/backupimport"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/storage"
)

var source = backupimport.Source{
	Namespace: "grapnel-system", Location: "main", Prefix: "clusters/east", Name: "nightly",
	Redact: func(text string) string { return strings.ReplaceAll(text, "hunter22", "***") },
}

// ofGrapnel is a manifest as internal/backup writes it.
const ofGrapnel = `{
	"apiVersion": "velero.io/v1", "kind": "Backup",
	"metadata": {
		"name": "nightly", "namespace": "grapnel-system", "uid": "u-1", "creationTimestamp": "2026-11-21T04:00:00Z",
		"labels": {"team": "shop", "velero.io/storage-location": "theirs", "grapnel.dev/schedule-name": "nightly", "argocd.argoproj.io/instance": "apps"},
		"annotations": {"why": "because", "grapnel.dev/abandon-data": "true", "grapnel.dev/scheduled-time": "2026-11-21T04:00:00Z"}
	},
	"spec": {
		"includedNamespaces": ["shop"], "ttl": "720h0m0s", "storageLocation": "theirs", "deletionPolicy": "Delete", "desiredState": "Cancel",
		"itemOperationTimeout": "1h30m0s", "labelSelector": {"matchLabels": {"app": "db"}}, "parameters": {"example.io/freeze": {"wait": "yes"}}
	},
	"status": {
		"version": 1, "formatVersion": "1.1.0", "phase": "PartiallyFailed", "errors": 1, "warnings": 2,
		"startTimestamp": "2026-11-21T04:00:00Z", "completionTimestamp": "2026-11-21T04:01:30Z",
		"progress": {"totalItems": 3, "itemsBackedUp": 3},
		"backupItemOperationsAttempted": 3, "backupItemOperationsCompleted": 2, "backupItemOperationsFailed": 1
	}
}`

// ofVelero is what a Velero server writes.
const ofVelero = `{
	"kind": "Backup", "apiVersion": "velero.io/v1",
	"metadata": {
		"name": "nightly", "namespace": "velero", "uid": "v-1", "resourceVersion": "12", "generation": 5,
		"creationTimestamp": "2025-01-02T03:04:05Z",
		"labels": {"velero.io/schedule-name": "daily", "velero.io/storage-location": "default", "app.kubernetes.io/managed-by": "Helm"},
		"annotations": {
			"kubectl.kubernetes.io/last-applied-configuration": "{}", "velero.io/resource-timeout": "10m0s",
			"velero.io/source-cluster-k8s-gitversion": "v1.31.0"
		},
		"managedFields": [{"manager": "velero"}]
	},
	"spec": {
		"metadata": {}, "includedNamespaces": ["*"], "ttl": "720h0m0s", "includeClusterResources": null, "hooks": {"resources": null},
		"storageLocation": "default", "volumeSnapshotLocations": ["default"], "defaultVolumesToFsBackup": false,
		"csiSnapshotTimeout": "10m0s", "itemOperationTimeout": "4h0m0s", "snapshotMoveData": false
	},
	"status": {
		"version": 1, "formatVersion": "1.1.0", "expiration": "2025-02-01T03:04:05Z", "phase": "Completed",
		"startTimestamp": "2025-01-02T03:04:05Z", "completionTimestamp": "2025-01-02T03:05:00Z",
		"progress": {"totalItems": 1, "itemsBackedUp": 1}, "hookStatus": {}
	}
}`

func at(text string) *metav1.Time {
	var t metav1.Time
	if err := json.Unmarshal([]byte(`"`+text+`"`), &t); err != nil {
		panic(err)
	}
	return &t
}

func TestBackupFromManifest_Grapnel(t *testing.T) {
	grapnel := &storage.GrapnelManifest{BackupUID: "u-1", Files: map[storage.File]storage.Digest{
		storage.Contents: {}, storage.Results: {},
	}}
	got, err := backupimport.BackupFromManifest(source, []byte(ofGrapnel), grapnel)
	if err != nil {
		t.Fatal(err)
	}
	message := "3 objects in the archive, 1 error, 2 warnings; found in BackupStorageLocation main"
	want := &v1alpha1.Backup{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "grapnel-system", Name: "nightly",
			Labels:      map[string]string{"team": "shop", backupimport.LabelSchedule: "nightly"},
			Annotations: map[string]string{"why": "because"},
		},
		Spec: v1alpha1.BackupSpec{
			IncludedNamespaces: []v1alpha1.NamePattern{"shop"}, StorageLocation: "main", DeletionPolicy: v1alpha1.DeletionPolicyRetain,
			ItemOperationTimeout: &metav1.Duration{Duration: 90 * 60 * 1e9},
			LabelSelector:        &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}},
			Parameters:           map[string]v1alpha1.ParameterSet{"example.io/freeze": {"wait": "yes"}},
			ImportedFrom:         &v1alpha1.ImportSource{StorageLocation: "main", BackupUID: "u-1"},
		},
		Status: v1alpha1.BackupStatus{
			Phase: v1alpha1.RunPhasePartiallyFailed, StorageLocation: "main", FormatVersion: "1.1.0",
			Progress: &v1alpha1.BackupProgress{TotalItems: 3, ItemsBackedUp: 3},
			Files: &v1alpha1.BackupFiles{
				Archive: "clusters/east/backups/nightly/nightly.tar.gz", Results: "clusters/east/backups/nightly/nightly-results.gz",
			},
			RunStatus: v1alpha1.RunStatus{
				Message: message, Warnings: 2, Errors: 1,
				StartTimestamp: at("2026-11-21T04:00:00Z"), CompletionTimestamp: at("2026-11-21T04:01:30Z"),
				Operations: &v1alpha1.OperationCounts{Attempted: 3, Completed: 2, Failed: 1, Percent: 100},
				Conditions: []metav1.Condition{
					{Type: "Succeeded", Status: "False", Reason: "PartiallyFailed", Message: message},
					{Type: "Ready", Status: "False", Reason: "Imported", Message: message},
					{Type: "Reconciling", Status: "False", Reason: "Imported", Message: message},
					{Type: "Stalled", Status: "True", Reason: "Imported", Message: message},
				},
			},
		},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(metav1.Condition{}, "LastTransitionTime")); diff != "" {
		t.Errorf("the Backup (-want +got):\n%s", diff)
	}
}

func TestBackupFromManifest_Velero(t *testing.T) {
	got, err := backupimport.BackupFromManifest(source, []byte(ofVelero), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := &v1alpha1.Backup{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "grapnel-system", Name: "nightly", Labels: map[string]string{"velero.io/schedule-name": "daily"},
			Annotations: map[string]string{"velero.io/source-cluster-k8s-gitversion": "v1.31.0"},
		},
		Spec: v1alpha1.BackupSpec{
			IncludedNamespaces: []v1alpha1.NamePattern{"*"}, StorageLocation: "main", DeletionPolicy: v1alpha1.DeletionPolicyRetain,
			ItemOperationTimeout: &metav1.Duration{Duration: 4 * 3600 * 1e9}, Metadata: &v1alpha1.BackupMetadata{},
			ImportedFrom: &v1alpha1.ImportSource{StorageLocation: "main", BackupUID: "v-1"},
		},
		Status: v1alpha1.BackupStatus{
			Phase: v1alpha1.RunPhaseCompleted, StorageLocation: "main", FormatVersion: "1.1.0", Expiration: at("2025-02-01T03:04:05Z"),
			Progress: &v1alpha1.BackupProgress{TotalItems: 1, ItemsBackedUp: 1},
			Files: &v1alpha1.BackupFiles{
				Archive: "clusters/east/backups/nightly/nightly.tar.gz", Log: "clusters/east/backups/nightly/nightly-logs.gz",
				Results: "clusters/east/backups/nightly/nightly-results.gz",
			},
			RunStatus: v1alpha1.RunStatus{
				Message:        "1 object in the archive; found in BackupStorageLocation main",
				StartTimestamp: at("2025-01-02T03:04:05Z"), CompletionTimestamp: at("2025-01-02T03:05:00Z"),
			},
		},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(v1alpha1.RunStatus{}, "Conditions")); diff != "" {
		t.Errorf("the Backup (-want +got):\n%s", diff)
	}
	if !conditions.IsTrue(got, "Succeeded") || !conditions.IsTrue(got, "Ready") || conditions.IsTrue(got, "Stalled") {
		t.Errorf("the conditions are %+v", got.Status.Conditions)
	}
}

// manifest returns a short manifest.
func manifest(status string) string {
	return `{"kind":"Backup","metadata":{"name":"nightly","uid":"v-1"},"status":` + status + `}`
}

const ended = `"completionTimestamp":"2025-01-02T03:05:00Z"`

func TestBackupFromManifest_Phases(t *testing.T) {
	open := []string{
		"New", "Queued", "ReadyToStart", "InProgress", "Uploading", "UploadingPartialFailure", "Deleting", "WaitingForPluginOperations",
		"WaitingForPluginOperationsPartiallyFailed", "Finalizing", "FinalizingPartiallyFailed",
	}
	for _, phase := range open {
		if got, err := backupimport.BackupFromManifest(source, []byte(manifest(`{"phase":"`+phase+`"}`)), nil); got != nil || err != nil {
			t.Errorf("%s: %v, %v, want neither", phase, got, err)
		}
	}
	for _, phase := range []string{"Completed", "PartiallyFailed", "Failed", "FailedValidation"} {
		got, err := backupimport.BackupFromManifest(source, []byte(manifest(`{`+ended+`,"phase":"`+phase+`","failureReason":"no\nhunter22"}`)), nil)
		if err != nil || string(got.Status.Phase) != phase || conditions.Get(got, "Succeeded").Reason != phase {
			t.Errorf("%s: %+v, %v", phase, got, err)
			continue
		}
		if files := got.Status.Files != nil; files != strings.HasPrefix(strings.ReplaceAll(phase, "Partially", "Completed"), "Completed") {
			t.Errorf("%s: has files: %t", phase, files)
		}
		if phase == "Failed" && (got.Status.FailureReason != "no ***" || got.Status.Message != "Failed: no ***; found in BackupStorageLocation main") {
			t.Errorf("%s: %+v", phase, got.Status.RunStatus)
		}
	}
}

// TestBackupFromManifest_Untrusted reads untrusted manifests.
func TestBackupFromManifest_Untrusted(t *testing.T) {
	long := strings.Repeat("x", 70_000)
	for name, tc := range map[string]struct {
		manifest string
		wrong    string
	}{
		"nothing":                    {``, "is not JSON"},
		"no JSON":                    {`backup: nightly`, "is not JSON"},
		"truncated":                  {ofVelero[:200], "is not JSON"},
		"two manifests":              {ofVelero + ofVelero, "is not JSON"},
		"a list":                     {`[]`, "is not the manifest of a backup"},
		"null":                       {`null`, "has the kind \"\""},
		"another kind":               {`{"kind":"Restore"}`, `has the kind "Restore"`},
		"a long kind":                {`{"kind":"` + long + `"}`, `has the kind "xxx`},
		"no name":                    {`{"kind":"Backup"}`, "names no backup"},
		"another name":               {`{"kind":"Backup","metadata":{"name":"weekly"}}`, `names another backup, "weekly"`},
		"a name of a wrong type":     {`{"kind":"Backup","metadata":{"name":7}}`, "is not the manifest of a backup"},
		"labels of a wrong type":     {`{"kind":"Backup","metadata":{"name":"nightly","labels":["a"]}}`, "is not the manifest of a backup"},
		"a long UID":                 {`{"kind":"Backup","metadata":{"name":"nightly","uid":"` + long + `"}}`, `has the UID "xxx`},
		"a strange UID":              {`{"kind":"Backup","metadata":{"name":"nightly","uid":"u found"}}`, `has the UID "u found", which is not a valid UID of a Backup`},
		"no status":                  {`{"kind":"Backup","metadata":{"name":"nightly"}}`, "does not say how the backup ended"},
		"a phase of the future":      {manifest(`{"phase":"Archived"}`), `has the phase "Archived"`},
		"no times":                   {manifest(`{"phase":"Completed"}`), "does not say when the backup ended"},
		"a time of a wrong type":     {manifest(`{"phase":"Completed","completionTimestamp":7}`), "is not the manifest of a backup"},
		"an invalid time":            {manifest(`{"phase":"Completed","completionTimestamp":"today"}`), "is not the manifest of a backup"},
		"a count of a wrong type":    {manifest(`{"phase":"Completed","errors":"many",` + ended + `}`), "is not the manifest of a backup"},
		"a spec of a wrong type":     {`{"spec":[],` + manifest(`{"phase":"Completed",` + ended + `}`)[1:], "has a spec that cannot be parsed"},
		"a field of a wrong type":    {`{"spec":{"includedNamespaces":"a"},` + manifest(`{"phase":"Completed",` + ended + `}`)[1:], "has a spec that cannot be parsed"},
		"an invalid timeout":         {`{"spec":{"itemOperationTimeout":"soon"},` + manifest(`{"phase":"Completed",` + ended + `}`)[1:], "has a spec that cannot be parsed"},
		"too large":                  {`"` + strings.Repeat("x", 1<<20) + `"`, "has 1048578 bytes, more than the limit of 1048576"},
		"too deep":                   {strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000), "is not"},
		"an unknown field":           {manifest(`{"phase":"Completed",` + ended + `,"volumes":[1]}`), ""},
		"a timeout that is too long": {`{"spec":{"itemOperationTimeout":"100000h"},` + manifest(`{"phase":"Completed",` + ended + `}`)[1:], ""},
		"a timeout of zero":          {`{"spec":{"itemOperationTimeout":"0s"},` + manifest(`{"phase":"Completed",` + ended + `}`)[1:], ""},
		"only the start is known":    {manifest(`{"phase":"Completed","completionTimestamp":null,"startTimestamp":"2025-01-02T03:05:00Z"}`), ""},
		"negative counts": {manifest(`{"phase":"Completed",` + ended + `,"errors":-1,"warnings":-2,"progress":{"totalItems":-1,"itemsBackedUp":-1},
			"backupItemOperationsAttempted":9000000000,"backupItemOperationsFailed":-1,"formatVersion":"` + long + `"}`), ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := backupimport.BackupFromManifest(source, []byte(tc.manifest), nil)
			if tc.wrong == "" {
				if err != nil || got == nil {
					t.Fatalf("%v, %v, want a Backup", got, err)
				}
				s := got.Status
				if s.Errors < 0 || s.Warnings < 0 || (s.Progress != nil && s.Progress.TotalItems != 0) || s.FormatVersion != "" ||
					got.Spec.ItemOperationTimeout != nil || (s.Operations != nil && s.Operations.Attempted < 0) {
					t.Errorf("the Backup is %+v", got)
				}
				return
			}
			var corrupt *storage.CorruptError
			if !errors.As(err, &corrupt) || corrupt.File != "velero-backup.json" || !strings.Contains(corrupt.Reason, tc.wrong) {
				t.Fatalf("error %v, want %q", err, tc.wrong)
			}
			if len(err.Error()) > 1200 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}

// TestBackupFromManifest_InvalidUID has UIDs in the manifest of Grapnel, some of them invalid.
func TestBackupFromManifest_InvalidUID(t *testing.T) {
	for uid, good := range map[string]bool{
		"6ad1cd0d-2e40-4bba-b27a-8a5c1b1d2f10": true, "U-1": true,
		"u 1": false, "u\n": false, "../u": false, "ü": false, strings.Repeat("u", 65): false,
	} {
		got, err := backupimport.BackupFromManifest(source, []byte(ofGrapnel), &storage.GrapnelManifest{BackupUID: uid})
		var corrupt *storage.CorruptError
		switch {
		case good && (err != nil || got.Spec.ImportedFrom.BackupUID != uid):
			t.Errorf("%q: %v", uid, err)
		case !good && (!errors.As(err, &corrupt) || corrupt.File != "nightly-grapnel.json" || !strings.Contains(corrupt.Reason, "not a valid UID of a Backup")):
			t.Errorf("%q: error %v, want a CorruptError about the UID", uid, err)
		}
	}
}

func TestBackupFromManifest_Metadata(t *testing.T) {
	labels, annotations := map[string]string{}, map[string]string{"big": strings.Repeat("x", 70_000), "Mixed.Case/Key": "kept", "a b": "no"}
	for i := range 100 {
		labels[fmt.Sprintf("label-%03d", i)] = "v"
	}
	maps.Copy(labels, map[string]string{
		"a": "not a value", "not a key": "v", "b": strings.Repeat("x", 64), "x.grapnel.dev/c": "v", "grapnel.dev/hook": "v", "0": "kept",
	})
	data, err := json.Marshal(map[string]any{
		"kind": "Backup", "metadata": map[string]any{"name": "nightly", "labels": labels, "annotations": annotations},
		"status": map[string]any{"phase": "Completed", "completionTimestamp": "2025-01-02T03:05:00Z"},
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := backupimport.BackupFromManifest(source, data, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Labels) != 64 || got.Labels["0"] != "kept" || got.Labels["label-000"] != "v" {
		t.Errorf("the labels are %v", got.Labels)
	}
	for _, key := range []string{"a", "b", "not a key", "x.grapnel.dev/c", "grapnel.dev/hook"} {
		if _, kept := got.Labels[key]; kept {
			t.Errorf("the label %q is kept", key)
		}
	}
	if diff := cmp.Diff(map[string]string{"Mixed.Case/Key": "kept"}, got.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
}

// TestRenameBackup has a name that is too long for an object, and a name that is taken.
func TestRenameBackup(t *testing.T) {
	long := strings.Repeat("n", 210)
	from := source
	from.Name = long
	got, err := backupimport.BackupFromManifest(from, []byte(strings.Replace(ofVelero, `"nightly"`, `"`+long+`"`, 1)), nil)
	if err != nil || len(got.Name) > 200 || got.StoredName() != long || got.Status.Files.Archive != "clusters/east/backups/"+long+"/"+long+".tar.gz" {
		t.Errorf("%+v, %v", got, err)
	}
	renamed := func(location, uid string) *v1alpha1.Backup {
		from := source
		from.Location = location
		b, err := backupimport.BackupFromManifest(from, []byte(strings.Replace(ofVelero, "v-1", uid, 1)), nil)
		if err != nil {
			t.Fatal(err)
		}
		backupimport.RenameBackup(b)
		return b
	}
	b := renamed("main", "v-1")
	name := b.Name
	if !strings.HasPrefix(name, "nightly-") || b.StoredName() != "nightly" {
		t.Errorf("the name is %q of %q", name, b.StoredName())
	}
	backupimport.RenameBackup(b)
	if again := renamed("main", "v-1"); b.Name != name || again.Name != name {
		t.Errorf("names %q, %q and %q, want one", name, b.Name, again.Name)
	}
	if a, c := renamed("other", "v-1").Name, renamed("main", "v-2").Name; a == name || c == name || a == c {
		t.Errorf("names %q, %q and %q, want three", name, a, c)
	}
}
