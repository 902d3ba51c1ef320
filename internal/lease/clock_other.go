// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package lease

import "time"

// sinceBoot returns 0: operators run on Linux.
func sinceBoot() time.Duration { return 0 }
