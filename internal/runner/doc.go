// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package runner executes long-running tasks in the background. Reconcilers therefore never
// block.
//
// A reconciler calls EnsureStarted with an ID and a function, and returns. The function runs in the
// background. When it returns, the runner enqueues the owner of the task, and the next reconcile
// reads the Outcome. The ID makes starting a task twice harmless. All tasks end with the context of
// Start: a leader that lost its lease does not continue any task.
//
// Nothing waits for a function that ignores its context, for example because the kernel
// blocks it in a system call on a disk that does not answer. With a GracePeriod, a canceled task
// that does not end is abandoned: its outcome is ErrStuck, and what the function
// returns later is ignored.
package runner
