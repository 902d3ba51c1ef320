// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package quiesce

// Outcome is the result for one workload.
type Outcome string

const (
	// Quiesced means that this write, or an earlier one for the same holder, quiesced the workload.
	Quiesced Outcome = "Quiesced"
	// AlreadyQuiesced means that the workload was quiesced before the first hold, and stays so.
	AlreadyQuiesced Outcome = "AlreadyQuiesced"
	// QuiescedByRestore means that the workload was restored, or rolled back, in its quiesced form.
	// Nothing is written.
	QuiescedByRestore Outcome = "QuiescedByRestore"
	// Reverted means that others revert the change again and again. A failure.
	Reverted Outcome = "Reverted"
	// Expired means that the holder has had the workload quiesced for as long as it may. A failure.
	Expired Outcome = "Expired"
	// Unreadable means that the workload is quiesced and that its state cannot be read. It can be
	// neither held, which is a failure, nor unquiesced.
	Unreadable Outcome = "Unreadable"
	// Restored means that the workload was unquiesced.
	Restored Outcome = "Restored"
	// StillHeld means that others still hold the workload.
	StillHeld Outcome = "StillHeld"
	// HeldByAction means that another action of this run still holds the workload.
	HeldByAction Outcome = "HeldByAction"
	// ChangedSince means that others changed the workload in the meantime, and that it stays as it
	// is.
	ChangedSince Outcome = "ChangedSince"
	// EndedBefore means that the hold expired and the workload was unquiesced before its holder
	// released it.
	EndedBefore Outcome = "EndedBefore"
	// NotHeld means that the run that releases the workload does not hold it.
	NotHeld Outcome = "NotHeld"
)

// failureOutcomes make a call fail.
var failureOutcomes = []Outcome{Failed, Refused, Reverted, Expired, Unreadable}

// The outcomes that need no decision.
const (
	// LeftOut means that the policy Skip left the workload running.
	LeftOut Outcome = "LeftOut"
	// Protected means that the namespace is never quiesced.
	Protected Outcome = "Protected"
	// RollingOut means that the workload is not quiesced yet because a rollout is in progress. The
	// next call tries again.
	RollingOut Outcome = "RollingOut"
	// Refused means that the workload must not be quiesced. A failure.
	Refused Outcome = "Refused"
	// Failed means that the API server refused a read or a write. A failure.
	Failed Outcome = "Failed"
	// Contended means that others change the workload all the time. The next call tries again.
	Contended Outcome = "Contended"
	// LeftStopped means that an unfinished Restore restored the workload in its quiesced form.
	// Nothing is written.
	LeftStopped Outcome = "LeftStopped"
	// Gone means that the workload was deleted in the meantime.
	Gone Outcome = "Gone"
	// Lost means that the workload is quiesced, and that its saved state was removed or cannot be
	// read.
	Lost Outcome = "Lost"
)
