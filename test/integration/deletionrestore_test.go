// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

// restoreOf returns a Restore of an app into another namespace, which is not created.
func restoreOf(b *v1alpha1.Backup, app string, actions ...string) *v1alpha1.Restore {
	r := &v1alpha1.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: b.Namespace, GenerateName: "story-", Labels: env.LabelsForActions(actions...)}}
	r.Spec.BackupName = b.Name
	r.Spec.NamespaceMapping = map[string]v1alpha1.NamespaceName{app: v1alpha1.NamespaceName(app + "-again")}
	return r
}

// restored waits for the end of a Restore and checks its phase, and that its message
// contains some texts.
func restored(t testing.TB, r *v1alpha1.Restore, phase v1alpha1.RunPhase, texts ...string) *v1alpha1.Restore {
	t.Helper()
	r = await(t, r, "it has ended", func(r *v1alpha1.Restore) bool { return r.Status.CompletionTimestamp != nil })
	if r.Status.Phase != phase {
		t.Fatalf("the phase is %s, want %s: %s", r.Status.Phase, phase, r.Status.Message)
	}
	says(t, []string{r.Status.Message}, texts...)
	return r
}

var _ = Describe("Deletions and Restores", Label("deletion"), func() {
	It("waits for a Restore that reads the backup", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		action, release := held(t, v1alpha1.ActionKindPreRestore)
		app := world.CreateApp(t, 1)
		b := outcome(t, env.Create(t, world.Client, s.NewBackup(app)), v1alpha1.RunPhaseCompleted)
		reads := env.Create(t, world.Client, restoreOf(b, app, action))
		awaitCalled(t, reads, action)
		d := destroy(t, b)
		says(t, []string{awaiting(t, d, v1alpha1.ReasonWaitingForRestore).Status.Message}, reads.Name)
		release()
		restored(t, reads, v1alpha1.RunPhaseCompleted, "2 created")
		destroyed(t, d, v1alpha1.RunPhaseCompleted)
		s.gone(t, b)
		awaitGone(t, reads)
		if _, err := os.Stat(filepath.Join(s.LocationDir(env.DefaultLocation), "restores", reads.Name)); !os.IsNotExist(err) {
			t.Errorf("the files of the Restore are left: %v", err)
		}
	})

	It("rejects Restores of a backup that is being deleted", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		action, release := held(t, v1alpha1.ActionKindDelete)
		app := world.CreateApp(t, 1)
		b := s.NewBackup(app)
		b.Labels = env.LabelsForActions(action)
		b = outcome(t, env.Create(t, world.Client, b), v1alpha1.RunPhaseCompleted)
		d := destroy(t, b)
		awaitCalled(t, d, action)
		restored(t, env.Create(t, world.Client, restoreOf(b, app)), v1alpha1.RunPhaseFailedValidation,
			b.Name, "is being destroyed by DeletionRun "+d.Name, "restore another backup")
		release()
		destroyed(t, d, v1alpha1.RunPhaseCompleted)
		s.gone(t, b)
	})

	It("does not expire a backup that is being restored", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		action, release := held(t, v1alpha1.ActionKindPreRestore)
		app := world.CreateApp(t, 1)
		var backups [2]*v1alpha1.Backup
		for i := range backups {
			b := s.NewBackup(app)
			b.Spec.TTL = &metav1.Duration{Duration: 720 * time.Hour}
			backups[i] = outcome(t, env.Create(t, world.Client, b), v1alpha1.RunPhaseCompleted)
		}
		used, other := backups[0], backups[1]
		reads := env.Create(t, world.Client, restoreOf(used, app, action))
		awaitCalled(t, reads, action)
		for _, b := range backups {
			world.Patch(t, b, `{"spec":{"ttl":"1s"}}`)
			await(t, b, "its time is over soon", func(b *v1alpha1.Backup) bool {
				return b.Status.Expiration != nil && b.Status.Expiration.Sub(b.Status.StartTimestamp.Time) <= time.Second
			})
		}
		s.gone(t, other)
		for _, d := range deletionsOf(used) {
			t.Errorf("DeletionRun %s was created while a Restore reads the Backup", d.Name)
		}
		release()
		restored(t, reads, v1alpha1.RunPhaseCompleted)
		s.gone(t, used)
		awaitEvent(t, used, "Normal Expired: ")
	})
})
