// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package backup reconciles Backups: plan, PreBackup actions, archive, PostBackup
// actions.
//
// A Backup is keyed by its UID. Everything is recorded before it happens: the plan is
// a set of waiting HookRuns, created before the first of them may run. An operator
// that takes over therefore knows which clean-up is owed.
package backup

// +kubebuilder:rbac:groups=grapnel.dev,resources=backups,verbs=get;list;watch;update;patch
// +kubebuilder:rbac:groups=grapnel.dev,resources=backups/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=grapnel.dev,resources=asyncoperations,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=grapnel.dev,resources=hookruns,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=grapnel.dev,resources=backups/finalizers,verbs=update
// +kubebuilder:rbac:groups=grapnel.dev,resources=deletionruns,verbs=create
// +kubebuilder:rbac:groups=grapnel.dev,resources=plugins;backupstoragelocations,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
//
// Backups may select any object, so the operator may read all objects.
//
// +kubebuilder:rbac:groups=*,resources=*,verbs=get;list
