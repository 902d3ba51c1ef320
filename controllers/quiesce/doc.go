// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package quiesce ends what is quiesced for too long: it is what maxQuiesceDuration of a Plugin
// promises when the Backup hangs, its hook never answers, or the operator was away.
//
// It also gives back what is quiesced for runs of which none is unfinished (holders.go). It knows
// nothing of hooks. Workloads that Grapnel quiesced have a label, and say in an
// annotation until when (internal/quiesce/state); this package watches the metadata of those,
// of no others, and sleeps until the first of their times is over. Then it has internal/quiesce
// give back what is due, and tells so, on the workload and on the Backup or Restore that it was
// quiesced for. It remembers nothing: after a restart the watch brings all of them again.
//
//	controller.go   one pass over all of them
//	watch.go        the cache of what has the label
//	holders.go      which runs will not give back what they hold
//	tell.go         events
package quiesce

// What has the label is watched by the right to read everything, which a backup needs. The right
// to patch it is that of an operator that restores, or else of config/components/quiesce: an
// operator for backups only, without that component, has quiesced nothing.

// Who is told.
// +kubebuilder:rbac:groups=grapnel.dev,resources=backups;restores,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
