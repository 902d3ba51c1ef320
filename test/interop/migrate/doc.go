// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package migrate converts objects of Velero's types and documentation to objects of Grapnel, from files and from a
// cluster, and has an API server check the result.
package migrate
