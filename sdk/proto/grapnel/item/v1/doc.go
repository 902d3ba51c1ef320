// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package itemv1 is generated: what the messages of all item actions share. Field numbers
// are those of Velero's messages.
package itemv1
