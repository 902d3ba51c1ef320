// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package results

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"time"
)

// ResourceSummary summarizes what a run did with the objects of one resource.
type ResourceSummary struct {
	// Resource is "configmaps" or "deployments.apps".
	Resource string `json:"resource"`
	// Objects is how many were archived, or how many a restore decided about.
	Objects int `json:"objects"`
	// Bytes is the size of these objects in the archive, as JSON without compression.
	Bytes int64 `json:"bytes"`
	// Seconds is how long the run worked on the resource. It works on several at the same time.
	Seconds float64 `json:"seconds"`
	// Outcomes is how many objects had each outcome of a restore, for example "created".
	Outcomes map[string]int `json:"outcomes,omitempty"`
}

// ResourceSummaries are sorted by resource. Their JSON is an object with the field resources,
// because Velero's client accepts nothing else beside warnings and errors.
type ResourceSummaries []ResourceSummary

type resourceSummariesJSON struct {
	Resources []ResourceSummary `json:"resources"`
}

// MarshalJSON returns the part of a results file with the summaries.
func (s ResourceSummaries) MarshalJSON() ([]byte, error) {
	return json.Marshal(resourceSummariesJSON{Resources: s})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (s *ResourceSummaries) UnmarshalJSON(data []byte) error {
	var stored resourceSummariesJSON
	if err := json.Unmarshal(data, &stored); err != nil {
		return err
	}
	*s = stored.Resources
	return nil
}

// Add adds summaries, of which several may be about the same resource.
func (s *ResourceSummaries) Add(more ...ResourceSummary) {
	byResource := map[string]ResourceSummary{}
	for _, summary := range slices.Concat(*s, more) {
		sum, known := byResource[summary.Resource]
		if !known {
			summary.Outcomes = maps.Clone(summary.Outcomes)
			byResource[summary.Resource] = summary
			continue
		}
		sum.Objects += summary.Objects
		sum.Bytes += summary.Bytes
		sum.Seconds += summary.Seconds
		for outcome, n := range summary.Outcomes {
			if sum.Outcomes == nil {
				sum.Outcomes = map[string]int{}
			}
			sum.Outcomes[outcome] += n
		}
		byResource[summary.Resource] = sum
	}
	*s = slices.SortedFunc(maps.Values(byResource), func(a, b ResourceSummary) int { return cmp.Compare(a.Resource, b.Resource) })
}

// RoundSeconds converts a duration to Seconds, in milliseconds.
func RoundSeconds(d time.Duration) float64 {
	return d.Round(time.Millisecond).Seconds()
}
