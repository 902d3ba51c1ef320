// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

var _ = Describe("The deletion of backups in a lost location", Label("deletion"), func() {
	Context("removes the objects when a user requests it", func() {
		for name, lose := range suite.SortedByName(map[string]func(testing.TB, *v1alpha1.BackupStorageLocation){
			"gone": func(t testing.TB, l *v1alpha1.BackupStorageLocation) { t.Helper(); world.Delete(t, l) },
			"read-only": func(t testing.TB, l *v1alpha1.BackupStorageLocation) {
				t.Helper()
				world.Patch(t, l, `{"spec":{"accessMode":"ReadOnly"}}`)
			},
		}) {
			It(name, func() {
				t := suite.Spec(GinkgoTB())
				s := site{world.SharedOperator(t)}
				files := env.Create(t, world.Client, newDirLocation(s, filepath.Base(own(t, "lost"))))
				b := s.NewBackup(world.CreateApp(t, 1))
				b.Spec.StorageLocation, b.Spec.DeletionPolicy = files.Name, v1alpha1.DeletionPolicyDelete
				env.Create(t, world.Client, b)
				await(t, b, "it has ended", func(b *v1alpha1.Backup) bool {
					return b.Status.Phase == v1alpha1.RunPhaseCompleted && slices.Contains(b.Finalizers, v1alpha1.FinalizerStoredData)
				})
				lose(t, files)
				world.Delete(t, b)
				var d *v1alpha1.DeletionRun
				eventually(t, func() string {
					for _, d = range deletionsOf(b) {
						return ""
					}
					return "there is no DeletionRun"
				})
				waiting := await(t, d, "it says what to do", func(d *v1alpha1.DeletionRun) bool {
					return strings.Contains(d.Status.Message, v1alpha1.AnnotationAbandonData)
				})
				says(t, []string{waiting.Status.Message}, files.Name)
				world.Patch(t, b, `{"metadata":{"annotations":{"`+v1alpha1.AnnotationAbandonData+`":"true"}}}`)
				d = destroyed(t, d, v1alpha1.RunPhasePartiallyFailed, "left behind", "the files of backup "+b.Name+" in BackupStorageLocation "+files.Name)
				awaitGone(t, b)
				awaitEvent(t, d, "Warning DataLeftBehind: ")
			})
		}
	})
})
