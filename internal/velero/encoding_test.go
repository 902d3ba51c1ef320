// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package velero_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/internal/velero"
)

// TestObject_ToJSON compares with what Velero's server passes to its plugins.
func TestObject_ToJSON(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	const times = `"creationTimestamp":"2026-01-02T03:04:05Z"`
	for name, tc := range map[string]struct {
		shown                  velero.Object
		metadata, spec, status string
	}{
		"a Backup": {
			shown: velero.Object{
				Kind: "Backup", Spec: json.RawMessage(`{"ttl":"1h","desiredState":"Run"}`), StorageLocation: "main",
				Metadata: velero.Metadata{Name: "b", Labels: map[string]string{"a": "b"}},
			},
			metadata: `"labels":{"a":"b","velero.io/storage-location":"main"},"annotations":{"velero.io/resource-timeout":"10m0s"}`,
			spec:     `{"ttl":"1h","storageLocation":"main","itemOperationTimeout":"4h0m0s"}`,
			status:   `"version":1,"formatVersion":"1.1.0",`,
		},
		"a Backup with its own settings": {
			shown: velero.Object{
				Kind: "Backup", Spec: json.RawMessage(`{"itemOperationTimeout":"2h"}`), StorageLocation: "main", OperationTimeout: time.Hour,
				Metadata: velero.Metadata{
					Name: "b", Labels: map[string]string{"velero.io/storage-location": "mine"},
					Annotations: map[string]string{"velero.io/resource-timeout": "1s", "kubectl.kubernetes.io/last-applied-configuration": "long"},
				},
			},
			metadata: `"labels":{"velero.io/storage-location":"mine"},"annotations":{"velero.io/resource-timeout":"1s"}`,
			spec:     `{"storageLocation":"main","itemOperationTimeout":"2h"}`,
			status:   `"version":1,"formatVersion":"1.1.0",`,
		},
		"a Backup with a group of volumes": {
			shown: velero.Object{
				Kind: "Backup", Spec: json.RawMessage(`{"volumes":{"requireCaptured":true,"group":"example.io/app"}}`),
				Metadata: velero.Metadata{Name: "b"},
			},
			metadata: `"annotations":{"velero.io/resource-timeout":"10m0s"}`,
			spec:     `{"volumeGroupSnapshotLabelKey":"example.io/app","itemOperationTimeout":"4h0m0s"}`,
			status:   `"version":1,"formatVersion":"1.1.0",`,
		},
		"a Restore that may recreate": {
			shown: velero.Object{
				Kind: "Restore", Spec: json.RawMessage(`{"existingResourcePolicy":"recreate"}`), BackupName: "nightly",
				OperationTimeout: time.Hour, Metadata: velero.Metadata{Name: "b"},
			},
			spec: `{"backupName":"nightly","existingResourcePolicy":"update","itemOperationTimeout":"1h0m0s"}`,
		},
		"a deleted Restore": {
			shown: velero.Object{Kind: "Restore", Metadata: velero.Metadata{Name: "b"}}, spec: `{"itemOperationTimeout":"4h0m0s"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.shown.Phase, tc.shown.Start = velero.PhaseInProgress, start
			data, err := tc.shown.ToJSON()
			if err != nil {
				t.Fatal(err)
			}
			metadata := strings.TrimPrefix(tc.metadata+",", ",")
			want := `{"apiVersion":"velero.io/v1","kind":"` + tc.shown.Kind + `","metadata":{"name":"b","namespace":"","uid":"",` + metadata + times +
				`},"spec":` + tc.spec + `,"status":{` + tc.status + `"phase":"InProgress","startTimestamp":"2026-01-02T03:04:05Z"}}`
			if diff := cmp.Diff(decoded(t, want), decoded(t, string(data))); diff != "" {
				t.Errorf("shown (-want +got):\n%s", diff)
			}
		})
	}
}

// TestObject_ToJSONInvalidSpec: the error names the object with the invalid spec.
func TestObject_ToJSONInvalidSpec(t *testing.T) {
	t.Parallel()
	_, err := velero.Object{Kind: "Backup", Metadata: velero.Metadata{Name: "b"}, Spec: json.RawMessage("[]")}.ToJSON()
	if err == nil || !strings.Contains(err.Error(), "describing Backup b to item actions") {
		t.Errorf("error %v", err)
	}
}

func decoded(t *testing.T, text string) (value any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return value
}
