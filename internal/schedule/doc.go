// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package schedule decides what a Schedule has to do now. It is pure: it calls nothing
// and is told what time it is.
//
// [Parse] reads a cron expression in the syntax that a CronJob has; the [Cron] it
// returns knows when it fires. [Decide] is told what is recorded of a Schedule, which
// runs of it exist and what time it is, and says which run to create, which to cancel,
// which to delete, what to record, and when to ask again.
//
// Everything follows from one time, called since: up to it, all times of the schedule
// are settled. It is the newest of what is recorded, of the runs that exist, and of the
// beginning of the Schedule. The times between since and now are missed. Only the newest
// of them is made up for, as a CronJob does, and it is not if it is older than the
// starting deadline. Runs are named after their time, so that who decides twice, or by
// an old list of runs, names the same run again.
//
// A clock that is put forward is a time in which nothing ran. One that is put back by up
// to an hour is waited for, so that no time happens twice. What lies further in the
// future was written by a clock that was wrong, and is not believed.
//
// When clocks change for summer time, a schedule goes by what people mean by it:
//
//	                                 spring, 2:30 is left out      autumn, 2:30 happens twice
//	30 2 * * *   certain hours       fires when clocks go on, at   fires the first time
//	                                 what is then 3:00
//	30 * * * *   all hours; @every   fires an hour after 1:30      fires each time
//
// A CronJob would skip the first in spring, and run it twice in autumn.
//
//	parse.go   expressions and time zones, and what is wrong with them
//	cron.go    the next time, and those that were missed
//	zone.go    summer time
//	decide.go  Decide, and what it is told and tells
//	since.go   which times are settled, whatever clocks did
//	keep.go    which runs are too many
package schedule
