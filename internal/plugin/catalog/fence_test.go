// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/plugin/catalog"
)

var errNotLeading = errors.New("this operator does not lead")

// TestFence checks that an operator that may have lost its lease calls no action, and stores and
// deletes nothing with a plugin, whether the process of the location runs or not. A call that is
// not made does not indicate a failure of the plugin.
func TestFence(t *testing.T) {
	leads := true
	c := newCatalog(t, catalog.Options{Fence: func(context.Context) error {
		if leads {
			return nil
		}
		return errNotLeading
	}})
	load(t, c, fault("actions", nil))
	storePlugin(t, c)
	running, fresh := openBucket(t, c, "running", t.TempDir()), openBucket(t, c, "fresh", t.TempDir())
	running.mustPut("before", "x")

	leads = false
	if _, err := execute(t, c, "actions", preBackup("k", nil), nil); executor.ErrorKindOf(err) != executor.Interrupted {
		t.Errorf("an action is called: %v", err)
	}
	for name, b := range map[string]*bucket{"running": running, "not running": fresh} {
		if err := b.put(t.Context(), "late", strings.NewReader("x")); !errors.Is(err, errNotLeading) {
			t.Errorf("%s: storing an object: %v", name, err)
		}
	}

	leads = true
	if _, err := execute(t, c, "actions", preBackup("k", nil), nil); err != nil {
		t.Errorf("the leader does not call an action: %v", err)
	}
	if got := slices.Concat(running.list("", ""), fresh.list("", "")); !slices.Equal(got, []string{"before"}) {
		t.Errorf("stored are %q", got)
	}
}
