// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/restore"
	"github.com/grapnel-dev/grapnel/internal/selection"
)

// TestRestoreObjects_SkippedKinds uses resources in Velero's backups, and in those of users. The
// reason is reported, whether the cluster serves the kind or not, and nothing is created
// for such objects, not even a namespace.
func TestRestoreObjects_SkippedKinds(t *testing.T) {
	c := newTarget(t, restore.Options{})
	const ns = "never"
	objects := []*unstructured.Unstructured{
		obj(t, "v1", "Node", "", "never-node", ""),
		obj(t, "v1", "Event", ns, "a", ""), obj(t, "events.k8s.io/v1", "Event", ns, "b", ""),
		obj(t, "storage.k8s.io/v1", "CSINode", "", "never-node", ""),
		obj(t, "storage.k8s.io/v1", "VolumeAttachment", "", "never-volume", ""),
		obj(t, "coordination.k8s.io/v1", "Lease", ns, "leader", ""),
		obj(t, "velero.io/v1", "Backup", ns, "nightly", ""), obj(t, "velero.io/v1", "Restore", ns, "nightly", ""),
		obj(t, "velero.io/v1", "BackupRepository", ns, "data", ""),
		obj(t, "grapnel.dev/v1alpha1", "Backup", ns, "nightly", ""), obj(t, "grapnel.dev/v1alpha1", "HookRun", ns, "run", ""),
		obj(t, "grapnel.dev/v1alpha1", "Plugin", "", "evil", ""),
		obj(t, "snapshot.storage.k8s.io/v1", "VolumeSnapshot", ns, "snap", ""),
		obj(t, "snapshot.storage.k8s.io/v1", "VolumeSnapshotContent", "", "snap", ""),
	}
	s := spool(t, objects)
	result := c.run(restore.Request{Archive: s, RestoreUID: "u"})
	wantCounts(t, result, map[restore.Outcome]int{restore.Skipped: len(objects)})
	wantMessages(t, result)
	if writes := c.wire.writes(); len(writes) > 0 {
		t.Errorf("wrote %v", writes)
	}
	if diff := cmp.Diff(map[string]int{
		"the kubelets of this cluster register their own":                                                  2,
		"events describe the old cluster":                                                                  2,
		"volumes are attached where their pods run now":                                                    1,
		"a lease shows which process is alive now":                                                         1,
		"it records a run, which would start again":                                                        4,
		"it describes data that its own cluster's Velero keeps":                                            1,
		"a Plugin makes the operator run a program, which only an administrator of this cluster may allow": 1,
		"a snapshot stays in the storage that took it":                                                     2,
	}, result.SkipReasons); diff != "" {
		t.Errorf("reasons (-want +got):\n%s", diff)
	}

	// There are no warnings about unselected objects.
	result = c.run(restore.Request{Archive: s, Selection: selection.Spec{ExcludedResources: []string{"nodes", "*.velero.io"}}})
	if got := result.Counts[restore.Skipped]; got != len(objects)-4 {
		t.Errorf("%d objects are skipped, want those that are not excluded: %v", got, result.SkipReasons)
	}
}

