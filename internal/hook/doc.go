// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hook decides which actions run around a Backup or Restore.
//
// It plans the actions on single objects too, which have an order and a selector like
// the others, and neither half nor annotation.
//
// Make takes every known action, the labels and annotations of the subject and
// the parameters it passes, and returns a Plan: the Pre steps in the order they
// run, the Post steps in the order they run (the reverse), what was skipped,
// and every error and warning at once. The package is pure: no clients, no
// clocks, no Kubernetes objects of our own.
//
// The rules, in DESIGN's words: a plan holds every known action of the point,
// ready or not, whose selector matches, sorted by order then name, minus the
// skipped ones. An action that provides both Pre and Post under one name is a
// pair: its Post is owed as soon as its Pre was started, and never otherwise.
package hook
