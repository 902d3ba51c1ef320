// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tombstone records which stored backups have had a Backup in this cluster.
//
// A Backup whose deletionPolicy is Retain may be deleted while its data stays in the
// location. Sync would import it again. The names and UIDs of all backups that
// ever had a Backup are therefore recorded in a ConfigMap of the location, named by
// [ConfigMapName], with one key per backup. A recorded backup without a Backup was deleted by a
// user, and is not imported. That needs no finalizer: deleting such a Backup must not require
// a running operator.
//
// Users may read the ConfigMap and delete keys, which imports a backup again. The location owns
// the ConfigMap, which is deleted with it. A ConfigMap that the location does not own is
// ignored. It is excluded from backups and restores: another cluster, or this cluster at
// another time, has other records.
package tombstone
