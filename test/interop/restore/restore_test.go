// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"testing"
)

// TestVeleroRestoresABackupOfGrapnel that it finds in the bucket, after the namespace
// and the definition of one of its kinds were deleted.
func TestVeleroRestoresABackupOfGrapnel(t *testing.T) {
	const app, backup, restore = "shop-of-grapnel", "grapnel-1", "restore-by-velero"
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

// TestGrapnelRestoresABackupOfVelero that it finds in the bucket, without a Backup
// object, after the same: under another name, and then in its place.
func TestGrapnelRestoresABackupOfVelero(t *testing.T) {
	const app, other, backup = "shop-of-velero", "shop-of-velero-2", "velero-1"
	newApp(t, app)
	startVelero(t) // It knows the kinds that were there when it started.
	before := snapshot(t, app)
	veleroBacksUp(t, backup, app)
	remove(t, app)
	for _, to := range []string{other, app} {
		restore := "restore-" + to
		grapnelRestores(t, restore, backup, app, to)
		byGrapnel(backup, restore, app, to).same(t, before)
		remove(t, to)
	}
}
