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
			t.Errorf("%s was tried before it was loaded", name)
		}
	}
	load(t, c, fault("good", nil))
	if !closed(good) || !closed(c.LoadAttempted("good")) {
		t.Error("a loaded plugin was not tried")
	}
	if _, err := c.Load(t.Context(), fault("bad", map[string]string{"FAULT_START": "exit"})); err == nil || !closed(bad) {
		t.Errorf("a plugin that could not be loaded (%v) was not tried", err)
	}
	if closed(gone) {
		t.Error("a load of another plugin counted")
	}
	c.Unload(t.Context(), "gone")
	if !closed(gone) {
		t.Error("who waits for a plugin that was unloaded waits for ever")
	}
	c.Unload(t.Context(), "good")
	if closed(c.LoadAttempted("good")) {
		t.Error("an unloaded plugin is not waited for when it comes back")
	}
}
