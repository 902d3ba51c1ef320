// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/restore"
)

// TestRestoreObjects_BackupLabels collects what actions of plugins want to add to the Backup.
func TestRestoreObjects_BackupLabels(t *testing.T) {
	c := newTarget(t, restore.Options{Workers: 1})
	const ns = "backup-labels"
	labels := &plugged{name: "labels", of: []string{"configmaps"}}
	labels.execute = func(_ context.Context, item *itemaction.RestoreItem) (itemaction.Result, error) {
		if item.Archived.GetName() != "many" {
			return itemaction.Result{BackupLabels: map[string]string{"tier": item.Archived.GetName()}}, nil
		}
		many := map[string]string{}
		for i := range 40 {
			many[fmt.Sprintf("l%02d", i)] = "x"
		}
		return itemaction.Result{BackupLabels: many}, nil
	}
	restores := func(names ...string) restore.Result {
		var objects []*unstructured.Unstructured
		for _, name := range names {
			objects = append(objects, configMap(t, ns, name, "x"))
		}
		return c.run(restore.Request{Archive: spool(t, objects), Actions: []itemaction.RestorePluginAction{labels}})
	}
	result := restores("gold", "silver")
	if got := result.BackupLabels["tier"]; len(result.BackupLabels) != 1 || got != "gold" && got != "silver" {
		t.Errorf("the labels are %v", result.BackupLabels)
	}
	wantMessages(t, result, "warning "+ns+": |the Backup gets the label tier=|which was requested first")
	result = restores("many")
	if diff := cmp.Diff(32, len(result.BackupLabels)); diff != "" || !strings.Contains(messages(result), "which is the limit") {
		t.Errorf("%d labels, messages:\n%s", len(result.BackupLabels), messages(result))
	}
}
