// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"archive/tar"
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

var _ = Describe("Restores with invalid input", Label("restore"), func() {
	It("reports a backup that cannot be used", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		app := world.CreateApp(t, 1)

		running := s.NewBackup(app)
		running.Labels, running.Spec.Parameters = env.LabelsForActions(first), parameter(first, "fault", "wait")
		env.WaitFor(t, world.Client, env.Create(t, world.Client, running), "it runs", func(b *v1alpha1.Backup) bool { return b.Status.Phase == v1alpha1.RunPhaseInProgress })
		invalid := s.NewBackup(app)
		invalid.Spec.ExcludedNamespaces = invalid.Spec.IncludedNamespaces
		env.WaitFor(t, world.Client, env.Create(t, world.Client, invalid), "it has failed", func(b *v1alpha1.Backup) bool { return b.Status.CompletionTimestamp != nil })

		for name, c := range map[string]struct {
			backup string
			texts  []string
		}{
			"unknown":       {"nobody-made-it", []string{"BackupStorageLocation files has no finished backup \"nobody-made-it\"", "fix spec.backupName"}},
			"has not ended": {running.Name, []string{"Backup " + running.Name + " has not ended (InProgress)"}},
			"failed":        {invalid.Name, []string{"Backup " + invalid.Name + " ended as FailedValidation and has no objects"}},
		} {
			By(name, func() {
				r, target := s.restoreOf(c.backup, app)
				outcome(t, env.Create(t, world.Client, r), v1alpha1.RunPhaseFailedValidation, c.texts...)
				untouched(t, target)
			})
		}
	})

	It("finds a backup that has no object", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		app := world.CreateApp(t, 1)
		b := s.backUp(t, app)
		world.Delete(t, b)
		world.WaitForDeletion(t, b)
		r, target := s.restoreOf(b.Name, app)
		outcome(t, env.Create(t, world.Client, r), v1alpha1.RunPhaseCompleted, "2 created")
		env.CheckEqual(t, "objects", restored(t, target), []string{"c0=0"})
	})

	It("rejects a backup that was replaced", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		app := world.CreateApp(t, 1)
		b := s.backUp(t, app)
		const other = "made-by-another-cluster"
		damage(t, filepath.Join(s.LocationDir(env.DefaultLocation), "backups", b.Name, b.Name+"-grapnel.json"), func(content []byte) []byte {
			return []byte(strings.ReplaceAll(string(content), string(b.UID), other))
		})
		r, target := s.restoreOf(b.Name, app)
		r.Labels = env.LabelsForActions(first)
		outcome(t, env.Create(t, world.Client, r), v1alpha1.RunPhaseFailedValidation,
			"now has another backup named \""+b.Name+"\"", other, string(b.UID), "spec.importedFrom.backupUID")
		untouched(t, target)

		object := &v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: s.Name, GenerateName: "found-"}}
		object.Spec.ImportedFrom = &v1alpha1.ImportSource{StorageLocation: env.DefaultLocation, BackupName: b.Name, BackupUID: other}
		r, target = s.restoreOf(env.Create(t, world.Client, object).Name, app)
		outcome(t, env.Create(t, world.Client, r), v1alpha1.RunPhaseCompleted, "2 created")
		env.CheckEqual(t, "objects", restored(t, target), []string{"c0=0"})
	})

	// An invalid Restore does not wait: it reports all problems at once.
	It("waits for the location", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		app := world.CreateApp(t, 1)
		r, target := s.restoreOf(s.backUp(t, app).Name, app)
		r.Spec.StorageLocation = "never-comes"
		invalid := r.DeepCopy()
		invalid.Spec.IncludedNamespaces = []v1alpha1.NamePattern{"same"}
		invalid.Spec.ExcludedNamespaces = invalid.Spec.IncludedNamespaces
		outcome(t, env.Create(t, world.Client, invalid), v1alpha1.RunPhaseFailedValidation, "never-comes", "2 problems must be fixed")
		env.Create(t, world.Client, r)
		env.WaitFor(t, world.Client, r, "it waits for the location", func(r *v1alpha1.Restore) bool {
			return reasonOf(r, v1alpha1.ConditionSucceeded) == v1alpha1.ReasonWaitingForLocation
		})
		outcome(t, r, v1alpha1.RunPhaseFailedValidation, "never-comes")
		untouched(t, target)
	})

	Context("rejects damaged files", func() {
		for name, c := range suite.SortedByName(map[string]struct {
			damage func(content []byte) []byte
			file   func(backup string) string
			phase  v1alpha1.RunPhase
			texts  []string
		}{
			"no manifest": {
				func([]byte) []byte { return nil }, func(string) string { return "velero-backup.json" },
				v1alpha1.RunPhaseFailedValidation,
				[]string{"has no finished backup"},
			},
			"a manifest that is no JSON": {
				func([]byte) []byte { return []byte("hello") }, func(string) string { return "velero-backup.json" },
				v1alpha1.RunPhaseFailedValidation,
				[]string{"its manifest is damaged", "restore its files from a copy, or use another backup"},
			},
			"another manifest": {
				func(content []byte) []byte {
					return []byte(strings.ReplaceAll(string(content), `"Completed"`, `"Failed"`))
				}, func(string) string { return "velero-backup.json" },
				v1alpha1.RunPhaseFailedValidation,
				[]string{"does not belong to velero-backup.json", "restore its files from a copy, or use another backup"},
			},
			"half a manifest of Grapnel": {
				func(content []byte) []byte { return content[:len(content)/2] },
				func(backup string) string { return backup + "-grapnel.json" },
				v1alpha1.RunPhaseFailedValidation,
				[]string{"is not a manifest", "restore its files from a copy, or use another backup"},
			},
			"no manifest of Grapnel": {
				func([]byte) []byte { return nil }, func(backup string) string { return backup + "-grapnel.json" },
				v1alpha1.RunPhaseFailedValidation,
				[]string{"-grapnel.json is missing", "restore that file from a copy", v1alpha1.AnnotationAllowUnverified + "=true"},
			},
			"no archive": {
				func([]byte) []byte { return nil }, archiveOf, v1alpha1.RunPhaseFailed,
				[]string{"nothing was restored", ".tar.gz is missing: restore it from a copy or restore another backup"},
			},
			"a truncated archive": {
				func(content []byte) []byte { return content[:len(content)/2] },
				archiveOf, v1alpha1.RunPhaseFailed, damaged("archive is not what was stored: it has "),
			},
			"an archive with another byte": {
				func(content []byte) []byte {
					content[len(content)/2] ^= 1
					return content
				}, archiveOf, v1alpha1.RunPhaseFailed, damaged(),
			},
			"an archive that is good, and not the one that was stored": {
				func(content []byte) []byte {
					content[4] ^= 1 // the time in the header of gzip, which decides nothing
					return content
				}, archiveOf, v1alpha1.RunPhaseFailed, damaged("archive is not what was stored: its SHA-256 is "),
			},
			"an archive that is none": {
				func([]byte) []byte { return []byte("hello") },
				archiveOf, v1alpha1.RunPhaseFailed, damaged(),
			},
		}) {
			It(name, func() {
				t := suite.Spec(GinkgoTB())
				s := site{world.SharedOperator(t)}
				app := world.CreateApp(t, 1)
				b := s.backUp(t, app)
				world.Delete(t, b) // only the location tells what it is
				world.WaitForDeletion(t, b)
				damage(t, filepath.Join(s.LocationDir(env.DefaultLocation), "backups", b.Name, c.file(b.Name)), c.damage)
				r, target := s.restoreOf(b.Name, app)
				r.Labels = env.LabelsForActions(first)
				outcome(t, env.Create(t, world.Client, r), c.phase, c.texts...)
				untouched(t, target)
			})
		}
	})

	It("reports all problems at once", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		app := world.CreateApp(t, 1)
		r, _ := s.restoreOf(s.backUp(t, app).Name, app)
		r.Spec.NamespaceMapping = map[string]v1alpha1.NamespaceName{"a": "Not_A_Name", "b": "forbidden"}
		r.Spec.ExcludedNamespaces = []v1alpha1.NamePattern{"forbidden"}
		r.Labels = env.LabelsForActions(first)
		r.Annotations = map[string]string{first + ".postrestore": "no"}
		r = outcome(t, env.Create(t, world.Client, r), v1alpha1.RunPhaseFailedValidation, "3 problems must be fixed",
			`spec.namespaceMapping[a]: "Not_A_Name" is not a namespace name`,
			`spec.namespaceMapping[b]: it is mapped onto "forbidden", which spec.excludedNamespaces excludes`,
			`annotation story.example.io/z-first.postrestore has the value "no"`)
		if len(r.Status.ValidationErrors) != 3 {
			t.Errorf("there are %d validation errors, want 3: %q", len(r.Status.ValidationErrors), r.Status.ValidationErrors)
		}
	})

	// Velero keeps the manifests of failed backups, Grapnel does not.
	Context("rejects a failed backup of Velero", func() {
		for phase, want := range suite.SortedByName(map[string]v1alpha1.RunPhase{
			"Failed":          v1alpha1.RunPhaseFailedValidation,
			"InProgress":      v1alpha1.RunPhaseFailedValidation,
			"PartiallyFailed": v1alpha1.RunPhaseCompleted,
		}) {
			It(phase, func() {
				t := suite.Spec(GinkgoTB())
				s := site{world.SharedOperator(t)}
				app := world.CreateApp(t, 1)
				archive := newArchive(t, func(w *tar.Writer) { goodStart(t, w, app) })
				r, target := s.restoreOf(s.fromVelero(t, strings.ReplaceAll(manifestOfVelero, "Completed", phase), archive), app)
				r = outcome(t, env.Create(t, world.Client, r), want)
				if want == v1alpha1.RunPhaseCompleted {
					env.CheckEqual(t, "objects", restored(t, target), []string{"c0=0"})
					return
				}
				untouched(t, target)
				says(t, r.Status.Message, "is "+phase+"; only a backup that is Completed or PartiallyFailed can be restored")
			})
		}
	})

	// A file blocks the directory. The outcome is that of the objects.
	It("warns when the results cannot be stored", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		location := env.Create(t, world.Client, s.NewLocation("sealed-"+strings.ToLower(rand.Text()[:8])))
		app := world.CreateApp(t, 1)
		b := s.backUp(t, app, func(b *v1alpha1.Backup) { b.Spec.StorageLocation = location.Name })
		world.Patch(t, location, `{"spec":{"accessMode":"ReadOnly"}}`)
		restores := filepath.Join(s.LocationDir(location.Name), "restores")
		Expect(os.WriteFile(restores, nil, 0o600)).To(Succeed())
		r, target := s.restoreOf(b.Name, app)
		r.Labels = env.LabelsForActions(first)
		env.Create(t, world.Client, r)
		r = env.WaitFor(t, world.Client, r, "the outcome is known", func(r *v1alpha1.Restore) bool { return r.Status.CompletionTimestamp != nil })
		if r.Status.Phase != v1alpha1.RunPhaseCompleted || r.Status.Counts == nil || r.Status.Counts.Created != 2 || r.Status.Warnings != 1 {
			t.Errorf("the phase is %s with the counts %v and %d warnings, want Completed, 2 created and 1 warning", r.Status.Phase, r.Status.Counts, r.Status.Warnings)
		}
		says(t, r.Status.Message, "Objects: 2 created, 1 warning; what became of each object could not be stored: ")
		env.CheckEqual(t, "objects", restored(t, target), []string{"c0=0"})
		// The pair is undone meanwhile, and the rest follows when the directory is there.
		runOf(t, r, v1alpha1.HookPostRestore, first, func(run v1alpha1.HookRun) bool {
			return run.Status.Phase == v1alpha1.HookRunPhaseCompleted
		})
		Expect(os.Remove(restores)).To(Succeed())
		r = outcome(t, r, v1alpha1.RunPhaseCompleted)
		if !conditions.IsTrue(r, v1alpha1.ConditionResultsStored) || strings.Contains(r.Status.Message, "could not be stored") {
			t.Errorf("its files were stored later, and it says %q", r.Status.Message)
		}
		if _, err := os.Stat(filepath.Join(s.LocationDir(location.Name), r.Status.Files.Log)); err != nil {
			t.Error(err)
		}
	})
})

func archiveOf(backup string) string { return storage.FileName(backup, storage.Contents) }

// damage changes a file, or removes it.
func damage(t testing.TB, path string, change func([]byte) []byte) {
	t.Helper()
	content, err := os.ReadFile(path)
	Expect(err).NotTo(HaveOccurred())
	if content = change(content); content == nil {
		err = os.Remove(path)
	} else {
		err = os.WriteFile(path, content, 0o600)
	}
	Expect(err).NotTo(HaveOccurred())
}
