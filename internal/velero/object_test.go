// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package velero_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/internal/velero"
)

func TestPickFields(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		spec  string
		want  string
		fails bool
	}{
		"some":       {spec: `{"ttl":"1h","parameters":{"x":{"password":"hunter2"}},"labelSelector":null}`, want: `{"ttl":"1h","labelSelector":null}`},
		"nothing":    {spec: "", want: `{}`},
		"null":       {spec: "null", want: `{}`},
		"no object":  {spec: "[]", fails: true},
		"not at all": {spec: "{", fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			picked, err := velero.PickFields(json.RawMessage(tc.spec), []string{"ttl", "labelSelector", "absent"})
			if (err != nil) != tc.fails {
				t.Fatalf("error %v, want one: %v", err, tc.fails)
			}
			if tc.fails {
				return
			}
			got, err := json.Marshal(picked)
			if err != nil {
				t.Fatal(err)
			}
			var a, b any
			if json.Unmarshal(got, &a) != nil || json.Unmarshal([]byte(tc.want), &b) != nil || !cmp.Equal(a, b) {
				t.Errorf("picked %s, want %s", got, tc.want)
			}
		})
	}
}
