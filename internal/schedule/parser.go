// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"errors"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // for images without a time zone database

	"github.com/robfig/cron/v3"
)

const (
	// maxExpressionBytes is the maximum length of an expression, in bytes. An expression that lists
	// every minute, hour, day and month is half as long.
	maxExpressionBytes = 1000
	// minInterval is the shortest interval, because times are recorded in seconds.
	minInterval = time.Second

	syntaxHint = "write five fields: minute (0-59), hour (0-23), day of the month (1-31), month (1-12 or JAN-DEC), " +
		"day of the week (0-6 or SUN-SAT, Sunday is 0), for example \"30 3 * * *\" for every day at 3:30; " +
		"or one of @hourly, @daily, @weekly, @monthly, @yearly and @every 6h"
	timeZoneHint = "write a name of the IANA database, for example Europe/Berlin or America/New_York, or omit it for UTC"
)

// Parse parses a cron expression of five fields, or @hourly, @daily, @midnight, @weekly,
// @monthly, @yearly, @annually, or @every with a duration of at least a second; fractions
// of a second are cut off. The time zone is a name of the IANA database; empty means UTC.
//
// Errors are for users: they say what is wrong and what to write instead. An expression
// that never fires is an error.
func Parse(expression, timeZone string) (Cron, error) {
	expression = strings.TrimSpace(expression)
	switch {
	case expression == "":
		return Cron{}, errors.New("the schedule is empty; " + syntaxHint)
	case len(expression) > maxExpressionBytes:
		return Cron{}, fmt.Errorf("the schedule has %d characters, at most %d are allowed; use ranges and steps such as 0-30/5",
			len(expression), maxExpressionBytes)
	case strings.Contains(strings.ToUpper(expression), "TZ="):
		return Cron{}, fmt.Errorf("schedule %q names a time zone, which has its own field; set timeZone, and leave out TZ= and CRON_TZ= here",
			expression)
	}
	zone, err := loadTimeZone(timeZone)
	if err != nil {
		return Cron{}, err
	}
	if err := rejectEmptyLists(expression); err != nil {
		return Cron{}, fmt.Errorf("schedule %q is not valid: %w; %s", expression, err, syntaxHint)
	}
	parsed, err := recoverPanic(cron.ParseStandard, expression)
	if err != nil {
		return Cron{}, fmt.Errorf("schedule %q is not valid: %w; %s", expression, err, syntaxHint)
	}
	return fromParsedSchedule(parsed, expression, zone)
}

// fromParsedSchedule converts a parsed schedule. It does not use the parser's own computation of
// times, which skips and repeats times when clocks change.
func fromParsedSchedule(parsed cron.Schedule, expression string, zone *time.Location) (Cron, error) {
	switch s := parsed.(type) {
	case cron.ConstantDelaySchedule:
		return parseInterval(expression)
	case *cron.SpecSchedule:
		c := Cron{minutes: s.Minute, hours: s.Hour, days: s.Dom, months: s.Month, weekdays: s.Dow, zone: zone}
		// Whether such a day exists does not depend on the time zone, and every existing day
		// occurs within eight years.
		utc := c
		utc.zone = time.UTC
		if utc.Next(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
			return Cron{}, fmt.Errorf("schedule %q never fires: none of its months has such a day; "+
				"change the day of the month or the month, for example \"0 0 28 2 *\" or \"0 0 1 * *\"", expression)
		}
		return c, nil
	default:
		return Cron{}, fmt.Errorf("schedule %q is not valid; %s", expression, syntaxHint)
	}
}

// parseInterval parses the duration again: the parser turns an invalid interval into one second.
func parseInterval(expression string) (Cron, error) {
	_, text, _ := strings.Cut(expression, " ")
	every, err := time.ParseDuration(text)
	if err != nil || every < minInterval {
		return Cron{}, fmt.Errorf("schedule %q is not valid: the interval is shorter than a second; write a duration such as @every 6h or @every 90m",
			expression)
	}
	return Cron{every: every.Truncate(time.Second)}, nil
}

// rejectEmptyLists rejects lists with empty elements. The parser accepts them as a list that never
// matches, or as one with fewer elements than the user intended.
func rejectEmptyLists(expression string) error {
	for field := range strings.FieldsSeq(expression) {
		if strings.HasPrefix(field, ",") || strings.HasSuffix(field, ",") || strings.Contains(field, ",,") {
			return fmt.Errorf("%q has a comma without a value next to it", field)
		}
	}
	return nil
}

// recoverPanic turns a panic of the library into an error: its input is written by users.
func recoverPanic(parse func(string) (cron.Schedule, error), expression string) (s cron.Schedule, err error) {
	defer func() {
		if r := recover(); r != nil {
			s, err = nil, fmt.Errorf("it cannot be read (%v)", r)
		}
	}()
	return parse(expression)
}

func loadTimeZone(name string) (*time.Location, error) {
	if strings.EqualFold(name, "local") {
		return nil, fmt.Errorf("time zone %q depends on where the operator runs; %s", name, timeZoneHint)
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("time zone %q is not known; %s", name, timeZoneHint)
	}
	return zone, nil
}
