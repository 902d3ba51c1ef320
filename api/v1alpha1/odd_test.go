// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// TestFinalizer_UnusualSpecs does with unusual Backups and Restores what the operator
// does with every run: add the finalizer, start the run, write its status, remove the
// finalizer. A rule that cannot be evaluated, or that detects a change where there is
// none, would hold the object forever.
func TestFinalizer_UnusualSpecs(t *testing.T) {
	long := "[" + strings.Repeat(strings.Repeat("n", 250)+",", 2048) + "]"
	for title, body := range map[string]string{
		"no spec":     `{}`,
		"empty lists": `{spec: {includedNamespaces: [], orLabelSelectors: [], orderedResources: {}, parameters: {}, metadata: {}, storageLocation: ""}}`,
		"nulls":       `{spec: {includeClusterResources: null, labelSelector: null, orLabelSelectors: null, orderedResources: null}}`,
		"large":       `{spec: {includedNamespaces: ` + long + `, excludedNamespaces: ` + long + `}}`,
	} {
		t.Run("Backup, "+title, func(t *testing.T) {
			finish(t, "Backup", body, func(b *v1alpha1.Backup, phase string) { b.Status.Phase = v1alpha1.RunPhase(phase) })
		})
	}
	for title, body := range map[string]string{
		"empty lists": `{spec: {backupName: b, includedNamespaces: [], orLabelSelectors: [], namespaceMapping: {}, parameters: {}, restoreStatus: {}, storageLocation: "", apiVersionPriorities: ""}}`,
		"nulls":       `{spec: {backupName: b, includeClusterResources: null, labelSelector: null, orLabelSelectors: null, namespaceMapping: null, restoreStatus: null, preserveNodePorts: null}}`,
		"large":       `{spec: {backupName: b, includedNamespaces: ` + long + `, excludedNamespaces: ` + long + `, namespaceMapping: {` + pairs(1024, "other") + `}}}`,
	} {
		t.Run("Restore, "+title, func(t *testing.T) {
			finish(t, "Restore", body, func(r *v1alpha1.Restore, phase string) { r.Status.Phase = v1alpha1.RunPhase(phase) })
		})
	}
}

func finish[T client.Object](t *testing.T, kind, body string, setPhase func(run T, phase string)) {
	t.Helper()
	ctx := t.Context()
	written := create(t, kind, newNamespace(t), body)
	key := client.ObjectKeyFromObject(written)
	read := func() T { return typed(t, written).(T) }
	update := func(what string, change func(T), write func(client.Object, client.Patch) error) {
		t.Helper()
		if err := admin.Get(ctx, key, written); err != nil {
			t.Fatal(err)
		}
		run, before := read(), read()
		change(run)
		if err := write(run, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	main := func(o client.Object, p client.Patch) error { return admin.Patch(ctx, o, p) }
	status := func(o client.Object, p client.Patch) error { return admin.Status().Patch(ctx, o, p) }
	update("hold", func(run T) { controllerutil.AddFinalizer(run, v1alpha1.FinalizerRun) }, main)
	update("start", func(run T) { setPhase(run, "InProgress") }, status)
	update("end", func(run T) { setPhase(run, "Completed") }, status)
	if err := admin.Delete(ctx, read()); err != nil {
		t.Fatal(err)
	}
	update("let go", func(run T) { controllerutil.RemoveFinalizer(run, v1alpha1.FinalizerRun) }, main)
	if err := admin.Get(ctx, key, written); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("want the %s to be gone, got %v", kind, err)
	}
}
