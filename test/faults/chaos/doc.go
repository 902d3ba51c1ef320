// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package chaos disturbs two operators that stand by for each other, with everything
// that does not destroy data: they are paused, killed, cut off from the API server or
// from the store, answered late or with errors, shown old events and given wrong clocks,
// and the API server is killed, while Backups, Restores and DeletionRuns are created,
// canceled and deleted. Applications are stopped and frozen for Backups meanwhile.
//
// A round lasts for some seconds. Then everything is undone, and what has to hold is
// checked: see check_test.go.
//
//	CHAOS_SEED=7 CHAOS_DURATION=30m go test -timeout 0 ./test/faults/chaos
//
// All that is random comes from the seed, which is printed. A round depends on its own
// seed alone: the seed of a round that failed makes it the first one. Two rounds of a
// seed do the same, as far as the operators and the scheduler let them; the journal below
// bin/test/chaos says what was done, and when.
//
// There is nothing here but tests.
package chaos
