// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/klauspost/compress/gzip"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
	"github.com/grapnel-dev/grapnel/internal/tombstone"
)

// putVelero puts a backup of a Velero server into a location: its manifest, which has
// labels, and an archive of one ConfigMap.
func (s site) putVelero(t testing.TB, location, name string, labels map[string]string) {
	t.Helper()
	manifest, err := json.Marshal(map[string]any{
		"apiVersion": "velero.io/v1", "kind": "Backup",
		"metadata": map[string]any{"name": name, "namespace": "velero", "uid": "9e4b4c60-" + name, "labels": labels},
		"spec":     map[string]any{"includedNamespaces": []string{"shop"}},
		"status": map[string]any{
			"version": 1, "formatVersion": "1.1.0", "phase": "Completed",
			"startTimestamp": "2025-01-02T03:04:05Z", "completionTimestamp": "2025-01-02T03:05:00Z",
		},
	})
	Expect(err).NotTo(HaveOccurred())
	dir := s.backupDir(location, name)
	Expect(os.MkdirAll(dir, 0o755)).To(Succeed())
	writeArchive(t, filepath.Join(dir, name+".tar.gz"), map[string]string{
		"metadata/version":            "1.1.0",
		configMap("shop", "settings"): `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"shop","name":"settings"}}`,
	})
	write(t, filepath.Join(dir, "velero-backup.json"), string(manifest))
}

func (s site) backupDir(location, name string) string {
	return filepath.Join(s.LocationDir(location), "backups", name)
}

func write(t testing.TB, file, content string) {
	t.Helper()
	Expect(os.WriteFile(file, []byte(content), 0o600)).To(Succeed())
}

func writeArchive(t testing.TB, file string, content map[string]string) {
	t.Helper()
	out, err := os.Create(file)
	Expect(err).NotTo(HaveOccurred())
	compressed := gzip.NewWriter(out)
	archive := tar.NewWriter(compressed)
	for name, text := range content {
		err = errors.Join(err, archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o600, Size: int64(len(text))}))
		_, failed := archive.Write([]byte(text))
		err = errors.Join(err, failed)
	}
	Expect(errors.Join(err, archive.Close(), compressed.Close(), out.Close())).To(Succeed())
}

// filesIn returns the names of the files of a backup; none if its directory does not exist.
func (s site) filesIn(t testing.TB, location, name string) []string {
	t.Helper()
	entries, err := os.ReadDir(s.backupDir(location, name))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

var _ = Describe("The deletion of backups of others", Label("deletion"), func() {
	It("destroys it only with destroyForeign", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		action := own(t, "removes")
		install(t, world.NewFaultPlugin(filepath.Base(action), []v1alpha1.PluginAction{deletes(v1alpha1.PluginAction{Name: action})}))
		for name, tc := range map[string]struct {
			imported, damaged bool
		}{
			"with a Backup": {imported: true}, "without a Backup": {}, "with a manifest that is not JSON": {damaged: true},
		} {
			By(name, func() {
				location := filepath.Base(own(t, "velero"))
				backup := "of-" + location
				put := func() {
					s.putVelero(t, location, backup, env.LabelsForActions(action))
					if tc.damaged {
						write(t, filepath.Join(s.backupDir(location, backup), "velero-backup.json"), "not JSON")
					}
				}
				d := &v1alpha1.DeletionRun{ObjectMeta: metav1.ObjectMeta{Namespace: s.Name, GenerateName: "story-"}}
				d.Spec.BackupName = backup
				bsl := newDirLocation(s, location)
				if tc.imported {
					put() // it is found when the location comes
					env.Create(t, world.Client, bsl)
					s.awaitBackup(t, backup)
				} else {
					env.Create(t, world.Client, bsl)
					await(t, bsl, "it was looked through", func(l *v1alpha1.BackupStorageLocation) bool {
						return conditionOf(l, v1alpha1.ConditionSynced) == metav1.ConditionTrue
					})
					put()
					d.Spec.StorageLocation = location
				}
				files := s.filesIn(t, location, backup)
				again := d.DeepCopy()
				destroyed(t, env.Create(t, world.Client, d), v1alpha1.RunPhaseFailedValidation,
					"backup "+backup+" was not created by a Backup of this cluster", "create a DeletionRun with spec.destroyForeign: true")
				env.CheckEqual(t, "the files", s.filesIn(t, location, backup), files)

				again.Spec.DestroyForeign = true
				again = destroyed(t, env.Create(t, world.Client, again), v1alpha1.RunPhaseCompleted, "is destroyed")
				env.CheckEqual(t, "the files", s.filesIn(t, location, backup), nil)
				awaitGone(t, s.awaitBackup(t, backup))
				if calls := deleteCalls(t, again); len(calls) != 1 && !tc.damaged { // no labels are known of a damaged one
					t.Errorf("the calls are %q", calls)
				}
			})
		}
	})

	It("destroys what a Backup of this cluster left in its location", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		action := own(t, "removes")
		install(t, world.NewFaultPlugin(filepath.Base(action), slices.Concat(
			pre(v1alpha1.PluginAction{Name: action}), []v1alpha1.PluginAction{deletes(v1alpha1.PluginAction{Name: action})},
		), "FAULT_CALL=PreBackup=outputs"))
		b := s.NewBackup(world.CreateApp(t, 1))
		b.Labels = env.LabelsForActions(action)
		b = outcome(t, env.Create(t, world.Client, b), v1alpha1.RunPhaseCompleted)
		noted := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.Name, Name: tombstone.ConfigMapName(env.DefaultLocation)}}
		env.WaitFor(t, world.Client, noted, "the backup is noted", func(c *corev1.ConfigMap) bool { return c.Data[b.Name] != "" })
		world.Delete(t, b)
		awaitGone(t, b)
		if len(s.stored(t, b.Name)) == 0 {
			t.Fatal("the files are gone")
		}
		d := deletionOf(b)
		d.Spec.StorageLocation = env.DefaultLocation
		d = destroyed(t, env.Create(t, world.Client, d), v1alpha1.RunPhaseCompleted, "Backup "+b.Name+" is destroyed")
		s.gone(t, s.awaitBackup(t, b.Name))
		env.CheckEqual(t, "the calls", deleteCalls(t, d), []string{"Delete " + action + " #1"})
		if made := string(d.Status.BackupOutputs[action]["from"]); made != string(runOf(t, b, v1alpha1.HookPreBackup, action).UID) {
			t.Errorf("the DeleteAction gets the name %q", made)
		}
	})
})

// awaitBackup waits for the object of a stored backup, and returns the last one.
func (s site) awaitBackup(t testing.TB, name string) *v1alpha1.Backup {
	t.Helper()
	var found *v1alpha1.Backup
	eventually(t, func() string {
		for _, b := range all[*v1alpha1.Backup](world.watched) {
			if b.Namespace == s.Name && b.Name == name && b.Spec.ImportedFrom != nil {
				found = b
				return ""
			}
		}
		return "there is no Backup of the stored backup " + name
	})
	return found
}
