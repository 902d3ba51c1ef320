// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/operator"
	"github.com/grapnel-dev/grapnel/test/perf/load"
)

// runRestore creates a Restore and returns the seconds from before the POST until a
// client sees that it is Completed: nothing that a person waits for is left out.
// Each object must have become what outcome counts, without a warning.
func runRestore(ctx context.Context, e *environment, restore *v1alpha1.Restore, objects int,
	outcome func(v1alpha1.RestoreCounts) int64,
) (float64, error) {
	seen, err := runAll(ctx, e.client, &v1alpha1.RestoreList{}, restore)
	if err != nil {
		return 0, err
	}
	status := seen[0].last.Status
	if status.Counts == nil || outcome(*status.Counts) != int64(objects) || status.Warnings+status.Errors > 0 {
		return 0, fmt.Errorf("the Restore %s should have dealt with %d objects without a warning: %+v, %d warnings, %d errors",
			restore.Name, objects, status.Counts, status.Warnings, status.Errors)
	}
	return seen[0].latency().Seconds(), nil
}

// newRestore returns a Restore of the first namespaces of the mix into others, whose
// names begin with prefix.
func newRestore(name, backup, prefix string, namespaces int) *v1alpha1.Restore {
	restore := &v1alpha1.Restore{
		ObjectMeta: metav1.ObjectMeta{Namespace: operator.Namespace, Name: name},
		Spec: v1alpha1.RestoreSpec{
			BackupName: backup, StorageLocation: locationName,
			NamespaceMapping: map[string]v1alpha1.NamespaceName{},
		},
	}
	for i := range namespaces {
		from := load.NamespaceName(i)
		restore.Spec.NamespaceMapping[from] = v1alpha1.NamespaceName(prefix + from)
	}
	return restore
}

func created(c v1alpha1.RestoreCounts) int64   { return c.Created }
func unchanged(c v1alpha1.RestoreCounts) int64 { return c.Unchanged }
