// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package restoreitemactionv1 is generated: the messages of Velero's RestoreItemAction. On the
// wire its service has another name; see package sdk/proto.
package restoreitemactionv1
