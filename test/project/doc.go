// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package project tests that the version of kubebuilder that PROJECT names would read and write
// the file as it is, and that PROJECT lists every kind. Only this module requires kubebuilder.
package project
