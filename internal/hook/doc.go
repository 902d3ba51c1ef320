// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hook decides which actions run around a Backup or Restore.
//
// It also plans the actions on single objects, which have an order and a selector like the
// others, but neither a second half nor an annotation.
//
// [BuildPlan] takes every known action, the labels and annotations of the parent and the
// parameters that it passes. It returns a [Plan]: the Pre actions in the order in which they run,
// the Post actions in the order in which they run (the reverse), what was skipped, and every
// error and warning at once. The package is pure: it uses no clients, no clocks, and none of
// Grapnel's Kubernetes objects.
//
// The rules: a plan holds every known action of the point, ready or not, whose
// selector matches, sorted by order then name, minus the skipped ones. An action that provides
// both Pre and Post under one name is a pair: its Post is owed as soon as its Pre was started,
// and never otherwise.
package hook
