// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scratch provides temporary files for the content of a run: archives during a
// restore, or archives that are shown to actions before they are destroyed. Whoever writes
// to a bucket determines their size, so it is bounded twice: all files of a Dir together
// have a limit, and a part of the volume stays free. On a full volume, the kubelet would
// evict the operator, or other pods of the node.
package scratch
