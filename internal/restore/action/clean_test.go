// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
)

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	decoded := map[string]any{}
	if err := json.Unmarshal([]byte(text), &decoded); err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: decoded}
}

func TestCopyForRestore(t *testing.T) {
	for name, tc := range map[string]struct {
		archived string
		want     string // empty: rejected
	}{
		"what the old cluster set goes, the rest stays": {
			`{"apiVersion":"v1","kind":"Thing","metadata":{"name":"n","namespace":"a","generateName":"n-","selfLink":"/x","uid":"u",
				"resourceVersion":"7","generation":3,"creationTimestamp":"2026-01-01T00:00:00Z","deletionTimestamp":"2026-01-02T00:00:00Z",
				"deletionGracePeriodSeconds":30,"ownerReferences":[{"uid":"o"}],"managedFields":[{"manager":"m"}],
				"labels":{"app":"x","velero.io/backup-name":"old","grapnel.dev/backup-name":"older"},
				"annotations":{"a":"b"},"finalizers":["f/g"]},"spec":{"status":{"kept":true}},"status":{"phase":"x"},"data":{"k":"v"}}`,
			`{"apiVersion":"v1","kind":"Thing","metadata":{"name":"n","namespace":"a",
				"labels":{"app":"x","velero.io/backup-name":"old","grapnel.dev/backup-name":"b","grapnel.dev/restore-name":"r"},
				"annotations":{"a":"b"},"finalizers":["f/g"]},"spec":{"status":{"kept":true}},"data":{"k":"v"}}`,
		},
		"no labels": {
			`{"metadata":{"name":"n"}}`,
			`{"metadata":{"name":"n","labels":{"grapnel.dev/backup-name":"b","grapnel.dev/restore-name":"r"}}}`,
		},
		"labels null": {
			`{"metadata":{"name":"n","labels":null}}`,
			`{"metadata":{"name":"n","labels":{"grapnel.dev/backup-name":"b","grapnel.dev/restore-name":"r"}}}`,
		},
		"no metadata":               {`{"kind":"Thing"}`, ""},
		"metadata that is a string": {`{"metadata":"x"}`, ""},
		"labels that are a list":    {`{"metadata":{"labels":["x"]}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			archived := object(t, tc.archived)
			got, err := CopyForRestore(archived, RestoreNames{Backup: "b", Restore: "r"})
			if (err == nil) != (tc.want != "") {
				t.Fatalf("error %v", err)
			}
			if err != nil {
				return
			}
			if diff := cmp.Diff(object(t, tc.want), got); diff != "" {
				t.Errorf("copy (-want +got):\n%s", diff)
			}
			scribble(got.Object)
			if diff := cmp.Diff(object(t, tc.archived), archived); diff != "" {
				t.Errorf("the copy shares memory with the archived object (-before +after):\n%s", diff)
			}
		})
	}
}

// scribble changes everything that can be reached.
func scribble(value any) {
	switch value := value.(type) {
	case map[string]any:
		for key := range value {
			scribble(value[key])
			value[key] = "scribble"
		}
	case []any:
		for i := range value {
			scribble(value[i])
			value[i] = "scribble"
		}
	}
}

func TestNeverRestoredReason(t *testing.T) {
	for name, tc := range map[string]struct {
		resource schema.GroupResource
		never    bool
	}{
		"a run of ours":        {schema.GroupResource{Group: "grapnel.dev", Resource: "restores"}, true},
		"a hook of ours":       {schema.GroupResource{Group: "grapnel.dev", Resource: "hookruns"}, true},
		"a run of Velero":      {schema.GroupResource{Group: "velero.io", Resource: "backups"}, true},
		"data of Velero":       {schema.GroupResource{Group: "velero.io", Resource: "datauploads"}, true},
		"repository of Velero": {schema.GroupResource{Group: "velero.io", Resource: "backuprepositories"}, true},
		"node":                 {schema.GroupResource{Resource: "nodes"}, true},
		"event":                {schema.GroupResource{Resource: "events"}, true},
		"new event":            {schema.GroupResource{Group: "events.k8s.io", Resource: "events"}, true},
		"lease":                {schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}, true},
		"attachment":           {schema.GroupResource{Group: "storage.k8s.io", Resource: "volumeattachments"}, true},
		"node of storage":      {schema.GroupResource{Group: "storage.k8s.io", Resource: "csinodes"}, true},
		"group snapshot":       {schema.GroupResource{Group: "groupsnapshot.storage.k8s.io", Resource: "volumegroupsnapshots"}, true},
		"snapshot":             {schema.GroupResource{Group: "snapshot.storage.k8s.io", Resource: "volumesnapshots"}, true},
		"class of snapshots":   {schema.GroupResource{Group: "snapshot.storage.k8s.io", Resource: "volumesnapshotclasses"}, false},
		"certificate request":  {schema.GroupResource{Group: "certificates.k8s.io", Resource: "certificatesigningrequests"}, true},
		"program of ours":      {schema.GroupResource{Group: "grapnel.dev", Resource: "plugins"}, true},

		"schedule of ours":   {schema.GroupResource{Group: "grapnel.dev", Resource: "schedules"}, false},
		"schedule of Velero": {schema.GroupResource{Group: "velero.io", Resource: "schedules"}, false},
		"pod":                {schema.GroupResource{Resource: "pods"}, false},
		"storage class":      {schema.GroupResource{Group: "storage.k8s.io", Resource: "storageclasses"}, false},
		"nodes of others":    {schema.GroupResource{Group: "longhorn.io", Resource: "nodes"}, false},
		"backups of others":  {schema.GroupResource{Group: "postgresql.cnpg.io", Resource: "backups"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if reason := NeverRestoredReason(tc.resource); (reason != "") != tc.never {
				t.Errorf("NeverRestored(%s) = %q, want a reason: %v", tc.resource, reason, tc.never)
			}
		})
	}
}
