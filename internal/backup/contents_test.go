// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"errors"
	"fmt"
	"testing"
)

// TestOriginalError has either end of a pipe return first.
func TestOriginalError(t *testing.T) {
	broken, other := errors.New("it is broken"), errors.New("it is another one")
	stored, archived := fmt.Errorf("storing: %w", broken), fmt.Errorf("archiving: %w", broken)
	for name, tc := range map[string]struct {
		first, write, read error
		want               error
	}{
		"no error":                            {},
		"the writer fails":                    {first: broken, write: broken, read: stored, want: broken},
		"the writer fails and returns later":  {first: stored, write: broken, read: stored, want: broken},
		"the reader fails":                    {first: broken, write: archived, read: broken, want: broken},
		"the reader fails and returns later":  {first: archived, write: archived, read: broken, want: broken},
		"only the writer fails":               {first: archived, write: archived, want: archived},
		"only the reader fails":               {first: stored, read: stored, want: stored},
		"both fail independently":             {first: other, write: broken, read: other, want: other},
		"both fail independently, vice versa": {first: broken, write: broken, read: other, want: broken},
	} {
		t.Run(name, func(t *testing.T) {
			if got := originalError(tc.first, tc.write, tc.read); got != tc.want { //nolint:errorlint // not one that wraps it
				t.Errorf("error %v, want %v", got, tc.want)
			}
		})
	}
}
