// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"math/bits"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// fullFraction is 100 %, in millionths.
const fullFraction = 1_000_000

// progressFraction returns the completed fraction of an operation, in millionths; 0 if the
// total is unknown. More than the total counts as the total.
func progressFraction(p *v1alpha1.AsyncOperationProgress) int64 {
	if p == nil || p.Total <= 0 || p.Completed <= 0 {
		return 0
	}
	if p.Completed >= p.Total {
		return fullFraction
	}
	high, low := bits.Mul64(uint64(p.Completed), fullFraction)
	quotient, _ := bits.Div64(high, low, uint64(p.Total))
	return int64(quotient) //nolint:gosec // less than whole: completed is less than total
}
