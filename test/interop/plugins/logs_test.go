// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package plugins

import (
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/test/interop/plugins/actions"
)

func TestLogLines(t *testing.T) {
	forReleases(t, func(t *testing.T, release string) {
		h := loaded(t, release)
		if _, err := h.archive(t.Context(), actions.BackupV1, do(actions.DoLog)); err != nil {
			t.Fatal(err)
		}
		for message, rest := range map[string][]string{
			"a line for developers": {`"level"=1`, `"object"="settings"`},
			"a line for users":      {`"level"=0`, `"object"="settings"`, `"attempt"="3"`},
			"a line that warns":     {`"severity"="warning"`},
			// Only errors are written without a number for their level.
			"a line about an error": {`"msg"="a line about an error" "error"=null`, `"error"="freezing the volume: the volume is busy"`, "behaviour.go:", "actions.failure"},
		} {
			line := lineWith(h.log.Lines(), message)
			for _, part := range rest {
				if !strings.Contains(line, part) {
					t.Errorf("the line %q of the run's log lacks %s:\n%s", message, part, line)
				}
			}
		}
	})
}

func lineWith(lines []string, message string) string {
	for _, line := range lines {
		if strings.Contains(line, message) {
			return line
		}
	}
	return ""
}
