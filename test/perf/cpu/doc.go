// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cpu reads how much processor time a process took, from Linux's /proc.
package cpu
