// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/operator"
)

// newBackup returns a Backup of namespaces, all of them if none is named.
func newBackup(name string, namespaces ...string) *v1alpha1.Backup {
	backup := &v1alpha1.Backup{
		ObjectMeta: metav1.ObjectMeta{Namespace: operator.Namespace, Name: name},
		Spec:       v1alpha1.BackupSpec{StorageLocation: locationName},
	}
	for _, n := range namespaces {
		backup.Spec.IncludedNamespaces = append(backup.Spec.IncludedNamespaces, v1alpha1.NamePattern(n))
	}
	return backup
}

// runBackups creates Backups, all at once, and watches them to their end.
func runBackups(ctx context.Context, c client.WithWatch, backups ...*v1alpha1.Backup) ([]*observation[*v1alpha1.Backup], error) {
	return runAll(ctx, c, &v1alpha1.BackupList{}, backups...)
}
