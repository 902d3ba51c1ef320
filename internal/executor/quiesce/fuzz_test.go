// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package quiesce_test

import (
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/internal/executor/quiesce"
)

// FuzzAnnotation decides about workloads with arbitrary annotations.
func FuzzAnnotation(f *testing.F) {
	for _, annotation := range []string{
		"", "{}", "null", "[]", `{"version":1}`, `{"version":99}`, `{"version":1,"holders":[{"uid":"u"}]}`,
		`{"version":1,"replicas":-1,"holders":[{"uid":"u","until":"9999-99-99T00:00:00Z"}]}`, `{"version":1,"holders":[null]}`,
	} {
		f.Add(annotation, int32(0))
	}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	f.Fuzz(func(_ *testing.T, annotation string, replicas int32) {
		for _, kind := range []quiesce.WorkloadKind{quiesce.Deployment, quiesce.StatefulSet, quiesce.ReplicaSet, quiesce.DaemonSet, quiesce.CronJob, quiesce.Job} {
			w := quiesce.Workload{
				Ref: quiesce.Ref{Kind: kind}, Annotations: map[string]string{quiesce.Annotation: annotation}, Replicas: replicas,
			}
			quiesce.ArchivedState(w)
			quiesce.NextExpiration(w, now)
			quiesce.DecideExpired(w, now)
		}
	})
}
