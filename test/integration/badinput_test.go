// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/s3server"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

// refused checks that a Backup failed validation with messages that have some texts,
// before anything ran.
func refused(t testing.TB, b *v1alpha1.Backup, texts ...[]string) {
	t.Helper()
	b = outcome(t, b, v1alpha1.RunPhaseFailedValidation)
	if len(b.Status.ValidationErrors) != len(texts) {
		t.Errorf("there are %d validation errors, want %d: %q", len(b.Status.ValidationErrors), len(texts), b.Status.ValidationErrors)
	}
	for _, want := range texts {
		says(t, b.Status.ValidationErrors, want...)
	}
	if len(texts) == 1 { // Together they may be too long.
		says(t, []string{b.Status.Message}, texts[0]...)
	}
	awaitEvent(t, b, "Warning FailedValidation: "+b.Status.Message[:min(len(b.Status.Message), 1000)])
	if runs := runsOf(b); len(runs) > 0 {
		t.Errorf("there are %d HookRuns", len(runs))
	}
	if conditionOf(b, v1alpha1.ConditionPlanned) != "" || b.Status.StartTimestamp != nil {
		t.Error("a plan was recorded")
	}
}

var _ = Describe("Invalid input", Label("hooks"), func() {
	It("rejects a spec that cannot work", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		app := world.CreateApp(t, 1)
		selector := func(expression metav1.LabelSelectorRequirement) func(*v1alpha1.Backup) {
			return func(b *v1alpha1.Backup) {
				b.Spec.LabelSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{expression}}
			}
		}
		for name, c := range map[string]struct {
			change func(*v1alpha1.Backup)
			errs   [][]string
		}{
			"a selector with an unknown operator": {
				selector(metav1.LabelSelectorRequirement{Key: "app", Operator: "Like", Values: []string{"web"}}),
				[][]string{{"labelSelector", "Like"}},
			},
			"a selector without values": {
				selector(metav1.LabelSelectorRequirement{Key: "app", Operator: metav1.LabelSelectorOpIn}),
				[][]string{{"labelSelector", "values"}},
			},
			"a resource included and excluded": {
				func(b *v1alpha1.Backup) { b.Spec.ExcludedResources = b.Spec.IncludedResources },
				[][]string{{"configmaps", "excluded"}},
			},
			"a namespace included and excluded": {
				func(b *v1alpha1.Backup) { b.Spec.ExcludedNamespaces = b.Spec.IncludedNamespaces },
				[][]string{{app, "excluded"}},
			},
			"both families of filters": {
				func(b *v1alpha1.Backup) { b.Spec.IncludedNamespaceScopedResources = []v1alpha1.NamePattern{"secrets"} },
				[][]string{{"includedResources", "includedNamespaceScopedResources"}},
			},
			"an unknown location": {
				func(b *v1alpha1.Backup) { b.Spec.StorageLocation = "nowhere" },
				[][]string{{`"nowhere" does not exist`, "create it, or set spec.storageLocation to one of: ", env.DefaultLocation}},
			},
			"everything at once": {
				func(b *v1alpha1.Backup) {
					b.Spec.StorageLocation = "nowhere"
					b.Spec.ExcludedNamespaces = b.Spec.IncludedNamespaces
					b.Annotations = map[string]string{"plain/prebackup": "yes"}
					b.Spec.Metadata = &v1alpha1.BackupMetadata{Labels: map[string]v1alpha1.LabelValue{"app": "no label"}}
				},
				[][]string{{"nowhere"}, {app}, {"plain/prebackup"}, {"metadata.labels", "no label"}},
			},
		} {
			By(name, func() {
				b := s.NewBackup(app)
				b.Labels = env.LabelsForActions(pair, plain)
				c.change(b)
				refused(t, s.apply(t, b), c.errs...)
				s.undisturbed(t, app)
			})
		}
	})

	It("reports a location that cannot be used", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		app := world.CreateApp(t, 1)
		Expect(os.WriteFile(filepath.Join(s.StoreRoot(), "a-file"), nil, 0o600)).To(Succeed())
		// A directory of its own: what others store would be imported from here, too.
		Expect(os.MkdirAll(filepath.Join(s.StoreRoot(), "read-only"), 0o700)).To(Succeed())
		server := s3server.Start(t, s3server.Options{})
		credentials := func(secret string) string {
			return env.Create(t, world.Client, &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: s.Name, GenerateName: "credentials-"},
				StringData: map[string]string{"accessKeyID": server.AccessKey, "secretAccessKey": secret},
			}).Name
		}
		right, wrong := credentials(server.SecretKey), credentials("secret-but-wrong")
		bucket := func(endpoint, name, secret string) v1alpha1.BackupStorageLocationSpec {
			return v1alpha1.BackupStorageLocationSpec{S3: &v1alpha1.S3Location{
				Bucket: name, Endpoint: endpoint, Region: "us-east-1", ForcePathStyle: true,
				CredentialsSecret: &v1alpha1.SecretReference{Name: secret},
			}}
		}
		dir := &v1alpha1.FilesystemLocation{Path: "a-file/below"}
		for name, c := range map[string]struct {
			spec v1alpha1.BackupStorageLocationSpec
			says []string
		}{
			"unwritable":        {v1alpha1.BackupStorageLocationSpec{Filesystem: dir}, []string{"a-file"}},
			"unreachable":       {bucket("http://127.0.0.1:1", server.Bucket, right), []string{"127.0.0.1:1"}},
			"wrong-credentials": {bucket(server.URL, server.Bucket, wrong), []string{"SignatureDoesNotMatch"}},
			"no-credentials":    {bucket(server.URL, server.Bucket, "no-credentials"), []string{"Secret no-credentials", "not found"}},
			"no-bucket":         {bucket(server.URL, "no-bucket", right), []string{"bucket"}},
			"read-only": {
				v1alpha1.BackupStorageLocationSpec{
					AccessMode: v1alpha1.AccessModeReadOnly, Filesystem: &v1alpha1.FilesystemLocation{Path: "read-only"},
				},
				[]string{"is read-only; set its spec.accessMode to ReadWrite or choose another one"},
			},
		} {
			By(name, func() {
				location := env.Create(t, world.Client, &v1alpha1.BackupStorageLocation{
					ObjectMeta: metav1.ObjectMeta{Namespace: s.Name, GenerateName: name + "-"}, Spec: c.spec,
				}).Name
				b := s.NewBackup(app)
				b.Labels = env.LabelsForActions(pair)
				b.Spec.StorageLocation = location
				refused(t, s.apply(t, b), append(slices.Clone(c.says), "BackupStorageLocation "+location))
				if strings.Contains(describe(b), "secret-but-wrong") {
					t.Error("the message has the secret key")
				}
				s.undisturbed(t, app)
			})
		}
	})

	It("reports a name that is taken", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		app := world.CreateApp(t, 1)
		owner := outcome(t, s.apply(t, s.NewBackup(app)), v1alpha1.RunPhaseCompleted)
		world.Delete(t, owner)
		awaitGone(t, owner)
		claimed := owner.Name + "-claimed"
		claim := storage.Claim{BackupUID: "another-cluster", Namespace: "there", Name: claimed, Created: time.Now()}
		Expect(s.open(t.Context(), t, env.DefaultLocation).Claim(t.Context(), claimed, claim)).To(Succeed())
		for name, c := range map[string]struct{ name, owner string }{
			"by a backup":               {owner.Name, string(owner.UID)},
			"by one that is being made": {claimed, "another-cluster"},
		} {
			By(name, func() {
				before := filesOf(t, s, c.name)
				b := s.NewBackup(app)
				b.GenerateName, b.Name = "", c.name
				b.Labels = env.LabelsForActions(pair)
				b = s.apply(t, b)
				refused(t, b, []string{c.owner, "choose another name, or remove that backup first"})
				env.CheckEqual(t, "files", filesOf(t, s, c.name), before)
			})
		}
		s.undisturbed(t, app)
	})

	It("redacts secrets that a plugin logs", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		b := s.NewBackup(world.CreateApp(t, 1))
		b.Labels = env.LabelsForActions(pair, preOnly)
		parameter(b, pair, "fault", "log-secret")
		s.apply(t, b)
		b = outcome(t, b, v1alpha1.RunPhaseCompleted)
		for _, file := range []storage.File{storage.Logs, storage.PostLogs} {
			says(t, []string{s.file(t, b, file)}, "Connecting with password=[REDACTED]") // the rules look for what is not there
		}
		if err := world.CheckLogsForSecrets(); err != nil {
			t.Error(err)
		}
	})

	It("includes a Plugin that was applied right before", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		app := world.CreateApp(t, 1)
		for range 5 {
			action := own(t, "late")
			plugin := world.NewFaultPlugin(filepath.Base(action), both(v1alpha1.PluginAction{Name: action}))
			b := s.NewBackup(app)
			b.Labels = env.LabelsForActions(action)
			createPlugin(t, plugin)
			s.apply(t, b)
			b = outcome(t, b, v1alpha1.RunPhaseCompleted)
			env.CheckEqual(t, "calls", callsOf(t, b), []string{"PreBackup " + action + " #1", "PostBackup " + action + " #1"})
		}
	})
})

// filesOf returns the files of a backup in the store with their contents.
func filesOf(t testing.TB, s site, name string) []string {
	t.Helper()
	var files []string
	dir := filepath.Join(s.StoreRoot(), env.DefaultLocation, "backups", name)
	entries, err := os.ReadDir(dir)
	Expect(err).NotTo(HaveOccurred())
	for _, entry := range entries {
		content, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		Expect(err).NotTo(HaveOccurred())
		files = append(files, entry.Name()+" "+string(content))
	}
	if len(files) == 0 {
		t.Fatalf("there are no files of %s", name)
	}
	return files
}
