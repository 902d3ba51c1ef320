// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/operator"
)

// prepareGrapnel makes what its location needs.
func prepareGrapnel(ctx context.Context) error {
	return errors.Join(operator.CreateNamespace(ctx, world.Client), world.Client.Create(ctx, &corev1.Secret{
		ObjectMeta: grapnelObject("bucket"),
		StringData: map[string]string{"accessKeyID": world.bucket.AccessKey, "secretAccessKey": world.bucket.SecretKey},
	}))
}

// bucketOf returns a location for the bucket.
func bucketOf(namespace string) *v1alpha1.BackupStorageLocation {
	return &v1alpha1.BackupStorageLocation{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "bucket"},
		Spec: v1alpha1.BackupStorageLocationSpec{S3: &v1alpha1.S3Location{
			Bucket: world.bucket.Bucket, Endpoint: world.bucket.URL, Region: "us-east-1", ForcePathStyle: true,
			CredentialsSecret: &v1alpha1.SecretReference{Name: "bucket"},
		}},
	}
}

func grapnelObject(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: operator.Namespace, Name: name}
}

// grapnelBacksUp backs a namespace up.
func grapnelBacksUp(t *testing.T, name, app string) {
	t.Helper()
	world.SharedOperator(t)
	b := &v1alpha1.Backup{ObjectMeta: grapnelObject(name)}
	b.Spec.IncludedNamespaces = []v1alpha1.NamePattern{v1alpha1.NamePattern(app)}
	b = env.WaitFor(t, world.Client, env.Create(t, world.Client, b), "it has ended", func(b *v1alpha1.Backup) bool { return lifecycle.IsFinalized(b) })
	if b.Status.Phase != v1alpha1.RunPhaseCompleted {
		t.Fatalf("the Backup ended %s: %s", b.Status.Phase, b.Status.Message)
	}
	t.Log("Grapnel:", b.Status.Message, b.Status.PlanWarnings)
}

// grapnelRestores restores a backup, with another name for its namespace unless that
// is the same.
func grapnelRestores(t *testing.T, name, backup, from, to string) {
	t.Helper()
	world.SharedOperator(t)
	r := &v1alpha1.Restore{ObjectMeta: grapnelObject(name)}
	r.Spec.BackupName = backup
	if from != to {
		r.Spec.NamespaceMapping = map[string]v1alpha1.NamespaceName{from: v1alpha1.NamespaceName(to)}
	}
	r = env.WaitFor(t, world.Client, env.Create(t, world.Client, r), "it has ended", func(r *v1alpha1.Restore) bool { return lifecycle.IsFinalized(r) })
	if r.Status.Phase != v1alpha1.RunPhaseCompleted {
		t.Fatalf("the Restore ended %s: %s %q", r.Status.Phase, r.Status.Message, r.Status.ValidationErrors)
	}
	t.Log("Grapnel:", r.Status.Message)
}
