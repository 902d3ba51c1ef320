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
func TestResultsAreInVelerosShape(t *testing.T) {
	var c Collector
	c.Warn(Object("b"), "two")
	c.Warn(Object("b"), "one")
	c.Warn(Object(""), "volume")
	c.Error(Run(), errors.New("whole kind"))
	got, err := json.Marshal(c.Results())
	if err != nil {
		t.Fatal(err)
	}
	want := `{"warnings":{"cluster":["volume"],"namespaces":{"b":["one","two"]}},"errors":{"velero":["whole kind"]}}`
	if string(got) != want {
		t.Errorf("results are %s, want %s", got, want)
	}
}

func TestCollectorCountsWhatItDoesNotKeep(t *testing.T) {
	var c Collector
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range MaxMessages/4 + 1 {
				c.Warn(Object("ns"), "w")
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
