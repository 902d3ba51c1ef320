// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package conditions sets the conditions that every Grapnel kind carries.
//
// Summary writes Ready, Reconciling and Stalled so that kstatus (Argo CD, Flux)
// reads every object right; Set writes one condition with the generation it was
// computed for.
package conditions
