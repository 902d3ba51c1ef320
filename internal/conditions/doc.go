// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package conditions sets the conditions that every Grapnel kind has.
//
// SetSummary sets Ready, Reconciling and Stalled, and status.observedGeneration, so that kstatus
// (Argo CD, Flux) understands every object. Set sets one condition with the generation for which it was
// computed.
package conditions
