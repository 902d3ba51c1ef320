// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 holds Grapnel's custom resources.
//
// Start with Backup: a person or a GitOps tool creates one, and its status
// reports its progress. A BackupStorageLocation says where archives are stored.
// A Plugin names an executor and the actions it provides. A HookRun is one
// execution of one action for one run; only the operator creates HookRuns.
//
// Conventions for every kind:
//
//   - Conditions are authoritative while a run continues; the phase is a summary of them. Once
//     a run is finished, its phase never changes, and clean-up and retention rely on it.
//   - Succeeded is the root condition of a run: Unknown while it runs; True and
//     False are final. Ready, Reconciling and Stalled follow kstatus; config/health
//     has additional rules for Argo CD and Flux.
//   - A spec is immutable once its run has started, except ttl, deletionPolicy
//     and the one-way switch desiredState.
//   - Every string, list and map is bounded, and every duration has a pattern
//     that accepts only values that can be parsed: one bad object must never stop
//     the informer of its whole kind (CVE-2022-39272).
//
// Field names are those of velero.io/v1 wherever the meaning is the same.
//
// The package imports apimachinery only and holds no logic beyond accessors.
//
// +kubebuilder:object:generate=true
// +groupName=grapnel.dev
package v1alpha1
