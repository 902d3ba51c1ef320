// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package storagelocation_test

import (
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

// withCheckInterval sets how often a location is checked.
func withCheckInterval(d time.Duration) func(*v1alpha1.BackupStorageLocation) {
	return func(bsl *v1alpha1.BackupStorageLocation) { bsl.Spec.CheckInterval = &metav1.Duration{Duration: d} }
}

var _ = Describe("A storage location and clocks", Label("import"), func() {
	It("is checked as often as it says", func() {
		t := GinkgoTB()
		env, root := cluster.NewEnv(t), t.TempDir()
		operator(t, env, root)
		bsl := directory(env, "main", withCheckInterval(time.Second))
		await(env, bsl, available)
		write(t, root, "occupied")
		if err := os.Rename(filepath.Join(root, "main"), filepath.Join(root, "away")); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("occupied", filepath.Join(root, "main")); err != nil {
			t.Fatal(err)
		}
		await(env, bsl, unavailable("opening directory"))
	})

	It("is not checked again if it says so, unless it cannot be used", func() {
		t := GinkgoTB()
		env, root := cluster.NewEnv(t), t.TempDir()
		operator(t, env, root, often)
		inTheWay := write(t, root, "broken")
		broken := directory(env, "broken", withCheckInterval(0))
		rare := directory(env, "rare", withCheckInterval(time.Hour))
		never, others := directory(env, "never", withCheckInterval(0)), directory(env, "others")
		await(env, broken, unavailable("opening directory"))
		for _, bsl := range []*v1alpha1.BackupStorageLocation{rare, never, others} {
			await(env, bsl, available)
		}
		if err := os.Remove(inTheWay); err != nil {
			t.Fatal(err)
		}
		await(env, broken, available)
		first := others.Status.LastValidationTime
		suite.WaitFor(env, others, func(l *v1alpha1.BackupStorageLocation) string {
			if l.Status.LastValidationTime.Sub(first.Time) < 2*time.Second {
				return "it is not checked again"
			}
			return ""
		})
		for _, bsl := range []*v1alpha1.BackupStorageLocation{rare, never} {
			before := bsl.Status.LastValidationTime
			if suite.GetIfExists(env, bsl); !bsl.Status.LastValidationTime.Equal(before) {
				t.Errorf("location %s was checked at %s and at %s", bsl.Spec.Filesystem.Path, before, bsl.Status.LastValidationTime)
			}
		}
	})

	It("is checked in time although the last check was recorded by a clock a month ahead", func() {
		t := GinkgoTB()
		env, root := cluster.NewEnv(t), t.TempDir()
		operator(t, env, root)
		if err := os.Mkdir(filepath.Join(root, "main"), 0o700); err != nil {
			t.Fatal(err)
		}
		bsl := directory(env, "main")
		await(env, bsl, available)
		ahead := metav1.NewTime(time.Now().Add(720 * time.Hour))
		patch := client.MergeFrom(bsl.DeepCopy())
		bsl.Status.LastValidationTime = &ahead
		if err := env.Client.Status().Patch(t.Context(), bsl, patch); err != nil {
			t.Fatal(err)
		}
		suite.WaitFor(env, bsl, func(l *v1alpha1.BackupStorageLocation) string {
			if l.Status.LastValidationTime.After(time.Now()) {
				return "it is not checked again before " + l.Status.LastValidationTime.String()
			}
			return ""
		})
	})
})
