// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import "time"

// instant is one moment by every clock of the process. Only differences are
// meaningful.
type instant struct {
	// monotonic is never set, and stops while the machine sleeps.
	monotonic time.Duration
	// boot is never set, and includes sleep.
	boot time.Duration
	// wall may be set at any time.
	wall time.Duration
}

// processStart is when the monotonic clock is 0.
var processStart = time.Now()

func currentInstant() instant {
	return instant{monotonic: time.Since(processStart), boot: sinceBoot(), wall: time.Duration(time.Now().UnixNano())}
}

// elapsedMonotonic returns the time since an earlier instant, by the clocks that cannot be set.
func (i instant) elapsedMonotonic(earlier instant) time.Duration {
	return max(i.monotonic-earlier.monotonic, i.boot-earlier.boot)
}

// longestElapsed returns the time since an earlier instant, by the clock that advanced the
// most. If a machine was paused, possibly only the wall clock shows that.
func (i instant) longestElapsed(earlier instant) time.Duration {
	return max(i.elapsedMonotonic(earlier), i.wall-earlier.wall)
}
