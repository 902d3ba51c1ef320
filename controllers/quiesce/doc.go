// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package quiesce unquiesces workloads that are quiesced for too long. It enforces
// maxQuiesceDuration of a Plugin if the Backup hangs, if its hook never answers, or after the
// operator was away.
//
// It also unquiesces what is quiesced only for runs that have ended (holders.go). It does not
// depend on hooks. Workloads that Grapnel quiesced have a label, and an annotation with their
// deadlines (internal/executor/quiesce). This package watches only the metadata of those, and
// requeues for the first deadline. Then internal/executor/quiesce unquiesces what is due, and this package
// emits events on the workload and on the Backup or Restore that it was quiesced for. It keeps no
// persistent state: after a restart the watch lists all of them again.
//
//	controller.go   one reconcile covers all workloads
//	workloads.go    the cache of labeled workloads
//	holders.go      which runs will not unquiesce what they hold
//	events.go       events
package quiesce

// Watching labeled workloads is covered by the permission to read everything, which backups need.
// The permission to patch them comes with that to restore, or with config/components/quiesce: an
// operator for backups only, without that component, has quiesced nothing.

// The receivers of events.
// +kubebuilder:rbac:groups=grapnel.dev,resources=backups;restores,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
