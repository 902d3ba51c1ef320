// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package results

import (
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
)

// The JSON is what Velero's tools read.
func TestResults_JSON(t *testing.T) {
	var c Collector
	c.Warn(ObjectScope("b"), "two")
	c.Warn(ObjectScope("b"), "one")
	c.Warn(ObjectScope(""), "volume")
	c.Error(RunScope(), errors.New("whole kind"))
	got, err := json.Marshal(c.Results())
	if err != nil {
		t.Fatal(err)
	}
	want := `{"warnings":{"cluster":["volume"],"namespaces":{"b":["one","two"]}},"errors":{"velero":["whole kind"]}}`
	if string(got) != want {
		t.Errorf("results are %s, want %s", got, want)
	}
}

func TestFirst(t *testing.T) {
	m := Messages{Velero: []string{"kind"}, Cluster: []string{"volume"}, Namespaces: map[string][]string{"b": {"two"}, "a": {"one"}}}
	for most, want := range map[int]string{0: "", 1: "kind", 3: "kind, volume, a: one", 9: "kind, volume, a: one, b: two"} {
		if got := strings.Join(m.First(most), ", "); got != want {
			t.Errorf("the first %d are %q, want %q", most, got, want)
		}
	}
}

func TestCollector_Limit(t *testing.T) {
	var c Collector
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range MaxMessages/4 + 1 {
				c.Warn(ObjectScope("ns"), "w")
			}
		})
	}
	wg.Wait()
	got := c.Results()
	if got.WarningCount != MaxMessages+4 || len(got.Warnings.Namespaces["ns"]) != MaxMessages {
		t.Errorf("%d warnings counted, %d kept", got.WarningCount, len(got.Warnings.Namespaces["ns"]))
	}
	if len(got.Warnings.Velero) != 1 || !strings.HasPrefix(got.Warnings.Velero[0], "4 more") {
		t.Errorf("last message is %q", got.Warnings.Velero)
	}
	if got.ErrorCount != 0 {
		t.Errorf("%d errors out of nothing", got.ErrorCount)
	}
}
