// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package timeline shows a Backup or Restore over time: its stages, its hooks with their attempts, and its
// operations.
//
// Build computes a Timeline from the objects. A Timeline is drawn with block characters for a terminal, as an SVG, or as
// an HTML page with the SVG. Each of them has every duration as text, and needs no color to be understood.
//
// It reads nothing itself: internal/cli does. It is not the page about a run, which is internal/report.
package timeline
