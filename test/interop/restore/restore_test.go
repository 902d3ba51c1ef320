// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"crypto/rand"
	"strings"
	"testing"
)

// unique returns a name that no other test, and no other run of the same, uses.
func unique(prefix string) string { return prefix + "-" + strings.ToLower(rand.Text()[:8]) }

// TestVeleroRestore_GrapnelBackup restores a backup with Velero, that it finds in the bucket, after the namespace
// and the definition of one of its kinds were deleted.
func TestVeleroRestore_GrapnelBackup(t *testing.T) {
	app, backup, restore := unique("shop"), unique("by-grapnel"), unique("by-velero")
	stop := startVelero(t)
	newApp(t, app)
	before := snapshot(t, app)
	grapnelBacksUp(t, backup, app)
	remove(t, app)
	// A server looks for backups when it starts, if it could use the bucket before,
	// and then once a minute.
	stop()
	startVelero(t)
	veleroRestores(t, restore, backup)
	byVelero(backup, restore, app).same(t, before)
}

// TestGrapnelRestore_VeleroBackup restores a backup of Velero, that it finds in the bucket, without a Backup
// object, after the same: under another name, and then in its place.
func TestGrapnelRestore_VeleroBackup(t *testing.T) {
	app, other, backup := unique("shop"), unique("other-shop"), unique("by-velero")
	newApp(t, app)
	startVelero(t) // It knows the kinds that were there when it started.
	before := snapshot(t, app)
	veleroBacksUp(t, backup, app, "bucket")
	remove(t, app)
	for _, to := range []string{other, app} {
		restore := unique("by-grapnel")
		grapnelRestores(t, restore, backup, app, to)
		byGrapnel(backup, restore, app, to).same(t, before)
		remove(t, to)
	}
}
