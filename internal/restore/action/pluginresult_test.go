// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNormalizePluginResult(t *testing.T) {
	const labels = `"labels":{"grapnel.dev/backup-name":"b","grapnel.dev/restore-name":"r"}`
	archived := object(t, `{"metadata":{"name":"n","ownerReferences":[{"uid":"old"}]}}`)
	for name, tc := range map[string]struct {
		returned string
		want     string // empty: rejected
	}{
		"the archived object": {
			`{"metadata":{"name":"n","uid":"u","resourceVersion":"7","creationTimestamp":"x","managedFields":[{}],"ownerReferences":[{"uid":"old"}]}}`,
			`{"metadata":{"name":"n",` + labels + `}}`,
		},
		"an owner of its own, and a status": {
			`{"metadata":{"name":"n","ownerReferences":[{"uid":"old"},{"uid":"new"}]},"status":{"phase":"x"}}`,
			`{"metadata":{"name":"n","ownerReferences":[{"uid":"new"}],` + labels + `},"status":{"phase":"x"}}`,
		},
		"other labels": {
			`{"metadata":{"name":"n","labels":{"app":"x","grapnel.dev/restore-name":"forged"}}}`,
			`{"metadata":{"name":"n","labels":{"app":"x","grapnel.dev/backup-name":"b","grapnel.dev/restore-name":"r"}}}`,
		},
		"labels null":          {`{"metadata":{"name":"n","labels":null}}`, `{"metadata":{"name":"n",` + labels + `}}`},
		"no metadata":          {`{"kind":"Thing"}`, ""},
		"labels of a list":     {`{"metadata":{"labels":[]}}`, ""},
		"annotations of text":  {`{"metadata":{"annotations":"x"}}`, ""},
		"owners that are text": {`{"metadata":{"ownerReferences":"x"}}`, `{"metadata":{"ownerReferences":"x",` + labels + `}}`},
	} {
		t.Run(name, func(t *testing.T) {
			returned := object(t, tc.returned)
			err := NormalizePluginResult(returned, archived, RestoreNames{Backup: "b", Restore: "r"})
			if (err == nil) != (tc.want != "") {
				t.Fatalf("error %v", err)
			}
			if err != nil {
				return
			}
			if diff := cmp.Diff(object(t, tc.want), returned); diff != "" {
				t.Errorf("object (-want +got):\n%s", diff)
			}
		})
	}
}
