// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package memory reads how much memory a process holds, from Linux's /proc.
package memory
