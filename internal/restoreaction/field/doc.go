// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package field reads and removes fields of unstructured objects without copying them. A
// value of another type than requested counts as missing, because objects come from
// archives that anyone may have written.
package field
