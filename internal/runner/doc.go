// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package runner carries out work that takes time, so that reconcilers never
// block.
//
// A reconciler calls Ensure with an identity and a function, and returns. The
// function runs in the background; when it ends, the runner wakes the object it
// runs for, and the next reconcile reads the Outcome. Identities make starting
// twice harmless. Everything ends with the context given to Start: a leader
// that lost its lease carries on with nothing.
//
// Nothing waits for a function that ignores its context, for example because the kernel
// holds it in a system call on a disk that does not answer. With a Grace, a cancelled run
// that does not end is left behind: its outcome is ErrStuck, and what the function
// returns later is ignored.
package runner
