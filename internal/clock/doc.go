// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clock decides when recorded times are due without trusting the clock of one machine.
//
// Code that deletes or ends something because a time has passed asks a [ServerClock] for the time of
// the API server: the clock of one machine may be ahead. A [DueTracker] limits waits for times that
// are recorded in objects: if a clock was ahead when a time was recorded, or is set back, its error
// would extend the wait.
package clock
