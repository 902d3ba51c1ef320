// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package restore moves Restores through their life: find the backup, plan, verify the
// archive, PreRestore actions, restore objects, PostRestore actions.
//
// A Restore is keyed by its UID. Restoring is repeatable: an operator that takes
// over finds the plan in the HookRuns, and its engine finds what was created
// before.
package restore

// +kubebuilder:rbac:groups=grapnel.dev,resources=restores,verbs=get;list;watch;update;patch
// +kubebuilder:rbac:groups=grapnel.dev,resources=restores/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=grapnel.dev,resources=restores/finalizers,verbs=update
// +kubebuilder:rbac:groups=grapnel.dev,resources=backups;plugins;backupstoragelocations,verbs=get;list;watch
// +kubebuilder:rbac:groups=grapnel.dev,resources=backups,verbs=patch
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get
//
// Anything may be in a backup, so everything may be written. The Secret with the key of
// Restores (stampkey.go) needs no right besides.
//
// +kubebuilder:rbac:groups=*,resources=*,verbs=get;list;watch;create;update;patch;delete
//
// Roles with rights that the operator does not hold itself, and bindings to them.
//
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;clusterroles,verbs=bind;escalate
