// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package report writes a page about a Backup or Restore: one HTML file without scripts that needs no other file and
// no network. A browser shows it in light or dark colors, on a phone, and prints it.
//
// Everything in it comes from the objects of the run and its results file, from which secrets have been redacted. The
// texts are hostile: the template escapes them, and Write removes control characters.
//
// It reads nothing itself: internal/cli does.
package report
