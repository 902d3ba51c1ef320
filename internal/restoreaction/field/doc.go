// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package field reads and removes fields of unstructured objects without
// copying them. What has another type than was asked for is as good as
// missing, because objects come from archives that anybody may have written.
package field
