// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package browser checks in Chromium the pages that kubectl grapnel writes: the golden files of internal/report and
// internal/timeline. It needs no cluster. make test-browser installs Chromium and runs it, and make e2e runs it, too.
//
// Chromium is controlled by means of the DevTools protocol over a pipe (--remote-debugging-pipe).
package browser
