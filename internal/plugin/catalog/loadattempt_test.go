// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog_test

import (
	"testing"

	"github.com/grapnel-dev/grapnel/internal/plugin/catalog"
)

func closed(channel <-chan struct{}) bool {
	select {
	case <-channel:
		return true
	default:
		return false
	}
}

func TestLoadAttempted(t *testing.T) {
	c := newCatalog(t, catalog.Options{})
	good, bad, gone := c.LoadAttempted("good"), c.LoadAttempted("bad"), c.LoadAttempted("gone")
	for name, channel := range map[string]<-chan struct{}{"good": good, "bad": bad, "gone": gone} {
		if closed(channel) {
			t.Errorf("%s: load attempted before Load", name)
		}
	}
	load(t, c, fault("good", nil))
	if !closed(good) || !closed(c.LoadAttempted("good")) {
		t.Error("no load attempted after a successful Load")
	}
	if _, err := c.Load(t.Context(), fault("bad", map[string]string{"FAULT_START": "exit"})); err == nil || !closed(bad) {
		t.Errorf("no load attempted after a failed Load (%v)", err)
	}
	if closed(gone) {
		t.Error("a load of another plugin counted")
	}
	c.Unload(t.Context(), "gone")
	if !closed(gone) {
		t.Error("waiting for an unloaded plugin never ends")
	}
	c.Unload(t.Context(), "good")
	if closed(c.LoadAttempted("good")) {
		t.Error("there is no waiting for an unloaded plugin that is loaded again")
	}
}
