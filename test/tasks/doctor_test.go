// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package tasks

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

// readBundle returns the files of a support bundle.
func readBundle(archive io.Reader) map[string]string {
	GinkgoHelper()
	decompressed, err := gzip.NewReader(archive)
	Expect(err).NotTo(HaveOccurred())
	files := map[string]string{}
	for entries := tar.NewReader(decompressed); ; {
		header, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		Expect(err).NotTo(HaveOccurred())
		content, err := io.ReadAll(entries)
		Expect(err).NotTo(HaveOccurred())
		files[strings.TrimPrefix(header.Name, "grapnel-support-bundle/")] = string(content)
	}
}

var _ = Describe("Problems", Ordered, ContinueOnFailure, func() {
	BeforeAll(func(ctx context.Context) {
		t := suite.Spec(GinkgoTB())
		env.Create(t, world.Client, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "vault"}})
		env.Create(t, world.Client, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "vault", Name: "db"}, StringData: map[string]string{"password": "swordfish"},
		})
	})

	It("says that nothing is wrong, and what was not checked", func(ctx context.Context) {
		Expect(showTask(ctx, 1, "is everything installed, and does it work?", viewer, 0, "doctor")).To(And(
			MatchRegexp(`(?m)^ok +CRDs +all 10 kinds are served`), MatchRegexp(`(?m)^ok +Clock `), MatchRegexp(`(?m)^ok +Locations +1 location available, the default is files$`),
			MatchRegexp(`(?m)^ok +Runs `), MatchRegexp(`(?m)^note +Plugins +not checked: no right to list plugins`),
			MatchRegexp(`(?m)^note +Policies +not checked`), MatchRegexp(`(?m)^note +Leader +not checked`), Not(ContainSubstring("warning"))))
		Expect(grapnel(ctx, stranger, "", "doctor").err).To(ContainSubstring("one of the roles grapnel-viewer"))
	})

	It("checks the operator itself, for those who may", func(ctx context.Context) {
		o := grapnel(ctx, viewer, "", "doctor", "--kubeconfig", world.ControlPlane.KubeconfigPath())
		Expect(o.code).To(Equal(1)) // the operator of the test is no pod
		Expect(o.out).To(And(
			MatchRegexp(`(?m)^ok +Policies +all 8 policies are enforced$`), MatchRegexp(`(?m)^ok +Plugins `),
			MatchRegexp(`(?m)^error +Operator +namespace grapnel-system has no Deployment`), MatchRegexp(`(?m)^warning +Leader +namespace grapnel-system has no lease`),
			MatchRegexp(`(?m)^warning +Downloads +the Service of downloads is missing`), Not(ContainSubstring("not checked: no right"))))
	})

	It("finds a location that cannot be used", func(ctx context.Context) {
		t := suite.Spec(GinkgoTB())
		unreachable := &v1alpha1.BackupStorageLocation{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "unreachable"},
			Spec:       v1alpha1.BackupStorageLocationSpec{S3: &v1alpha1.S3Location{Bucket: "any", Endpoint: "https://127.0.0.1:1", Region: "any"}},
		}
		env.Create(t, world.Client, unreachable)
		Eventually(ctx, func() string { return grapnel(ctx, viewer, "", "doctor").String() }).WithTimeout(patience).Should(And(
			HavePrefix("exit code 1\n"), MatchRegexp(`(?m)^error +Locations +location unreachable is unavailable: .+; fix the location`)))
		world.Delete(t, unreachable)
		Eventually(ctx, func() int { return grapnel(ctx, viewer, "", "doctor").code }).WithTimeout(patience).Should(Equal(0))
	})

	It("collects what a bug report needs", func(ctx context.Context) {
		late := &v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "late"}}
		late.Spec.IncludedNamespaces = []v1alpha1.NamePattern{"vault"}
		late.Spec.Timeouts = &v1alpha1.BackupTimeouts{Run: &metav1.Duration{Duration: time.Millisecond}}
		env.Create(suite.Spec(GinkgoTB()), world.Client, late)
		task(ctx, viewer, 1, "backup wait late --timeout 1m")

		path := filepath.Join(GinkgoT().TempDir(), "bundle.tar.gz")
		out := showTask(ctx, 17, "collect what a bug report needs", viewer, 0, "support-bundle -o FILE", path)
		Expect(out).To(And(ContainSubstring("  doctor.txt\n"), ContainSubstring("  runs/backup-late/ ("), ContainSubstring("Review it before you share it")))
		Expect(out).To(And(ContainSubstring("Left out: plugins: you have no right"), ContainSubstring("Left out: pods of the operator and their logs: you have no right")))
		file, err := os.Open(path)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(file.Close)
		files := readBundle(file)
		Expect(files["doctor.txt"]).To(MatchRegexp(`(?m)^ok +CRDs `))
		Expect(files["version.txt"]).To(ContainSubstring("API server: v"))
		Expect(files["runs/backup-late/log.txt"]).NotTo(BeEmpty())
		Expect(files["objects/backups/late.yaml"]).To(And(ContainSubstring("reason: DeadlineExceeded"), Not(ContainSubstring("managedFields"))))
		Expect(files["events.txt"]).To(ContainSubstring(" Backup/late: "))
		Expect(files["README.txt"]).To(ContainSubstring("  objects/backups/late.yaml, "))
		for name, content := range files {
			Expect(content).NotTo(Or(ContainSubstring("swordfish"), ContainSubstring("c3dvcmRmaXNo")), name)
		}
		Expect(grapnel(ctx, viewer, "", "support-bundle", "-o", path).err).To(ContainSubstring("set --force to overwrite it"))
	})
})
