// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
)

// TestALocationIsLost takes the location away, or the right to write there. The objects can
// be removed all the same, when a user requests it.
func TestALocationIsLost(t *testing.T) {
	t.Parallel()
	s := site{world.SharedOperator(t)}
	for name, lose := range map[string]func(*testing.T, *v1alpha1.BackupStorageLocation){
		"gone": func(t *testing.T, l *v1alpha1.BackupStorageLocation) { t.Helper(); world.Delete(t, l) },
		"read-only": func(t *testing.T, l *v1alpha1.BackupStorageLocation) {
			t.Helper()
			world.Patch(t, l, `{"spec":{"accessMode":"ReadOnly"}}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := env.Create(t, world.Client, newFolder(s, filepath.Base(own(t, "lost"))))
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
}
