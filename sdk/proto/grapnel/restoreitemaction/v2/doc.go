// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package restoreitemactionv2 is generated: the messages of Velero's RestoreItemActionV2. On
// the wire its service has another name; see package sdk/proto.
package restoreitemactionv2
