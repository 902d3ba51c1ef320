// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package velerov1 is generated: Velero's lister of plugins and the details of its errors.
// On the wire they have other names; see package sdk/proto.
package velerov1
