// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"errors"
	"fmt"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/restore"
)

// TestIsInconclusiveError checks that only errors are retried that leave unknown what is stored.
// A damaged backup stays damaged.
func TestIsInconclusiveError(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"the manifest was read":         {},
		"there is no such backup":       {err: fmt.Errorf("reading: %w", restore.ErrBackupNotFound)},
		"the backup is damaged":         {err: fmt.Errorf("reading: %w", restore.ErrDamaged)},
		"Grapnel's manifest is missing": {err: fmt.Errorf("reading: %w", restore.ErrUnverified)},
		"the store did not answer":      {err: errors.New("503 Service Unavailable"), want: true},
		"the API server did not list":   {err: errors.New("listing the Plugins: 500"), want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := isInconclusiveError(tc.err); got != tc.want {
				t.Errorf("isInconclusiveError(%v) = %v, want %v", tc.err, got, tc.want)
			}
		})
	}
}
