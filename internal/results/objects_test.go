// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package results_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/internal/results"
)

func TestResourceSummaries_Add(t *testing.T) {
	var sums results.ResourceSummaries
	sums.Add(results.ResourceSummary{Resource: "secrets", Objects: 1, Bytes: 10, Seconds: 0.5})
	first := results.ResourceSummary{Resource: "configmaps", Objects: 2, Bytes: 20, Outcomes: map[string]int{"created": 2}}
	sums.Add(first)
	sums.Add(results.ResourceSummary{Resource: "configmaps", Objects: 3, Bytes: 5, Seconds: 1, Outcomes: map[string]int{"created": 1, "failed": 2}},
		results.ResourceSummary{Resource: "secrets", Objects: 1, Outcomes: map[string]int{"skipped": 1}})
	want := results.ResourceSummaries{
		{Resource: "configmaps", Objects: 5, Bytes: 25, Seconds: 1, Outcomes: map[string]int{"created": 3, "failed": 2}},
		{Resource: "secrets", Objects: 2, Bytes: 10, Seconds: 0.5, Outcomes: map[string]int{"skipped": 1}},
	}
	if diff := cmp.Diff(want, sums); diff != "" {
		t.Errorf("sums (-want +got):\n%s", diff)
	}
	if first.Outcomes["created"] != 2 {
		t.Error("what was added was changed")
	}
}

// TestResourceSummaries_JSON checks that a results file is read back, and that the client of Velero
// can read it, too.
func TestResourceSummaries_JSON(t *testing.T) {
	for name, written := range map[string]results.Results{
		"objects": {Objects: results.ResourceSummaries{
			{Resource: "namespaces", Objects: 5, Bytes: 25, Seconds: 1.5},
			{Resource: "velero", Objects: 1, Outcomes: map[string]int{"created": 1}},
		}},
		"none": {},
	} {
		t.Run(name, func(t *testing.T) {
			data, err := json.Marshal(written)
			if err != nil {
				t.Fatal(err)
			}
			var read results.Results
			if err := json.Unmarshal(data, &read); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(written, read); diff != "" {
				t.Errorf("read from %s (-written +read):\n%s", data, diff)
			}
			var byVelero map[string]struct {
				Velero     []string            `json:"velero"`
				Cluster    []string            `json:"cluster"`
				Namespaces map[string][]string `json:"namespaces"`
			}
			if err := json.Unmarshal(data, &byVelero); err != nil {
				t.Errorf("Velero cannot read %s: %v", data, err)
			}
		})
	}
}
