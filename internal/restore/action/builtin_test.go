// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package action_test

import (
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/restore/action"
)

func TestNewActions_UniqueNames(t *testing.T) {
	seen := map[string]bool{}
	for _, action := range action.NewActions() {
		if seen[action.Name()] || !strings.HasPrefix(action.Name(), "grapnel.dev/") {
			t.Errorf("%T is called %q", action, action.Name())
		}
		seen[action.Name()] = true
	}
}
