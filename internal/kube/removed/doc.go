// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package removed remembers which stored backups people do not want to see.
//
// A Backup whose deletionPolicy is Retain may be deleted while its data stays in the
// location. Whoever looks through the location would bring it back, so its name there and
// its UID are remembered in a ConfigMap of the location, named by [Name]: one key for each
// backup. People may look at it and remove keys by hand, which asks for a backup again.
// The ConfigMap goes with the location, which owns it.
package removed