// TestRestoreObjects_NeverRestoredForActions passes an object that is never restored to the action
// that wants it, if another action names it, also if the object exists. It is not restored, and
// counted once, whatever the action answers.
func TestRestoreObjects_NeverRestoredForActions(t *testing.T) {
	c := newTarget(t, restore.Options{})
	const ns = "never-named"
	namer := &plugged{name: "namer", of: []string{"configmaps"}, execute: func(_ context.Context, item *itemaction.RestoreItem) (itemaction.Result, error) {
		return itemaction.Result{RelatedItems: []itemaction.RelatedItem{ref("leases.coordination.k8s.io", ns, item.Archived.GetName())}}, nil
	}}
	reader := &plugged{name: "reader", of: []string{"leases.coordination.k8s.io"}, execute: func(_ context.Context, item *itemaction.RestoreItem) (itemaction.Result, error) {
		if item.Archived.GetName() == "failed" {
			return itemaction.Result{}, errors.New("no handle")
		}
		return itemaction.Result{Skip: map[string]string{"skipped": "it was read"}[item.Archived.GetName()]}, nil
	}}
	var objects []*unstructured.Unstructured
	for _, name := range []string{"skipped", "failed", "kept"} {
		objects = append(objects, configMap(t, ns, name, "x"), obj(t, "coordination.k8s.io/v1", "Lease", ns, name, ""))
	}
	lease := obj(t, "coordination.k8s.io/v1", "Lease", ns, "unnamed", "")
	request := restore.Request{
		Archive: spool(t, append(objects, lease)), RestoreUID: "u", Actions: []itemaction.RestorePluginAction{namer, reader},
	}
	result := c.run(request)
	wantCounts(t, result, map[restore.Outcome]int{restore.Created: 4, restore.Skipped: 4})
	wantSeen(t, reader, ns+"/failed", ns+"/kept", ns+"/skipped")
	wantMessages(t, result, "error "+ns+`: leases.coordination.k8s.io "`+ns+`/failed": restore action reader: no handle`)
	if c.has(objects[1]) || c.has(lease) {
		t.Error("a lease was restored")
	}
	// In a dry run, nothing is passed to actions.
	request.DryRun = true
	c.run(request)
	wantSeen(t, reader)

	// The same object exists, and is passed to the action all the same.
	const again = ns + "-again"
	existing := obj(t, "coordination.k8s.io/v1", "Lease", again, "kept", "")
	c.namespace(again)
	c.create(existing)
	namer.execute = func(context.Context, *itemaction.RestoreItem) (itemaction.Result, error) {
		return itemaction.Result{RelatedItems: []itemaction.RelatedItem{ref("leases.coordination.k8s.io", again, "kept")}}, nil
	}
	request.Archive, request.DryRun = spool(t, []*unstructured.Unstructured{configMap(t, again, "c", "x"), existing}), false
	c.run(request)
	wantSeen(t, reader, again+"/kept")
}

// TestRestoreObjects_GroupUnavailable uses an extension API server that is unavailable.
func TestRestoreObjects_GroupUnavailable(t *testing.T) {
	c := newTarget(t, restore.Options{})
	const group, ns = "away.example.org", "group-away"
	service := obj(t, "apiregistration.k8s.io/v1", "APIService", "", "v1."+group, `{"spec":{"group":"`+group+`","version":"v1",
		"groupPriorityMinimum":100,"versionPriority":100,"insecureSkipTLSVerify":true,"service":{"namespace":"default","name":"away"}}}`)
	c.create(service)
	t.Cleanup(func() {
		if err := c.of(service).Delete(context.Background(), service.GetName(), metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	objects := []*unstructured.Unstructured{
		widget(t, group, "v1", ns, "a"), widget(t, group, "v1", ns+"-only", "b"), configMap(t, ns, "good", "x"),
	}
	s := spool(t, objects)
	eventually(t, "the group is there and does not answer", func() bool {
		return strings.Contains(messages(c.run(restore.Request{Archive: s, DryRun: true})), "does not answer")
	})
	for _, request := range []restore.Request{
		{Archive: s, DryRun: true},
		{Archive: s, RestoreUID: "u"},
		{Archive: s, RestoreUID: "u", Selection: selection.Spec{ExcludedResources: []string{"pods"}}},
	} {
		result := c.run(request)
		wantCounts(t, result, map[restore.Outcome]int{restore.Created: 2, restore.Failed: 2})
		wantMessages(t, result,
			"error run: 2 objects of widgets."+group+" are not restored: the API group does not answer|restore again when it does")
	}
	if c.has(obj(t, "v1", "Namespace", "", ns+"-only", "")) {
		t.Error("a namespace was made for what cannot be restored")
	}
}
