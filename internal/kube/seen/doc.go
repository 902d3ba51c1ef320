// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package seen remembers which stored backups have had a Backup in this cluster.
//
// A Backup whose deletionPolicy is Retain may be deleted while its data stays in the
// location. Whoever looks through the location would bring it back. So the names and UIDs
// of all that were seen are remembered, in a ConfigMap of the location, named by [Name]: one
// key for each backup. One that is there and has no Backup was removed by somebody, who
// does not want to see it. That needs no finalizer: a Backup that just goes must not need an
// operator.
//
// People may look at the ConfigMap and remove keys by hand, which asks for a backup again. It
// goes with the location, which owns it; what is said by one that the location does not own is
// not believed. It is left out of backups and restores: another cluster, or this one in
// another time, has seen other backups.
package seen
