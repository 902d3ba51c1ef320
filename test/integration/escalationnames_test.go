// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

var _ = Describe("The rights of authors: names", Label("security"), func() {
	It("refuses names that look like paths", func() {
		t := suite.Spec(GinkgoTB())
		s, jane, _ := meet(t)
		for _, name := range []string{
			"../../etc/passwd", "a/b", "/etc", "..", ".", "a/../../b", "a%2fb", "a b", "a\nb", "a\\b", "$(id)", "A", "a..b", strings.Repeat("a", 201),
		} {
			b := s.NewBackup()
			b.GenerateName, b.Name = "", name
			if err := jane.Create(t.Context(), b); err == nil {
				t.Errorf("a Backup is named %q", name)
			}
		}
	})

	It("keeps each backup in its own directory", func() {
		t := suite.Spec(GinkgoTB())
		s, jane, _ := meet(t)
		app := world.CreateApp(t, 1)
		victim := s.NewBackup(app)
		victim.GenerateName, victim.Name = "", "names"
		victim = outcome(t, s.applyBy(t, jane, victim), v1alpha1.RunPhaseCompleted)
		before := filesOf(t, s, victim.Name)
		for _, name := range []string{
			"names.tar.gz", "names-claim.json", "names-grapnel.json", "velero-backup.json", "backups", "restores", "grapnel.dev", "0",
			"names-" + strings.Repeat("a", 194),
		} {
			By(name[:min(len(name), 20)], func() {
				b := s.NewBackup(app)
				b.GenerateName, b.Name = "", name
				b.Labels = env.LabelsForActions(pair)
				b = outcome(t, s.applyBy(t, jane, b), v1alpha1.RunPhaseCompleted)
				for _, file := range s.filesIn(t, env.DefaultLocation, name) {
					if !strings.HasPrefix(file, name) && file != manifestName {
						t.Errorf("the backup has the file %s", file)
					}
				}
				for _, run := range runsOf(b) {
					if len(run.Name) > 52 {
						t.Errorf("the HookRun is named %s", run.Name)
					}
				}
			})
		}
		t.Cleanup(func() { env.CheckEqual(t, "files of the first backup", filesOf(t, s, victim.Name), before) })
	})

	It("does not follow references that look like paths", func() {
		t := suite.Spec(GinkgoTB())
		s, jane, _ := meet(t)
		app := world.CreateApp(t, 1)
		b := outcome(t, s.applyBy(t, jane, s.NewBackup(app)), v1alpha1.RunPhaseCompleted)
		outside := filepath.Join(s.StoreRoot(), "outside", "backups", b.Name)
		Expect(os.CopyFS(outside, os.DirFS(s.backupDir(env.DefaultLocation, b.Name)))).To(Succeed())
		for name, spec := range map[string]v1alpha1.RestoreSpec{
			"a backup":          {BackupName: "../backups/" + b.Name},
			"a backup below":    {BackupName: b.Name + "/."},
			"another directory": {BackupName: "../../outside/backups/" + b.Name},
			"another root":      {BackupName: outside},
			"a location":        {BackupName: b.Name, StorageLocation: "../outside"},
			"a schedule":        {ScheduleName: "../" + b.Name},
			"nothing at all":    {BackupName: ".."},
			"a shell's thing":   {BackupName: "$(id)"},
		} {
			By(name, func() {
				r := &v1alpha1.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: s.Name, GenerateName: "story-"}, Spec: spec}
				r.Spec.NamespaceMapping = map[string]v1alpha1.NamespaceName{app: v1alpha1.NamespaceName(app + "-never")}
				if err := jane.Create(t.Context(), r); err != nil {
					return // the API server refuses it
				}
				restored(t, r, v1alpha1.RunPhaseFailedValidation)
			})
		}
		b = s.NewBackup(app)
		b.Spec.StorageLocation = "../outside"
		s.applyBy(t, jane, b)
		refused(t, b, []string{`"../outside" does not exist`})
	})
})
