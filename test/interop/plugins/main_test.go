// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package plugins

import (
	"context"
	"fmt"
	"os"
	"testing"
)

// programs is the directory with the built plugins.
var programs string

func TestMain(m *testing.M) {
	var err error
	if programs, err = Build(context.Background(), "veleroplugins"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// forReleases runs a test with every release of Velero.
func forReleases(t *testing.T, test func(t *testing.T, release string)) {
	t.Helper()
	t.Parallel()
	for _, release := range Releases() {
		t.Run(release, func(t *testing.T) {
			t.Parallel()
			test(t, release)
		})
	}
}
