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

var _ = Describe("A storage location and clocks", Label("import"), func() {
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
