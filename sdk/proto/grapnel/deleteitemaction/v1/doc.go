// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package deleteitemactionv1 is generated: the messages of Velero's DeleteItemAction. On the
// wire its service has another name; see package sdk/proto.
package deleteitemactionv1
