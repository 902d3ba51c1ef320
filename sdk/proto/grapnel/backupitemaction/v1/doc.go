// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package backupitemactionv1 is generated: the messages of Velero's BackupItemAction. On the
// wire its service has another name; see package sdk/proto.
package backupitemactionv1
