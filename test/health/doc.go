// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package health tests the health rules in config/health: what Argo CD and Flux report about an
// object of each kind, in each of its phases.
//
//	rules_test.go    the shipped rules, built with kustomize, and the existing kinds and phases
//	argocd_test.go   runs a script as Argo CD does
//	flux_test.go     evaluates expressions as Flux does
//	kstatus_test.go  compares with kstatus, which tools without the rules use
//	objects_test.go  objects as the controllers leave them
//	health_test.go   the expectations for each object, and for all
//
// The phases are read from the CRDs: a phase that no object is in fails the test.
//
// It is a separate module, because neither language is part of the operator.
package health
