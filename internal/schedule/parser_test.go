// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"strings"
	"testing"
	"time"

	"github.com/robfig/cron/v3"
)

func TestParse(t *testing.T) {
	for name, tc := range map[string]struct{ expression, zone, next string }{
		"five fields":              {"30 3 * * *", "", "2024-01-02T03:30:00Z"},
		"with spaces around":       {"  30\t3 * * *\n", "", "2024-01-02T03:30:00Z"},
		"names":                    {"0 0 * FEB mon", "", "2024-02-05T00:00:00Z"},
		"lists, ranges, steps":     {"5-20/5,59 4,6 * * *", "", "2024-01-02T04:05:00Z"},
		"a question mark":          {"0 6 ? * 0", "", "2024-01-07T06:00:00Z"},
		"day of month or of week":  {"0 0 20 * 5", "", "2024-01-05T00:00:00Z"},
		"day of month and any day": {"0 0 20 * *", "", "2024-01-20T00:00:00Z"},
		"hourly":                   {"@hourly", "", "2024-01-01T13:00:00Z"},
		"daily":                    {"@daily", "", "2024-01-02T00:00:00Z"},
		"midnight":                 {"@midnight", "", "2024-01-02T00:00:00Z"},
		"weekly":                   {"@weekly", "", "2024-01-07T00:00:00Z"},
		"monthly":                  {"@monthly", "", "2024-02-01T00:00:00Z"},
		"yearly":                   {"@yearly", "", "2025-01-01T00:00:00Z"},
		"annually":                 {"@annually", "", "2025-01-01T00:00:00Z"},
		"every":                    {"@every 1h30m", "Asia/Tokyo", "2024-01-01T13:31:10Z"},
		"every, with a fraction":   {"@every 1.5s", "", "2024-01-01T12:01:11Z"},
		"a zone":                   {"30 3 * * *", "Asia/Tokyo", "2024-01-01T18:30:00Z"},
		"a zone of half an hour":   {"0 3 * * *", "Asia/Kolkata", "2024-01-01T21:30:00Z"},
		"UTC by name":              {"30 3 * * *", "UTC", "2024-01-02T03:30:00Z"},
		"a leap day":               {"0 0 29 2 *", "", "2024-02-29T00:00:00Z"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := Parse(tc.expression, tc.zone)
			if err != nil {
				t.Fatal(err)
			}
			if got := c.Next(at("2024-01-01T12:01:10Z")); !got.Equal(at(tc.next)) {
				t.Errorf("next is %v, want %s", got, tc.next)
			}
		})
	}
}

func TestParse_Errors(t *testing.T) {
	for name, tc := range map[string]struct {
		expression, zone string
		says             []string
	}{
		"nothing":              {"", "", []string{"is empty", "write five fields"}},
		"blanks":               {" \t", "", []string{"is empty", "write five fields"}},
		"four fields":          {"0 3 * *", "", []string{`"0 3 * *"`, "found 4", "write five fields"}},
		"seconds":              {"0 0 3 * * *", "", []string{"found 6", "write five fields"}},
		"words":                {"every night", "", []string{"write five fields"}},
		"minute 60":            {"60 * * * *", "", []string{"60", "minute (0-59)"}},
		"Sunday as 7":          {"0 3 * * 7", "", []string{"7", "Sunday is 0"}},
		"a negative number":    {"-1 * * * *", "", []string{"write five fields"}},
		"a range backwards":    {"0 5-3 * * *", "", []string{"beyond end of range", "write five fields"}},
		"a step of zero":       {"*/0 * * * *", "", []string{"step", "write five fields"}},
		"an empty list":        {", * * * *", "", []string{"comma", "write five fields"}},
		"a comma too many":     {"0 3,,4 * * *", "", []string{"comma"}},
		"an unknown word":      {"@fortnightly", "", []string{"@fortnightly", "@weekly"}},
		"reboot":               {"@reboot", "", []string{"@reboot", "@daily"}},
		"every nothing":        {"@every", "", []string{"@every 6h"}},
		"every day as d":       {"@every 1d", "", []string{"@every 6h"}},
		"every zero":           {"@every 0s", "", []string{"shorter than a second", "@every 90m"}},
		"every negative":       {"@every -1h", "", []string{"shorter than a second"}},
		"every millisecond":    {"@every 1ms", "", []string{"shorter than a second"}},
		"a zone inside":        {"CRON_TZ=Europe/Berlin 0 3 * * *", "", []string{"set timeZone", "leave out"}},
		"a zone inside, short": {"TZ=UTC 0 3 * * *", "", []string{"set timeZone"}},
		"a zone inside, lower": {" tz=UTC 0 3 * * *", "", []string{"set timeZone"}},
		"only a zone":          {"TZ=UTC", "", []string{"set timeZone"}}, // the library panics
		"30 February":          {"0 0 30 2 *", "", []string{"never fires", "day of the month"}},
		"31 in short months":   {"0 0 31 2,4,6,9,11 *", "", []string{"never fires"}},
		"very long":            {strings.Repeat("0,", 600) + "0 * * * *", "", []string{"characters", "1000"}},
		"an unknown zone":      {"0 3 * * *", "Europe/Bielefeld", []string{`"Europe/Bielefeld"`, "Europe/Berlin", "UTC"}},
		"an offset":            {"0 3 * * *", "UTC+2", []string{"not known", "Europe/Berlin"}},
		"a zone with a blank":  {"0 3 * * *", " ", []string{"not known"}},
		"the local zone":       {"0 3 * * *", "Local", []string{"where the operator runs", "Europe/Berlin"}},
		"a path as a zone":     {"0 3 * * *", "../../etc/passwd", []string{"not known"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(tc.expression, tc.zone)
			if err == nil {
				t.Fatal("the expression was accepted")
			}
			for _, want := range tc.says {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
		})
	}
}

func TestRecoverPanic(t *testing.T) {
	if _, err := recoverPanic(cron.ParseStandard, "TZ=UTC"); err == nil || !strings.Contains(err.Error(), "cannot be read") {
		t.Errorf("got %v", err)
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"30 3 * * *", "@every 1h", "*/7 1-5,9 1 JAN mon", "TZ=", "@", ",", "0 0 30 2 *"} {
		f.Add(seed, "Europe/Berlin")
	}
	now := at("2024-03-31T00:59:59Z")
	f.Fuzz(func(t *testing.T, expression, zone string) {
		c, err := Parse(expression, zone)
		if err != nil {
			return
		}
		if next := c.Next(now); !next.After(now) {
			t.Errorf("%q in %q: %v comes after %v", expression, zone, next, now)
		}
	})
}

func at(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return t
}

func parsed(t *testing.T, expression, zone string) Cron {
	t.Helper()
	c, err := Parse(expression, zone)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
