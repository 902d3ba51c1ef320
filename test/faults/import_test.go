// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
)

// putManifest stores a manifest of Velero's form, as of some hours ago.
func putManifest(t testing.TB, dir, name, content string, hoursAgo int) {
	t.Helper()
	dir = filepath.Join(dir, "backups", name)
	file := filepath.Join(dir, "velero-backup.json")
	stored := time.Now().Add(-time.Duration(hoursAgo) * time.Hour)
	Expect(os.MkdirAll(dir, 0o755)).To(Succeed())
	Expect(os.WriteFile(file, []byte(content), 0o600)).To(Succeed())
	Expect(os.Chtimes(file, stored, stored)).To(Succeed())
}

// newForgedManifest returns a manifest of about 300 KB that the API accepts as a Backup.
func newForgedManifest(name string) string {
	namespaces := func(prefix string) []string {
		var all []string
		for i := range 2000 {
			all = append(all, fmt.Sprintf("%s-%050d", prefix, i))
		}
		return all
	}
	content, err := json.Marshal(map[string]any{
		"kind": "Backup", "apiVersion": "velero.io/v1",
		"metadata": map[string]any{
			"name": name, "namespace": "velero", "uid": "v-" + name,
			"annotations": map[string]string{"example.io/note": strings.Repeat("x", 60_000)},
		},
		"spec": map[string]any{"includedNamespaces": namespaces("in"), "excludedNamespaces": namespaces("out")},
		"status": map[string]any{
			"phase": "Completed", "formatVersion": "1.1.0",
			"startTimestamp": "2025-01-02T03:04:05Z", "completionTimestamp": "2025-01-02T03:05:00Z",
		},
	})
	Expect(err).NotTo(HaveOccurred())
	return string(content)
}

// importedFrom returns the Backups that were imported from a location.
func importedFrom(s *env.Namespace, location string) []v1alpha1.Backup {
	var list, imported v1alpha1.BackupList
	ExpectWithOffset(1, world.Client.List(GinkgoTB().Context(), &list, client.InNamespace(s.Name))).To(Succeed())
	for _, b := range list.Items {
		if b.Spec.ImportedFrom != nil && b.Location() == location {
			imported.Items = append(imported.Items, b)
		}
	}
	return imported.Items
}

// awaitSynced waits until a location says why it is in sync or not.
func awaitSynced(t testing.TB, bsl *v1alpha1.BackupStorageLocation, reason string) *metav1.Condition {
	t.Helper()
	bsl = env.WaitFor(t, world.Client, bsl, "Synced is "+reason, func(l *v1alpha1.BackupStorageLocation) bool {
		synced := conditions.Get(l, v1alpha1.ConditionSynced)
		return synced != nil && synced.Reason == reason
	})
	return conditions.Get(bsl, v1alpha1.ConditionSynced)
}

