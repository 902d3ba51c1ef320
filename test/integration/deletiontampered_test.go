// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

const manifestName = "velero-backup.json"

func lose(t testing.TB, file string) {
	t.Helper()
	Expect(os.RemoveAll(file)).To(Succeed())
}

var _ = Describe("The deletion of damaged backups", Label("deletion"), func() {
	Context("deletes the remaining files", func() {
		for name, tc := range suite.SortedByName(map[string]struct {
			file  func(backup string) string
			phase v1alpha1.RunPhase
			text  string
		}{
			"the manifest": {func(string) string { return manifestName }, v1alpha1.RunPhaseCompleted, "is destroyed"},
			// The content of the archive can no longer be known.
			"all":         {func(string) string { return "" }, v1alpha1.RunPhasePartiallyFailed, "nothing of it is stored any more"},
			"the archive": {func(b string) string { return b + ".tar.gz" }, v1alpha1.RunPhasePartiallyFailed, ".tar.gz is missing"},
		}) {
			It(name, func() {
				t := suite.Spec(GinkgoTB())
				s := site{world.SharedOperator(t)}
				app := world.CreateApp(t, 1)
				b := outcome(t, env.Create(t, world.Client, s.NewBackup(app)), v1alpha1.RunPhaseCompleted)
				lose(t, filepath.Join(s.backupDir(env.DefaultLocation, b.Name), tc.file(b.Name)))
				destroyed(t, destroy(t, b), tc.phase, tc.text)
				s.gone(t, b)
			})
		}
	})

	Context("finds the owner in the claim", func() {
		for name, file := range suite.SortedByName(map[string]func(backup string) string{
			"Velero's":  func(string) string { return manifestName },
			"Grapnel's": func(b string) string { return b + "-grapnel.json" },
		}) {
			It(name, func() {
				t := suite.Spec(GinkgoTB())
				s := site{world.SharedOperator(t)}
				app := world.CreateApp(t, 1)
				b := outcome(t, env.Create(t, world.Client, s.NewBackup(app)), v1alpha1.RunPhaseCompleted)
				write(t, filepath.Join(s.backupDir(env.DefaultLocation, b.Name), file(b.Name)), "not JSON")
				destroyed(t, destroy(t, b), v1alpha1.RunPhaseCompleted, "is destroyed")
				s.gone(t, b)
			})
		}
	})

	It("keeps the files until a user insists", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		b := outcome(t, env.Create(t, world.Client, s.NewBackup(world.CreateApp(t, 1))), v1alpha1.RunPhaseCompleted)
		for _, file := range []string{manifestName, b.Name + "-claim.json", b.Name + "-claim-2.json"} {
			write(t, filepath.Join(s.backupDir(env.DefaultLocation, b.Name), file), "not JSON")
		}
		files := s.stored(t, b.Name)
		d := destroyed(t, destroy(t, b), v1alpha1.RunPhasePartiallyFailed,
			"the files of backup "+b.Name+" in BackupStorageLocation "+env.DefaultLocation, "spec.destroyForeign")
		awaitGone(t, b)
		awaitEvent(t, d, "Warning DataLeftBehind: ")
		env.CheckEqual(t, "the files", s.stored(t, b.Name), files)

		again := deletionOf(b)
		again.Spec.StorageLocation, again.Spec.DestroyForeign = env.DefaultLocation, true
		destroyed(t, env.Create(t, world.Client, again), v1alpha1.RunPhaseCompleted, "is destroyed")
		s.gone(t, s.awaitBackup(t, b.Name))
	})

	// What is in the directory belongs to the other backup, and so do the outputs of its actions.
	It("keeps the files of another backup", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		app := world.CreateApp(t, 1)
		backUp := func() *v1alpha1.Backup {
			b := s.NewBackup(app)
			b.Labels = env.LabelsForActions(pair)
			parameter(b, pair, "fault", "outputs")
			return outcome(t, env.Create(t, world.Client, b), v1alpha1.RunPhaseCompleted)
		}
		other, b := backUp(), backUp()
		from, to := s.backupDir(env.DefaultLocation, other.Name), s.backupDir(env.DefaultLocation, b.Name)
		write(t, filepath.Join(to, manifestName), content(t, filepath.Join(from, manifestName)))
		write(t, filepath.Join(to, b.Name+"-grapnel.json"), content(t, filepath.Join(from, other.Name+"-grapnel.json")))
		files, others := s.stored(t, b.Name), s.stored(t, other.Name)

		d := destroyed(t, destroy(t, b), v1alpha1.RunPhasePartiallyFailed, "nothing of it is stored any more")
		awaitGone(t, b)
		says(t, []string{conditions.Get(d, v1alpha1.ConditionDataDeleted).Message}, "Nothing of the backup was stored", b.Name, string(other.UID))
		if len(d.Status.BackupOutputs) > 0 {
			t.Errorf("the DeleteActions are told what was made for another backup: %v", d.Status.BackupOutputs)
		}
		env.CheckEqual(t, "the files", s.stored(t, b.Name), files)
		env.CheckEqual(t, "the files of the other backup", s.stored(t, other.Name), others)
	})
})
