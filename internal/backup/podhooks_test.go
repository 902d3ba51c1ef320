// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"slices"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/results"
	"github.com/grapnel-dev/grapnel/internal/selection"
)

// TestWriteArchive_PodHooks checks that one warning names the pods whose owners expect commands that
// do not run.
func TestWriteArchive_PodHooks(t *testing.T) {
	cluster := testCluster()
	pods := cluster.kinds[slices.IndexFunc(cluster.kinds, func(k *kind) bool { return k.resource == "pods" })]
	add := func(namespace, name, key string, fields ...object) {
		annotated := object{"metadata": object{"annotations": object{key: "freeze"}}}
		pods.objects = append(pods.objects, obj(namespace, name, append(fields, annotated)...))
	}
	add("shop", "frozen", "pre.hook.backup.velero.io/command")
	add("office", "thawed", "post.hook.backup.velero.io/command")
	add("office", "ended", "pre.hook.backup.velero.io/command", object{"status": object{"phase": "Succeeded"}})
	add("office", "no-command", "pre.hook.backup.velero.io/container")
	add("office", "restored", "post.hook.restore.velero.io/command")
	for name, tc := range map[string]struct {
		request ArchiveRequest
		want    string
	}{
		"all":       {ArchiveRequest{}, "hooks of 2 pods did not run: no Plugin of this run has builtin.veleroHooks; an administrator can install config/components/velero-hooks: office/thawed, shop/frozen"},
		"selected":  {ArchiveRequest{Selection: selection.Spec{IncludedNamespaces: []string{"shop"}}}, "of 1 pod did not run: no Plugin of this run has builtin.veleroHooks; an administrator can install config/components/velero-hooks: shop/frozen"},
		"they run":  {ArchiveRequest{RunsPodHooks: true}, ""},
		"no pods":   {ArchiveRequest{Selection: selection.Spec{ExcludedResources: []string{"pods"}}}, ""},
		"only some": {ArchiveRequest{OnlyItems: []itemaction.RelatedItem{{Resource: podResource, Namespace: "shop", Name: "frozen"}}}, ""},
		// Each version counts as an object, and a pod has two of them then.
		"all versions": {ArchiveRequest{AllVersions: true, Selection: selection.Spec{IncludedNamespaces: []string{"shop"}}}, "of 1 pod did not run"},
	} {
		t.Run(name, func(t *testing.T) {
			result, _ := backedUp(t, cluster, tc.request, Options{})
			var got []string
			for _, warning := range result.Results.Warnings {
				if warning.Reason == results.ReasonVeleroHooksNotRun {
					got = append(got, warning.Message)
				}
			}
			if tc.want == "" && len(got) > 0 || tc.want != "" && (len(got) != 1 || !strings.Contains(got[0], tc.want)) {
				t.Errorf("warnings %q, want %q", got, tc.want)
			}
		})
	}
}
