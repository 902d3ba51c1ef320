// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

func TestMicroTime(t *testing.T) {
	at := time.Date(2026, 11, 27, 22, 18, 25, 123456000, time.UTC)
	for name, tc := range map[string]struct {
		stored string
		want   time.Time
		// written is how it is stored again; as before if it is empty.
		written string
	}{
		"microseconds":    {`"2026-11-27T22:18:25.123456Z"`, at, ""},
		"whole seconds":   {`"2026-11-27T22:18:25Z"`, at.Truncate(time.Second), `"2026-11-27T22:18:25.000000Z"`},
		"nanoseconds":     {`"2026-11-27T22:18:25.123456789Z"`, at.Add(789), `"2026-11-27T22:18:25.123456Z"`},
		"another zone":    {`"2026-11-27T23:18:25.123456+01:00"`, at, `"2026-11-27T22:18:25.123456Z"`},
		"no time":         {`null`, time.Time{}, ""},
		"a number":        {`12`, time.Time{}, "error"},
		"something other": {`"yesterday"`, time.Time{}, "error"},
	} {
		t.Run(name, func(t *testing.T) {
			var got v1alpha1.MicroTime
			err := json.Unmarshal([]byte(tc.stored), &got)
			if (err != nil) != (tc.written == "error") {
				t.Fatalf("error %v", err)
			}
			if err != nil {
				return
			}
			if !got.Time.Equal(tc.want) {
				t.Errorf("got %s, want %s", got, tc.want)
			}
			want := tc.written
			if want == "" {
				want = tc.stored
			}
			if written, err := json.Marshal(got); err != nil || string(written) != want {
				t.Errorf("written as %s, %v; want %s", written, err, want)
			}
		})
	}
}
