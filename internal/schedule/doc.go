// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package schedule decides what a Schedule has to do now. It is pure: it has no side effects,
// and the current time is an input.
//
// [Parse] parses a cron expression in the syntax of a CronJob. The [Cron] that it returns
// computes when the schedule fires. The input of [Decide] is the recorded status of a Schedule,
// its existing runs and the current time. It decides which run to create, which to cancel,
// which to delete, what to record, and when to decide again.
//
// Everything follows from one time, called since: all times of the schedule up to since are
// settled. It is the newest of the recorded times, of the existing runs, and of the creation
// of the Schedule. The times between since and now are missed. Only the newest of them is made
// up for, as in a CronJob, unless it is older than the starting deadline. Runs are named after
// their time: deciding twice, or with an outdated list of runs, names the same run again.
//
// A manual run is created on request. It is like any other run, but leaves since as it is: the
// schedule keeps its rhythm. It is named after the time of its request, so that a request that was
// not recorded names the same run again.
//
// A clock that is set forward is a time in which nothing ran. If a clock is set back by up to
// an hour, the Schedule waits, so that no time occurs twice. A time further in the future was
// written by a wrong clock, and is ignored.
//
// When clocks change for daylight saving time, a schedule does what people expect:
//
//	                                 spring, 2:30 is skipped       autumn, 2:30 occurs twice
//	30 2 * * *   certain hours       fires when clocks change, at  fires the first time
//	                                 what is then 3:00
//	30 * * * *   all hours; @every   fires an hour after 1:30      fires each time
//
// A CronJob would skip the first in spring, and run it twice in autumn.
//
//	parser.go   expressions and time zones, and their errors
//	cron.go     the next time, and missed times
//	zone.go     daylight saving time
//	decide.go   Decide, its input and its result
//	lastrun.go  which times are settled, even if clocks changed
//	request.go  requests for a manual run
//	limits.go   which runs are in excess
package schedule
