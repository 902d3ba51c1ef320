// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package driverdir is the directory of the CSI driver for tests, test/csidriver: what the driver
// stores there, and what tests read and write.
//
//	volumes/ID/      the data of a volume, and volumes/ID.json, its record
//	snapshots/ID/    the same for a snapshot
//	groups/ID.json   the record of a group of snapshots
//	faults.json      written by tests: what the driver does wrong; see [Faults]
//	calls.jsonl      written by the driver: two lines for each call; see [Call]
//
// A record is replaced atomically, is written after the data, and is removed before it: data
// without a record does not exist for the driver.
package driverdir
