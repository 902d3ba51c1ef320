// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package aws keeps backups through Velero's own plugin for AWS, as it is published:
// the object store that most locations of Velero have. Its release is that of
// test/interop/velero.
package aws
