// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package datamove has the kind DataMove, by which the plugin and the mover meet. The
// plugin writes the spec and the mover the status, and neither knows the other:
//
//	plugin   creates a DataMove with spec.operation, may set spec.cancel
//	mover    does the work and says in the status how far it is, and for which operation
//	plugin   reads the status when it is asked for the progress
//
// The definition for the cluster is config/datamoves.yaml.
package datamove
