// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"errors"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // images without a database of time zones know them, too

	"github.com/robfig/cron/v3"
)

const (
	// maxExpressionBytes is how long an expression may be, in bytes. One that names every
	// minute, hour, day and month is half as long.
	maxExpressionBytes = 1000
	// minInterval is the shortest interval, because times are recorded in seconds.
	minInterval = time.Second

	syntaxHint = "write five fields: minute (0-59), hour (0-23), day of the month (1-31), month (1-12 or JAN-DEC), " +
		"day of the week (0-6 or SUN-SAT, Sunday is 0), for example \"30 3 * * *\" for every day at 3:30; " +
		"or one of @hourly, @daily, @weekly, @monthly, @yearly and @every 6h"
	timeZoneHint = "write a name of the IANA database, for example Europe/Berlin or America/New_York, or leave it out for UTC"
)

// Parse reads a cron expression of five fields, or @hourly, @daily, @midnight, @weekly,
// @monthly, @yearly, @annually, or @every with a duration of at least a second; fractions
// of a second are cut off. The time zone is a name of the IANA database; empty is UTC.
//
// Errors are for people: they say what is wrong and what to write instead. An expression
// that never fires is one.
func Parse(expression, timeZone string) (Cron, error) {
	expression = strings.TrimSpace(expression)
	switch {
	case expression == "":
		return Cron{}, errors.New("the schedule is empty; " + syntaxHint)
	case len(expression) > maxExpressionBytes:
		return Cron{}, fmt.Errorf("the schedule has %d characters, and may have %d; use ranges and steps such as 0-30/5",
			len(expression), maxExpressionBytes)
	case strings.Contains(strings.ToUpper(expression), "TZ="):
		return Cron{}, fmt.Errorf("schedule %q names a time zone, which has a field of its own; set timeZone, and leave out TZ= and CRON_TZ= here",
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

// fromParsedSchedule takes over what the parser knows. That it says when it fires itself is not used:
// it skips and repeats times when clocks change.
func fromParsedSchedule(parsed cron.Schedule, expression string, zone *time.Location) (Cron, error) {
	switch s := parsed.(type) {
	case cron.ConstantDelaySchedule:
		return parseInterval(expression)
	case *cron.SpecSchedule:
		c := Cron{minutes: s.Minute, hours: s.Hour, days: s.Dom, months: s.Month, weekdays: s.Dow, zone: zone}
		// Whether there is such a day does not depend on where, and all there are come
		// within eight years.
		utc := c
		utc.zone = time.UTC
		if utc.Next(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
			return Cron{}, fmt.Errorf("schedule %q never fires: no month that it names has such a day; "+
				"change the day of the month or the month, for example \"0 0 28 2 *\" or \"0 0 1 * *\"", expression)
		}
		return c, nil
	default:
		return Cron{}, fmt.Errorf("schedule %q is not valid; %s", expression, syntaxHint)
	}
}

// parseInterval reads the duration again: the parser makes a second of what is no interval.
func parseInterval(expression string) (Cron, error) {
	_, text, _ := strings.Cut(expression, " ")
	every, err := time.ParseDuration(text)
	if err != nil || every < minInterval {
		return Cron{}, fmt.Errorf("schedule %q is not valid: the interval is shorter than a second; write a duration such as @every 6h or @every 90m",
			expression)
	}
	return Cron{every: every.Truncate(time.Second)}, nil
}

// rejectEmptyLists refuses what the parser takes for a list without elements, which never
// matches, or for one with fewer than somebody wanted to write.
func rejectEmptyLists(expression string) error {
	for field := range strings.FieldsSeq(expression) {
		if strings.HasPrefix(field, ",") || strings.HasSuffix(field, ",") || strings.Contains(field, ",,") {
			return fmt.Errorf("%q has a comma with nothing beside it", field)
		}
	}
	return nil
}

// recoverPanic makes an error of a panic of the library: what it is given is written by people.
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
