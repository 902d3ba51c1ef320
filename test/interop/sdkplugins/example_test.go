// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package sdkplugins

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vmware-tanzu/velero/pkg/plugin/velero"

	"github.com/grapnel-dev/grapnel/internal/testing/program"
)

// TestExamplePlugin: Velero starts with the plugin that authors begin with, which has
// actions of kinds that Velero does not know, and can ask its other actions.
func TestExamplePlugin(t *testing.T) {
	t.Parallel()
	root, err := program.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	example := filepath.Join(root, "bin", "test", "sdkplugins", "example")
	if err := program.Build(t.Context(), filepath.Join(root, "test", "exampleplugin"), example); err != nil {
		t.Fatal(err)
	}
	s := serverWith(t, example, "example")
	backups, err := s.GetBackupItemActionsV2()
	if err != nil {
		t.Fatal(err)
	}
	restores, err := s.GetRestoreItemActionsV2()
	if err != nil {
		t.Fatal(err)
	}
	deletes, err := s.GetDeleteItemActions()
	if err != nil {
		t.Fatal(err)
	}
	if len(backups) == 0 || len(restores) == 0 || len(deletes) == 0 {
		t.Errorf("Velero finds %d, %d and %d actions for backups, restores and deletions", len(backups), len(restores), len(deletes))
	}
	var all []velero.Applicable
	for _, action := range backups {
		all = append(all, action)
	}
	for _, action := range restores {
		all = append(all, action)
	}
	for _, action := range deletes {
		all = append(all, action)
	}
	for _, action := range all {
		if selector, err := action.AppliesTo(); err != nil || cmp.Equal(selector, velero.ResourceSelector{}) {
			t.Errorf("%T wants %+v, error %v", action, selector, err)
		}
	}
}
