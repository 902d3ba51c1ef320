// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package cpu

import (
	"testing"
	"time"
)

// The time that the process of this test takes is its own, and grows while it works.
func TestTime(t *testing.T) {
	own := Process(0)
	before, err := own.Time()
	if err != nil {
		t.Fatal(err)
	}
	for now := before; now == before; {
		if now, err = own.Time(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestParse(t *testing.T) {
	for name, tc := range map[string]struct {
		stat string
		want time.Duration
		err  bool
	}{
		"a program":             {stat: "7 (operator) S 1 7 7 0 -1 4194560 1 2 3 4 150 25 99 99 20 0 9 0 8 1 2", want: 1750 * time.Millisecond},
		"a name with all of it": {stat: "7 (a) b (c) S 1 7 7 0 -1 4194560 1 2 3 4 1 2 99 99 20 0 9", want: 30 * time.Millisecond},
		"no number":             {stat: "7 (operator) S 1 7 7 0 -1 4194560 1 2 3 4 x 25 99", err: true},
		"too short":             {stat: "7 (operator) S 1", err: true},
		"nothing":               {err: true},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := parse(tc.stat); got != tc.want || (err != nil) != tc.err {
				t.Errorf("%s, %v, want %s", got, err, tc.want)
			}
		})
	}
}
