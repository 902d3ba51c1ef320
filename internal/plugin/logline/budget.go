// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package logline

import (
	"github.com/go-logr/logr"
)

// MaxCall is how many bytes of lines one call may add to the log of its run.
const MaxCall = 8 << 20

// Budget is what one call may log. Its zero value is that of a call that has logged nothing.
// It is not safe for concurrent use.
type Budget struct {
	spent int
}

// Spend takes the size of a line in bytes off the budget, and reports whether the line may be
// logged. The first one that may not is mentioned in log.
func (b *Budget) Spend(size int, log logr.Logger) bool {
	if b.spent > MaxCall {
		return false
	}
	b.spent += size
	if b.spent > MaxCall {
		log.Info("Dropping further log lines of this call", "limitBytes", MaxCall)
		return false
	}
	return true
}
