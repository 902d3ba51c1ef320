// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package hookrun_test

import (
	"context"
	"sync/atomic"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/controllers/hookrun"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

// failing is a reader that fails to read Backups the first few times.
type failing struct {
	client.Reader
	err   error
	times int32
	reads atomic.Int32
}

// Get implements client.Reader.
func (f *failing) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if _, ok := object.(*v1alpha1.Backup); ok && f.reads.Add(1) <= f.times {
		return f.err
	}
	return f.Reader.Get(ctx, key, object, options...)
}

var _ = Describe("A HookRun and its Backup", Label("hooks"), func() {
	It("uses up no retry when the Backup cannot be read", func() {
		t := GinkgoTB()
		env := cluster.NewEnv(t)
		run := deletionOf(t, env, createBackup(env))
		operator(t, env, working(), func(r *hookrun.Reconciler) {
			r.Reader = &failing{Reader: r.Reader, err: apierrors.NewServiceUnavailable("etcd has no leader"), times: 2}
		})
		waitForPhase(env, run, v1alpha1.HookRunPhaseCompleted)
		if run.Status.Attempt != 1 || run.Status.Failures != 0 {
			t.Errorf("there were %d attempts and %d failures, want 1 and 0", run.Status.Attempt, run.Status.Failures)
		}
	})
})

// deletionOf creates the HookRun of a DeleteAction for a Backup.
func deletionOf(t testing.TB, env *suite.Env, backup *v1alpha1.Backup) *v1alpha1.HookRun {
	t.Helper()
	deletion := suite.Create(env, &v1alpha1.DeletionRun{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "deletion-"}, Spec: v1alpha1.DeletionRunSpec{BackupName: backup.Name},
	})
	deletion.Status.BackupName, deletion.Status.BackupUID = backup.Name, string(backup.UID)
	if err := env.Client.Status().Update(t.Context(), deletion); err != nil {
		t.Fatal(err)
	}
	return plan(env, backup, func(run *v1alpha1.HookRun) {
		run.Spec.Hook, run.Spec.Retries = v1alpha1.HookDelete, 2
		run.Spec.ParentRef = v1alpha1.ParentReference{Kind: "DeletionRun", Name: deletion.Name, UID: string(deletion.UID)}
	})
}
