// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scratch provides files for content that a run puts aside: archives that are
// restored, or shown to actions before they are destroyed. Their size is decided by
// whoever writes to a bucket, so that it is bounded twice: all files of a Dir together
// have a limit, and the volume keeps a part of its space free. A volume that is full
// would have the kubelet evict the operator, or other pods of the node.
package scratch
