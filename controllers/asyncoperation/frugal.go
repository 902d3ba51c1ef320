// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package asyncoperation

import (
	"os"
	"runtime/debug"
)

// While so many operations are open the garbage collector lets a quarter as much garbage
// lie about as it does by default. What is known of ten thousand operations stays for hours,
// and as much again would be garbage all the time; more collections cost some percent
// of the processor time that the questions take. Some less than that end it.
const (
	manyOpen, fewOpen = 2000, 1000
	frugalPercent     = 25
	defaultPercent    = 100
)

// frugal is whether the garbage collector works more often. Its owner guards it.
type frugal bool

// adapt changes that for a number of open operations, unless the environment says how
// often it works.
func (f *frugal) adapt(open int) {
	switch {
	case os.Getenv("GOGC") != "":
	case !bool(*f) && open >= manyOpen:
		*f = true
		debug.SetGCPercent(frugalPercent)
	case bool(*f) && open < fewOpen:
		*f = false
		debug.SetGCPercent(defaultPercent)
	}
}
