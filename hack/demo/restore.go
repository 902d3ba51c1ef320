// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/grapnel-dev/grapnel/internal/lifecycle"
)

const (
	restoreName = "shop-again"
	// databaseCRD is not deleted with the application, which is in namespaces.
	databaseCRD = "databases.shop.example"
)

// applicationNamespaces are those that are backed up, and deleted.
func applicationNamespaces() []string {
	return []string{"shop-frontend", "shop-backend", "shop-data"}
}

// namespaceMapping is that of the Restore.
func namespaceMapping() map[string]string {
	return map[string]string{"shop-data": "shop-data-restored"}
}

// restoredNamespaces are those that the application is in after the restore.
func restoredNamespaces() []string {
	names := applicationNamespaces()
	for i, name := range names {
		if to, ok := namespaceMapping()[name]; ok {
			names[i] = to
		}
	}
	return names
}

// keepCopy writes down what there is before the backup.
func (d *demo) keepCopy(ctx context.Context) error {
	return d.writeSnapshot(ctx, "before.json")
}

// writeSnapshot writes every object of every kind that is in namespaces, and more,
// to a file. Events are none of the application.
func (d *demo) writeSnapshot(ctx context.Context, file string) error {
	return d.show(ctx,
		`kinds=$(kubectl api-resources --namespaced --verbs=list -o name | grep -v ^events | paste -sd,); `+
			`kubectl get "$kinds,ns,crd" -A -o json --show-managed-fields > `+d.short(d.snapshotFile(file)),
	)
}

func (d *demo) snapshotFile(name string) string { return filepath.Join(d.dir, name) }

// loseApplication deletes the application with all that it is in.
func (d *demo) loseApplication(ctx context.Context) error {
	return d.show(ctx,
		"kubectl delete namespace "+strings.Join(applicationNamespaces(), " "),
		"rm -r "+d.short(d.dataOf(dataNamespace)),
		"kubectl get namespaces",
	)
}

func (d *demo) restore(ctx context.Context) error {
	if err := d.start(ctx, lifecycle.RestoreKind, restoreName, manifests+"restore.yaml"); err != nil {
		return err
	}
	pods, err := d.waitForControllers(ctx, restoredNamespaces())
	if err != nil {
		return err
	}
	d.gap()
	d.say("The controllers of Kubernetes have taken over what is theirs, among it %d pods.", pods)
	d.gap()
	return d.writeSnapshot(ctx, "after.json")
}

// reviewRestore shows, compares and checks the result of the restore.
func (d *demo) reviewRestore(ctx context.Context) error {
	facts, err := d.collectRestore(ctx)
	if err != nil {
		return err
	}
	if err := d.reportRestore(ctx, facts); err != nil {
		return err
	}
	d.heading("Compare every object with what it was")
	d.reportComparison(facts)
	d.heading("Check that everything is as it should be")
	return verify(&d.printer, facts, restoreChecks())
}
