// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package results

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestResults_JSON has the messages where Velero's client reads them, and the problems.
func TestResults_JSON(t *testing.T) {
	var c Collector
	widgets := schema.GroupResource{Group: "example.org", Resource: "widgets"}
	c.Warn(About(widgets, "b", "y"), "Odd", "two")
	c.Warn(About(widgets, "b", "x"), "Odd", "one")
	c.Warn(About(schema.GroupResource{Resource: "persistentvolumes"}, "", "pv"), "Odd", "volume")
	c.Error(About(widgets, "", ""), "Broken", errors.New("whole kind"))
	c.Error(Subject{}, "Broken", errors.New("all of it"))
	got, err := json.Marshal(c.Results())
	if err != nil {
		t.Fatal(err)
	}
	want := `{"warnings":{"cluster":["volume"],"namespaces":{"b":["one","two"]},"problems":[` +
		`{"resource":"persistentvolumes","name":"pv","reason":"Odd","message":"volume"},` +
		`{"resource":"widgets.example.org","namespace":"b","name":"x","reason":"Odd","message":"one"},` +
		`{"resource":"widgets.example.org","namespace":"b","name":"y","reason":"Odd","message":"two"}]},` +
		`"errors":{"velero":["all of it","whole kind"],"problems":[` +
		`{"reason":"Broken","message":"all of it"},` +
		`{"resource":"widgets.example.org","reason":"Broken","message":"whole kind"}]}}`
	if string(got) != want {
		t.Errorf("results are\n%s, want\n%s", got, want)
	}
	var read Results
	if err := json.Unmarshal(got, &read); err != nil {
		t.Fatal(err)
	}
	if want := c.Results(); !slices.Equal(read.Warnings, want.Warnings) || !slices.Equal(read.Errors, want.Errors) {
		t.Errorf("read %+v, want %+v", read, want)
	}
}

// TestResults_UnmarshalJSON_Velero reads a file that Velero wrote.
func TestResults_UnmarshalJSON_Velero(t *testing.T) {
	var read Results
	err := json.Unmarshal([]byte(`{"errors":{"namespaces":{"b":["two"],"a":["one"]},"cluster":["volume"],"velero":["run"]},"warnings":{}}`), &read)
	if err != nil {
		t.Fatal(err)
	}
	want := Problems{
		{Message: "run"},
		{Message: "volume"},
		{Subject: Subject{Namespace: "a"}, Message: "one"},
		{Subject: Subject{Namespace: "b"}, Message: "two"},
	}
	if !slices.Equal(read.Errors, want) || len(read.Warnings) > 0 {
		t.Errorf("read %+v, want the errors %+v", read, want)
	}
}

func TestProblems_AddNew(t *testing.T) {
	known := Problems{{Message: "one"}}
	if n := known.AddNew(Problem{Message: "two"}, Problem{Message: "one"}, Problem{Message: "two"}); n != 1 || len(known) != 2 {
		t.Errorf("added %d: %+v", n, known)
	}
}

func TestCollector_Limit(t *testing.T) {
	var c Collector
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range MaxProblems/4 + 1 {
				c.Warn(Subject{Namespace: "ns"}, "Odd", "w")
			}
		})
	}
	wg.Wait()
	got := c.Results()
	if got.WarningCount != MaxProblems+4 || len(got.Warnings.OfNamespace("ns")) != MaxProblems {
		t.Errorf("%d warnings counted, %d kept", got.WarningCount, len(got.Warnings.OfNamespace("ns")))
	}
	if of := got.Warnings.OfRun(); len(of) != 1 || !strings.HasPrefix(of[0], "4 more") {
		t.Errorf("last message is %q", of)
	}
	if got.ErrorCount != 0 {
		t.Errorf("%d errors out of nothing", got.ErrorCount)
	}
}
