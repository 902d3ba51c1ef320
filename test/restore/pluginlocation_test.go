// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

var _ = Describe("Restores from the store of a plugin", Label("plugins"), func() {
	It("restores after a crash of the operator", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.StartOperator(t)}
		// Suspended: its hooks are for no run here. That is not about its locations.
		plugin := &v1alpha1.Plugin{ObjectMeta: metav1.ObjectMeta{GenerateName: "dirs-"}}
		plugin.Spec.Suspend = true
		plugin.Spec.Executor.Process = &v1alpha1.ProcessExecutor{Command: "example"}
		plugin = env.Create(t, world.Client, plugin)

		env.Create(t, world.Client, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.Name, Name: "cloud"}, StringData: map[string]string{"ini": "password=swordfish"},
		})
		dir := filepath.Join(s.Dir, "of-the-plugin")
		location := env.Create(t, world.Client, &v1alpha1.BackupStorageLocation{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.Name, Name: "in-plugin"},
			Spec: v1alpha1.BackupStorageLocationSpec{Prefix: "cluster", Plugin: &v1alpha1.PluginLocation{
				Provider: "example.io/directory", Bucket: "backups", Config: v1alpha1.ProviderConfig{"directory": v1alpha1.ParameterValue(dir)},
				Credential: &v1alpha1.SecretKeyReference{Name: "cloud", Key: "ini"},
			}},
		})
		env.WaitFor(t, world.Client, location, "it is available", func(l *v1alpha1.BackupStorageLocation) bool {
			return l.Status.Phase == v1alpha1.LocationPhaseAvailable
		})
		app := world.CreateApp(t, 3)
		b := s.backUp(t, app, func(b *v1alpha1.Backup) { b.Spec.StorageLocation = location.Name })
		manifest := filepath.Join(dir, "backups/cluster/backups", b.Name, "velero-backup.json")
		if _, err := os.Stat(manifest); err != nil {
			t.Errorf("the backup is not where it should be: %v", err)
		}
		Expect(s.Operator.Kill()).To(Succeed())
		s.RestartOperator(t)
		r, target := s.restoreOf(b.Name, app)
		outcome(t, env.Create(t, world.Client, r), v1alpha1.RunPhaseCompleted)
		env.CheckEqual(t, "objects", restored(t, target), []string{"c0=0", "c1=1", "c2=2"})

		Expect(s.Operator.Stop()).To(Succeed())
		err := filepath.WalkDir(s.Dir, func(path string, _ os.DirEntry, err error) error {
			if strings.Contains(path, "location-credentials") {
				t.Errorf("the operator left %s", path)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
		world.Delete(t, plugin)
	})
})
