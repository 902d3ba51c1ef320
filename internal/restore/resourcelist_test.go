// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"bytes"
	"encoding/json"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestWriteResourceList reads what writeResourceList wrote piece by piece.
func TestWriteResourceList(t *testing.T) {
	for name, list := range map[string]map[string][]string{
		"nothing": {},
		"a kind":  {"v1/Pod": {"ns/a(created)"}},
		"kinds":   {"v1/Pod": {"ns/a(created)", "ns/b(failed)"}, "apps/v1/Deployment": {"ns/\"d\"(skipped)"}, "v1/\"": {}},
	} {
		t.Run(name, func(t *testing.T) {
			var file bytes.Buffer
			if err := writeResourceList(&file, maps.All(list)); err != nil {
				t.Fatal(err)
			}
			got := map[string][]string{}
			if err := json.Unmarshal(file.Bytes(), &got); err != nil {
				t.Fatalf("%v in %s", err, &file)
			}
			if diff := cmp.Diff(list, got); diff != "" {
				t.Errorf("list (-want +got):\n%s", diff)
			}
		})
	}
}
