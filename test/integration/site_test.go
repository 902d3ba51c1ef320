// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"

	"github.com/grapnel-dev/grapnel/internal/testing/stage"
)

// site is an operator with what these stories do with it.
type site struct{ *stage.Site }

// sharedSite returns the operator of the tests that need none of their own. Many
// Backups may run at a time, so that those that hang hold up nobody.
func sharedSite(t *testing.T) site {
	t.Helper()
	s := world.Shared(t)
	world.AwaitPlugins(t, sharedPlugins()...)
	return site{s}
}

// newSite starts an operator with flags of its own, for a namespace of its own,
// until the test ends.
func newSite(t *testing.T, args ...string) site {
	t.Helper()
	s := world.New(t, args...)
	world.AwaitPlugins(t, sharedPlugins()...)
	return site{s}
}
