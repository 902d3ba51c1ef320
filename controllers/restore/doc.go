// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package restore reconciles Restores: find the backup, plan, verify the archive,
// PreRestore actions, restore objects, PostRestore actions.
//
// A Restore is keyed by its UID. Restoring is repeatable: an operator that takes over
// finds the plan in the HookRuns, and its engine recognizes what was created before.
package restore

// +kubebuilder:rbac:groups=grapnel.dev,resources=restores,verbs=get;list;watch;update;patch
// +kubebuilder:rbac:groups=grapnel.dev,resources=restores/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=grapnel.dev,resources=restores/finalizers,verbs=update
// +kubebuilder:rbac:groups=grapnel.dev,resources=backups;plugins;backupstoragelocations,verbs=get;list;watch
// +kubebuilder:rbac:groups=grapnel.dev,resources=backups,verbs=patch
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get
//
// A backup may contain any object, so the operator may write all objects. The Secret with
// the key of Restores (stampkey.go) needs no additional permission.
//
// +kubebuilder:rbac:groups=*,resources=*,verbs=get;list;watch;create;update;patch;delete
//
// For Roles with permissions that the operator does not have itself, and bindings to them.
//
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;clusterroles,verbs=bind;escalate