var _ = Describe("A bucket in which others write", func() {
	It("has a budget in etcd and in the operator's memory", func() {
		t := GinkgoTB()
		s := world.StartOperator(t, "--backup-sync-interval=1s")
		app := world.CreateApp(t, 1)
		b := env.WaitFor(t, world.Client, env.Create(t, world.Client, s.NewBackup(app)), "it has completed", func(b *v1alpha1.Backup) bool {
			return b.Status.Phase == v1alpha1.RunPhaseCompleted
		})

		By("storing 60 forged manifests of 300 KB, and one real backup that is older")
		const limit = 10
		for i := range 60 {
			name := fmt.Sprintf("forged-%02d", i)
			putManifest(t, s.LocationDir("shared"), name, newForgedManifest(name), 1+(i*7)%60) // the names do not tell the order
		}
		from, to := filepath.Join(s.LocationDir(env.DefaultLocation), "backups", b.Name), filepath.Join(s.LocationDir("shared"), "backups", b.Name)
		Expect(os.CopyFS(to, os.DirFS(from))).To(Succeed())
		old := time.Now().Add(-1000 * time.Hour)
		Expect(os.Chtimes(filepath.Join(to, "velero-backup.json"), old, old)).To(Succeed())

		bsl := s.NewLocation("shared")
		maxBackups := int32(limit)
		bsl.Spec.Sync = &v1alpha1.LocationSync{MaxBackups: &maxBackups}
		env.Create(t, world.Client, bsl)
		synced := awaitSynced(t, bsl, v1alpha1.ReasonImportLimited)
		Expect(synced.Status).To(Equal(metav1.ConditionTrue))
		Expect(synced.Message).To(ContainSubstring("51 backups of others are not imported: only the newest 10 are (spec.sync.maxBackups)"))

		By("looking what was imported")
		all := importedFrom(s, "shared")
		Expect(all).To(HaveLen(limit))
		for _, b := range all {
			content, err := json.Marshal([]any{b.Spec, b.Labels, b.Annotations})
			Expect(err).NotTo(HaveOccurred())
			Expect(len(content)).To(BeNumerically("<=", 8<<10), b.Name)
			Expect(b.Annotations[v1alpha1.AnnotationAbridged]).To(ContainSubstring("spec.includedNamespaces"))
			var i int
			_, err = fmt.Sscanf(b.Name, "forged-%02d", &i)
			Expect(err).NotTo(HaveOccurred())
			Expect((i*7)%60).To(BeNumerically("<", limit), "%s is none of the newest", b.Name)
		}
		Eventually(func() int { return importLimitedEvents(s) }).Should(Equal(1))

		By("restoring what was left out")
		world.Delete(t, env.NewConfigMap(app, 0))
		r := env.Create(t, world.Client, &v1alpha1.Restore{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.Name, GenerateName: "story-"},
			Spec:       v1alpha1.RestoreSpec{BackupName: b.Name, StorageLocation: "shared"},
		})
		env.WaitFor(t, world.Client, r, "it has completed", func(r *v1alpha1.Restore) bool {
			return r.Status.Phase == v1alpha1.RunPhaseCompleted
		})
		Expect(world.Exists(t, env.NewConfigMap(app, 0))).To(BeTrue())

		By("destroying an imported backup whose object is abridged")
		d := env.Create(t, world.Client, &v1alpha1.DeletionRun{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.Name, GenerateName: "story-"},
			Spec:       v1alpha1.DeletionRunSpec{BackupName: all[0].Name, DestroyForeign: true},
		})
		env.WaitFor(t, world.Client, d, "it has completed", func(d *v1alpha1.DeletionRun) bool {
			return d.Status.Phase == v1alpha1.RunPhaseCompleted
		})
		Eventually(func() int { return len(importedFrom(s, "shared")) }).Should(Equal(limit), "the next one takes its place")
		Expect(importLimitedEvents(s)).To(Equal(1), "an event for each look is too many")
	})

	It("has bad manifests that are a warning of their location and nothing else", func() {
		t := GinkgoTB()
		s := world.StartOperator(t, "--backup-sync-interval=1s")
		directory := s.LocationDir("damaged")
		good := strings.Replace(newForgedManifest("good"), `"velero"`, `"v"`, 1)
		putManifest(t, directory, "good", good, 3)
		putManifest(t, directory, "huge", `{"kind":"Backup","metadata":{"name":"huge","annotations":{"a":"`+strings.Repeat("x", 2<<20)+`"}}}`, 2)
		putManifest(t, directory, "rejected", strings.Replace(newForgedManifest("rejected"), `"spec":{`, `"spec":{"includedResources":[`+strings.Repeat(`"r",`, 600)+`"r"],`, 1), 1)
		putManifest(t, directory, "an odd name", newForgedManifest("an odd name"), 0)
		bsl := env.Create(t, world.Client, s.NewLocation("damaged"))
		synced := awaitSynced(t, bsl, v1alpha1.ReasonBackupsUnreadable)
		Expect(synced.Message).To(And(ContainSubstring("2 backups cannot be imported"), ContainSubstring("huge: "), ContainSubstring("rejected: ")))
		all := importedFrom(s, "damaged")
		Expect(all).To(HaveLen(1))
		Expect(all[0].Name).To(Equal("good"))
		env.WaitFor(t, world.Client, env.Create(t, world.Client, s.NewBackup(world.CreateApp(t, 1))), "it has completed", func(b *v1alpha1.Backup) bool {
			return b.Status.Phase == v1alpha1.RunPhaseCompleted
		})
	})
})

// importLimitedEvents returns how often locations said that they import only a part.
func importLimitedEvents(s *env.Namespace) int {
	var list eventsv1.EventList
	ExpectWithOffset(1, world.Client.List(GinkgoTB().Context(), &list, client.InNamespace(s.Name))).To(Succeed())
	n := 0
	for _, event := range list.Items {
		if event.Reason != v1alpha1.ReasonImportLimited {
			continue
		}
		n++
		if event.Series != nil {
			n += int(event.Series.Count) - 1
		}
	}
	return n
}
