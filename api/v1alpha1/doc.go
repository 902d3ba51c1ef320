// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 holds Grapnel's custom resources.
//
// Start with Backup: a person or a GitOps tool creates one, and its status
// tells how far it is. A BackupStorageLocation says where archives live. A
// Plugin names an executor and the actions it provides. A HookRun is one
// execution of one action for one Backup; only the operator creates them.
//
// Conventions that hold for every kind:
//
//   - Conditions carry the truth, phase is a summary computed from them and is
//     never read back to decide anything.
//   - Succeeded is the root condition of a run: Unknown while it runs, True or
//     False is final. Ready, Reconciling and Stalled follow kstatus; for
//     Argo CD and Flux there are rules besides, in config/health.
//   - A spec is immutable once its run has started, except ttl, deletionPolicy
//     and the one-way switch desiredState.
//   - Every string, list and map is bounded, and every duration has a pattern
//     that only lets parsable values in: one bad object must never stop the
//     informer of its whole kind (CVE-2022-39272).
//
// Field names are those of velero.io/v1 wherever the meaning is the same.
//
// The package imports apimachinery only and holds no logic beyond accessors.
//
// +kubebuilder:object:generate=true
// +groupName=grapnel.dev
package v1alpha1
