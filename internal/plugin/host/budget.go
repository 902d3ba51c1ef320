// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"github.com/go-logr/logr"
)

// MaxCallBytes is the maximum size of the lines that one call may add to the log of its
// run.
const MaxCallBytes = 8 << 20

// CallBudget limits what one call may log. Its zero value is for a call that has logged nothing.
// It is not safe for concurrent use.
type CallBudget struct {
	spent int
}

// SpendBytes subtracts the size of a line in bytes from the budget, and reports whether the line
// may be logged. The first dropped line is reported in log.
func (b *CallBudget) SpendBytes(size int, log logr.Logger) bool {
	if b.spent > MaxCallBytes {
		return false
	}
	b.spent += size
	if b.spent > MaxCallBytes {
		log.Info("Dropping further log lines of this call", "limitBytes", MaxCallBytes)
		return false
	}
	return true
}
