// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// progressSummary returns the numbers of a plugin in a few words: "61 % (122 of 200 MiB)", "3 of 5
// objects", "7 objects". It returns "" if the plugin reported none.
func progressSummary(p *v1alpha1.AsyncOperationProgress) string {
	switch {
	case p.Total == 0 && p.Completed == 0:
		return ""
	case isByteUnit(p.Units):
		return byteProgressSummary(p)
	case p.Total == 0:
		return strings.TrimSpace(fmt.Sprintf("%d %s", p.Completed, p.Units))
	default:
		return strings.TrimSpace(fmt.Sprintf("%d of %d %s", p.Completed, p.Total, p.Units))
	}
}

func isByteUnit(units string) bool {
	switch units {
	case "B", "byte", "bytes", "Byte", "Bytes":
		return true
	default:
		return false
	}
}

func byteProgressSummary(p *v1alpha1.AsyncOperationProgress) string {
	scale, unit := int64(1), "bytes"
	for _, larger := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if max(p.Total, p.Completed)/scale < 1024 {
			break
		}
		scale, unit = scale*1024, larger
	}
	if p.Total == 0 {
		return formatScaled(p.Completed, scale) + " " + unit
	}
	return fmt.Sprintf("%d %% (%s of %s %s)", progressFraction(p)*100/fullFraction, formatScaled(p.Completed, scale), formatScaled(p.Total, scale), unit)
}

// formatScaled formats a number of units, with one decimal if the number is small.
func formatScaled(n, scale int64) string {
	value := float64(n) / float64(scale)
	if value >= 10 || n%scale == 0 {
		return strconv.FormatInt(n/scale, 10)
	}
	return strconv.FormatFloat(value, 'f', 1, 64)
}
