// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package datamove has the kind DataMove, the interface between the plugin and the mover.
// The plugin writes the spec, the mover writes the status, and neither knows the other:
//
//	plugin   creates a DataMove with spec.operation, may set spec.cancel
//	mover    does the work and reports its progress and its operation in the status
//	plugin   reads the status in Progress
//
// The definition for the cluster is config/datamoves.yaml.
package datamove
