// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package velero_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/velero"
)

// operations returns one of each kind.
func operations() []velero.Operation {
	object := func(resource, group, namespace, name string) velero.ResourceIdentifier {
		return velero.ResourceIdentifier{
			GroupResource: schema.GroupResource{Group: group, Resource: resource}, Namespace: namespace, Name: name,
		}
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("east", 3600))
	return []velero.Operation{
		{
			Action: "example.io/copy", Kind: "AsyncBackupItemAction", Plugin: "demo", ID: "op-2",
			Object: object("deployments", "apps", "shop", "web"), Phase: velero.OperationCancelled,
		},
		{
			Action: "example.io/copy", Kind: "AsyncBackupItemAction", Plugin: "demo", ID: "op-1",
			Object: object("persistentvolumes", "", "", "pv"), Phase: velero.OperationCompleted, Message: "completed after 3s",
			PostItems: []velero.ResourceIdentifier{object("secrets", "", "shop", "key")},
			Completed: 3, Total: 4, Units: "bytes", Description: "copying", Created: at, Started: at.Add(time.Second), Updated: at.Add(time.Minute),
		},
		{
			Action: "example.io/before", Plugin: "demo", ID: "op-3", Object: object("pods", "", "shop", "db"),
			Phase: velero.OperationFailed, Message: "no space left",
		},
	}
}

// TestOperation_VeleroJSON compares with the field names of Velero's files.
func TestOperation_VeleroJSON(t *testing.T) {
	t.Parallel()
	const (
		failed    = `{"phase":"Failed","error":"no space left"}`
		completed = `{"phase":"Completed","nCompleted":3,"nTotal":4,"operationUnits":"bytes","description":"copying",` +
			`"created":"2026-01-02T02:04:05Z","started":"2026-01-02T02:04:06Z","updated":"2026-01-02T02:05:05Z"}`
		cancelled = `{"phase":"Failed","error":"it was canceled"}`
		pod       = `{"Group":"","Resource":"pods","Namespace":"shop","Name":"db"}`
		web       = `{"Group":"apps","Resource":"deployments","Namespace":"shop","Name":"web"}`
		volume    = `{"Group":"","Resource":"persistentvolumes","Namespace":"","Name":"pv"}`
		secret    = `{"Group":"","Resource":"secrets","Namespace":"shop","Name":"key"}`
	)
	backup := func(action, object, id, post, status string) string {
		return `{"spec":{"backupName":"b","backupUID":"u","backupItemAction":"` + action + `","resourceIdentifier":` + object +
			`,"operationID":"` + id + `","postOperationItems":` + post + `},"status":` + status + `}`
	}
	restore := func(action, object, id, status string) string {
		return `{"spec":{"restoreName":"b","restoreUID":"u","restoreItemAction":"` + action + `","resourceIdentifier":` + object +
			`,"operationID":"` + id + `"},"status":` + status + `}`
	}
	for name, tc := range map[string]struct {
		made any
		want string
	}{
		"of a backup": {velero.ToBackupOperations("b", "u", operations()), `[` + strings.Join([]string{
			backup("example.io/before", pod, "op-3", "null", failed),
			backup("example.io/copy", web, "op-2", "null", cancelled),
			backup("example.io/copy", volume, "op-1", "["+secret+"]", completed),
		}, ",") + `]`},
		"of a restore": {velero.ToRestoreOperations("b", "u", operations()), `[` + strings.Join([]string{
			restore("example.io/before", pod, "op-3", failed),
			restore("example.io/copy", web, "op-2", cancelled),
			restore("example.io/copy", volume, "op-1", completed),
		}, ",") + `]`},
		"none of a backup":  {velero.ToBackupOperations("b", "u", nil), `[]`},
		"none of a restore": {velero.ToRestoreOperations("b", "u", nil), `[]`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := json.Marshal(tc.made)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, string(got)); diff != "" {
				t.Errorf("file (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFailure(t *testing.T) {
	t.Parallel()
	const about = `the operation "op" of action example.io/copy of plugin demo `
	for name, tc := range map[string]struct {
		phase   velero.OperationPhase
		message string
		want    string
	}{
		"completed":                {velero.OperationCompleted, "after 3s", ""},
		"failed":                   {velero.OperationFailed, "no space left", about + "failed: no space left"},
		"failed without a message": {velero.OperationFailed, "", about + "failed"},
		"cancelled":                {velero.OperationCancelled, "the run ended", about + "was canceled: the run ended"},
		"in progress":              {velero.OperationInProgress, "", about + "has not ended"},
		"nothing is known":         {"", "", about + "has not ended"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := velero.Operation{Action: "example.io/copy", Plugin: "demo", ID: "op", Phase: tc.phase, Message: tc.message}.Failure()
			got := ""
			if err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("failure %q, want %q", got, tc.want)
			}
		})
	}
}
