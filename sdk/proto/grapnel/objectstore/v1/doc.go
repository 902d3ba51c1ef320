// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package objectstorev1 is generated: the messages of Velero's ObjectStore. On the wire its
// service has another name; see package sdk/proto.
package objectstorev1
