// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package project tests that PROJECT is what the version of kubebuilder that it names reads and
// writes, and that it lists every kind. Kubebuilder is a requirement of this module only.
package project
