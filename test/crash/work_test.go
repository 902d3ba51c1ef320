// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package crash

import (
	"testing"

	"github.com/grapnel-dev/grapnel/internal/lifecycle"
)

// work is what the runs of a lane do: back up, restore, or destroy a backup. Everything
// else about them is the same.
type work interface {
	// kind says how things are called.
	kind() lifecycle.KindTraits
	// setUp makes what all runs of a lane need.
	setUp(t *testing.T, l *testOperator)
	// begin returns what a person creates for a run, after the cluster was made what
	// the run is to find.
	begin(t *testing.T, l *testOperator, name string) lifecycle.Object
	// directory is where the files that a run of that name concerns are stored, below the
	// prefix of the lane.
	directory(name string) string
	// left returns what a run that is over has left behind, as texts by name. The
	// operator ended so many times.
	left(t *testing.T, l *testOperator, o lifecycle.Object, ends int) map[string]string
}
