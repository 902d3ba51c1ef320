// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/archive"
	"github.com/grapnel-dev/grapnel/internal/download"
	"github.com/grapnel-dev/grapnel/internal/results"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

// downloads is a client for the files of the runs.
func (s site) downloads() *download.Client {
	return &download.Client{Client: world.Client, Config: world.ControlPlane.Config(), Namespace: s.Name}
}

// download returns a file of a Backup.
func (s site) download(t testing.TB, kind v1alpha1.DownloadTargetKind, b *v1alpha1.Backup) string {
	t.Helper()
	file, err := s.downloads().Open(t.Context(), v1alpha1.DownloadTarget{Kind: kind, Name: b.Name}, false)
	Expect(err).NotTo(HaveOccurred())
	content, err := io.ReadAll(file)
	Expect(errors.Join(err, file.Close())).To(Succeed())
	return string(content)
}

// newPluginLocation creates a location in the store of a plugin, and returns its name.
func (s site) newPluginLocation(t testing.TB) string {
	t.Helper()
	// Suspended: its hooks are for no run here. That is not about its locations.
	plugin := &v1alpha1.Plugin{ObjectMeta: metav1.ObjectMeta{GenerateName: "dirs-"}}
	plugin.Spec.Suspend = true
	plugin.Spec.Executor.Process = &v1alpha1.ProcessExecutor{Command: "example"}
	plugin = env.Create(t, world.Client, plugin)
	t.Cleanup(func() { world.Delete(t, plugin) })
	return env.Create(t, world.Client, &v1alpha1.BackupStorageLocation{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Name, Name: "in-plugin"},
		Spec: v1alpha1.BackupStorageLocationSpec{Plugin: &v1alpha1.PluginLocation{
			Provider: "example.io/directory", Bucket: "backups",
			Config: v1alpha1.ProviderConfig{"directory": v1alpha1.ParameterValue(filepath.Join(s.Dir, "of-the-plugin"))},
		}},
	}).Name
}

var _ = Describe("Downloads", Label("downloads"), func() {
	for kind, newLocation := range suite.SortedByName(map[string]func(testing.TB, site) string{
		"a directory": func(testing.TB, site) string { return "" },
		"a bucket":    func(t testing.TB, s site) string { t.Helper(); return newBucket(t, s).location },
		"a plugin":    func(t testing.TB, s site) string { t.Helper(); return s.newPluginLocation(t) },
	}) {
		It("come from the store of "+kind, func() {
			t := suite.Spec(GinkgoTB())
			s := site{world.StartOperator(t)}
			app := world.CreateApp(t, 3)
			backup := s.NewBackup(app)
			backup.Spec.StorageLocation = newLocation(t, s)
			b := outcome(t, env.Create(t, world.Client, backup), v1alpha1.RunPhaseCompleted)

			Expect(s.download(t, v1alpha1.DownloadBackupLog, b)).To(ContainSubstring("Archiving objects"))
			var stored results.Results
			Expect(json.Unmarshal([]byte(s.download(t, v1alpha1.DownloadBackupResults, b)), &stored)).To(Succeed())
			Expect(s.download(t, v1alpha1.DownloadBackupResourceList, b)).To(ContainSubstring(app + "/c1"))
			var paths []string
			content := s.download(t, v1alpha1.DownloadBackupContents, b)
			Expect(archive.Walk(bytes.NewReader([]byte(content)), archive.Limits{}, func(entry archive.Entry) error {
				paths = append(paths, entry.Path)
				return nil
			})).To(Succeed())
			Expect(paths).To(ContainElement(configMap(app, "c1")))

			_, err := s.downloads().Open(t.Context(), v1alpha1.DownloadTarget{Kind: v1alpha1.DownloadBackupPostLog, Name: b.Name}, false)
			refused, ok := errors.AsType[*download.Error](err)
			Expect(ok && refused.Code == http.StatusNotFound).To(BeTrue(), "a log of no actions: %v", err)
			_, err = s.downloads().Open(t.Context(), v1alpha1.DownloadTarget{Kind: v1alpha1.DownloadBackupLog, Name: "no-such-backup"}, false)
			Expect(err).To(MatchError(ContainSubstring("Backup no-such-backup does not exist in this namespace")))

			var left v1alpha1.DownloadRequestList
			Expect(world.Client.List(t.Context(), &left, client.InNamespace(s.Name))).To(Succeed())
			Expect(left.Items).To(BeEmpty(), "requests that were used")
		})
	}

	It("follow the log of a Backup until it has ended", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		backup := s.NewBackup(world.CreateApp(t, 1))
		backup.Labels = env.LabelsForActions(preHolds)
		b := s.apply(t, backup)
		awaitCall(t, b, v1alpha1.HookPreBackup, preHolds)
		file, err := s.downloads().Open(t.Context(), v1alpha1.DownloadTarget{Kind: v1alpha1.DownloadBackupLog, Name: b.Name}, true)
		Expect(err).NotTo(HaveOccurred())
		lines := bufio.NewScanner(file)
		for lines.Scan() && !strings.Contains(lines.Text(), "Calling the action") {
			continue
		}
		Expect(lines.Text()).To(ContainSubstring(preHolds), "the log ended before the call: %v", lines.Err())
		cancelBackup(t, b)
		rest, err := io.ReadAll(file)
		Expect(errors.Join(err, file.Close())).To(Succeed())
		Expect(string(rest)).To(ContainSubstring("Cancelled"))
		outcome(t, b, v1alpha1.RunPhaseCancelled)
		Expect(s.download(t, v1alpha1.DownloadBackupLog, b)).To(HaveSuffix(string(rest)), "the stored log")
	})
})
