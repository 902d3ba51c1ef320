// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
)

const manifestName = "velero-backup.json"

func lose(t *testing.T, file string) {
	t.Helper()
	if err := os.RemoveAll(file); err != nil {
		t.Fatal(err)
	}
}

// TestSomethingStoredIsGone removes files of a backup by hand before it is deleted.
func TestSomethingStoredIsGone(t *testing.T) {
	t.Parallel()
	s := site{world.SharedOperator(t)}
	app := world.CreateApp(t, 1)
	for name, tc := range map[string]struct {
		file  func(backup string) string
		phase v1alpha1.RunPhase
		text  string
	}{
		"the manifest": {func(string) string { return manifestName }, v1alpha1.RunPhaseCompleted, "is destroyed"},
		// The content of the archive can no longer be known.
		"all":         {func(string) string { return "" }, v1alpha1.RunPhasePartiallyFailed, "nothing of it is stored any more"},
		"the archive": {func(b string) string { return b + ".tar.gz" }, v1alpha1.RunPhasePartiallyFailed, ".tar.gz is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := outcome(t, env.Create(t, world.Client, s.NewBackup(app)), v1alpha1.RunPhaseCompleted)
			lose(t, filepath.Join(s.folderOf(env.DefaultLocation, b.Name), tc.file(b.Name)))
			destroyed(t, destroy(t, b), tc.phase, tc.text)
			s.gone(t, b)
		})
	}
}

// TestAManifestIsDamaged has the manifests of a backup replaced by hand before it is
// destroyed. Its claim says whose it is.
func TestAManifestIsDamaged(t *testing.T) {
	t.Parallel()
	s := site{world.SharedOperator(t)}
	app := world.CreateApp(t, 1)
	for name, file := range map[string]func(backup string) string{
		"Velero's":  func(string) string { return manifestName },
		"Grapnel's": func(b string) string { return b + "-grapnel.json" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := outcome(t, env.Create(t, world.Client, s.NewBackup(app)), v1alpha1.RunPhaseCompleted)
			write(t, filepath.Join(s.folderOf(env.DefaultLocation, b.Name), file(b.Name)), "not JSON")
			destroyed(t, destroy(t, b), v1alpha1.RunPhaseCompleted, "is destroyed")
			s.gone(t, b)
		})
	}
}

// TestNobodyKnowsWhoseItIs has the claim damaged as well: the files stay until a user
// insists.
func TestNobodyKnowsWhoseItIs(t *testing.T) {
	t.Parallel()
	s := site{world.SharedOperator(t)}
	b := outcome(t, env.Create(t, world.Client, s.NewBackup(world.CreateApp(t, 1))), v1alpha1.RunPhaseCompleted)
	for _, file := range []string{manifestName, b.Name + "-claim.json", b.Name + "-claim-2.json"} {
		write(t, filepath.Join(s.folderOf(env.DefaultLocation, b.Name), file), "not JSON")
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
}

// TestAManifestNamesAnotherBackup has the manifests of another backup in the directory of one
// that is destroyed. What is there is that one's then, and so is what its actions put out.
func TestAManifestNamesAnotherBackup(t *testing.T) {
	t.Parallel()
	s := site{world.SharedOperator(t)}
	app := world.CreateApp(t, 1)
	backUp := func() *v1alpha1.Backup {
		b := s.NewBackup(app)
		b.Labels = env.LabelsForActions(pair)
		parameter(b, pair, "fault", "outputs")
		return outcome(t, env.Create(t, world.Client, b), v1alpha1.RunPhaseCompleted)
	}
	other, b := backUp(), backUp()
	from, to := s.folderOf(env.DefaultLocation, other.Name), s.folderOf(env.DefaultLocation, b.Name)
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
}
