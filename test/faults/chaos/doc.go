// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package chaos disturbs two operators that stand by for each other, with everything
// that does not destroy data: they are paused, killed, cut off from the API server or
// from the store, answered late or with errors, shown old events and given wrong clocks,
// and the API server is killed, while Backups, Restores and DeletionRuns are created,
// canceled and deleted. Applications are stopped and frozen for Backups meanwhile.
//
// A round lasts for some seconds. Then all faults end, and the invariants are
// checked: see check_test.go.
//
//	CHAOS_SEED=7 CHAOS_DURATION=30m go test -timeout 0 ./test/faults/chaos
//
// All randomness comes from the seed, which is printed. A round depends only on its own
// seed: the seed of a failed round makes it the first one. Two rounds with the same
// seed do the same, as far as the operators and the scheduler allow; the journal below
// bin/test/chaos records what was done, and when.
//
// This package has only tests.
package chaos
