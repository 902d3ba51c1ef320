// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

func TestResult_Print(t *testing.T) {
	const passing = `{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestA/x"}
{"Action":"run","Package":"p","Test":"TestA/y"}
{"Action":"pass","Package":"p","Test":"TestA/x"}
{"Action":"pass","Package":"p","Test":"TestA/y"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p"}
`
	for name, tc := range map[string]struct {
		runs      []string
		wantLast  string
		wantText  string
		wantGreen bool
	}{
		"subtests count, their test does not": {
			runs: []string{passing}, wantLast: "2 passed, 0 failed", wantGreen: true,
		},
		"the same package in two runs counts twice": {
			runs: []string{passing, passing}, wantLast: "4 passed, 0 failed", wantGreen: true,
		},
		"a skipped test is named": {
			runs: []string{passing + `{"Action":"skip","Package":"p","Test":"TestB"}
`}, wantLast: "2 passed, 0 failed, 1 skipped", wantGreen: true,
		},
		"a failed subtest fails once, with its output": {
			runs: []string{passing, `{"Action":"run","Package":"q","Test":"TestC/z"}
{"Action":"output","Package":"q","Test":"TestC/z","Output":"    c_test.go:1: want 1, got 2\n"}
{"Action":"fail","Package":"q","Test":"TestC/z"}
{"Action":"fail","Package":"q","Test":"TestC"}
{"Action":"fail","Package":"q"}
`}, wantLast: "2 passed, 1 failed", wantText: "want 1, got 2",
		},
		"a test that fails beside its subtests counts": {
			runs: []string{strings.Replace(passing, `{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p"}`, `{"Action":"fail","Package":"p","Test":"TestA"}
{"Action":"fail","Package":"p"}`, 1)}, wantLast: "2 passed, 1 failed", wantText: "FAILED p TestA",
		},
		"a package that does not build fails, with the compiler's words": {
			runs: []string{passing, `{"ImportPath":"r","Action":"build-output","Output":"r.go:3: undefined: x\n"}
{"ImportPath":"r","Action":"build-fail"}
{"Action":"start","Package":"r"}
{"Action":"fail","Package":"r","FailedBuild":"r"}
`}, wantLast: "2 passed, 1 failed", wantText: "undefined: x",
		},
		"a panic is shown": {
			runs: []string{passing, `{"Action":"run","Package":"q","Test":"TestC"}
{"Action":"output","Package":"q","Output":"panic: boom\n"}
{"Action":"fail","Package":"q"}
`}, wantLast: "2 passed, 1 failed", wantText: "panic: boom",
		},
		"a run that was cut off is no success": {
			runs:     []string{passing + `{"Action":"start","Package":"q"}` + "\n"},
			wantLast: "2 passed, 1 failed", wantText: "DID NOT END q",
		},
		"a run that never began is no success": {
			runs: []string{passing, "go: cannot find main module\n"}, wantLast: "2 passed, 1 failed",
			wantText: "cannot find main module",
		},
		"the specs of a suite count": {
			runs: []string{passing, `{"Action":"run","Package":"q","Test":"TestSuite"}
{"Action":"output","Package":"q","Test":"TestSuite","Output":"\u001b[1mSUCCESS!\u001b[0m -- \u001b[1m5 Passed\u001b[0m | \u001b[1m0 Failed\u001b[0m | "}
{"Action":"output","Package":"q","Test":"TestSuite","Output":"\u001b[1m1 Pending\u001b[0m | \u001b[1m2 Skipped\u001b[0m\n"}
{"Action":"pass","Package":"q","Test":"TestSuite"}
{"Action":"pass","Package":"q"}
`}, wantLast: "7 passed, 0 failed, 3 skipped", wantGreen: true,
		},
		"the specs of a suite that runs in several processes count": {
			runs: []string{`{"Action":"output","Package":"q","Output":"SUCCESS! -- 5 Passed | 0 Failed | 0 Pending | 0 Skipped\n"}
{"Action":"pass","Package":"q"}
`}, wantLast: "5 passed, 0 failed", wantGreen: true,
		},
		"each spec that fails counts": {
			runs: []string{`{"Action":"run","Package":"q","Test":"TestSuite"}
{"Action":"output","Package":"q","Test":"TestSuite","Output":"want 1, got 2\nFAIL! -- 5 Passed | 2 Failed | 0 Pending | 0 Skipped\n"}
{"Action":"fail","Package":"q","Test":"TestSuite"}
{"Action":"fail","Package":"q"}
`}, wantLast: "5 passed, 2 failed", wantText: "want 1, got 2",
		},
		"an exit code without a failure is no success": {
			runs:     []string{passing + `{"Action":"exit","Output":"2"}` + "\n"},
			wantLast: "2 passed, 1 failed", wantText: "go test exited with 2",
		},
		"an exit code with a failure counts once": {
			runs: []string{passing + `{"Action":"fail","Package":"q"}
{"Action":"exit","Output":"1"}
`}, wantLast: "2 passed, 1 failed",
		},
		"no test is no success": {
			runs: []string{`{"Action":"start","Package":"p"}
{"Action":"skip","Package":"p"}
`}, wantLast: "0 passed, 0 failed", wantText: "No test ran",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newResult()
			for i, run := range tc.runs {
				if err := r.read(string(rune('a'+i)), strings.NewReader(run)); err != nil {
					t.Fatal(err)
				}
			}
			r.close()
			var out strings.Builder
			if err := r.print(&out); err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
			if last := lines[len(lines)-1]; last != tc.wantLast {
				t.Errorf("last line: want %q, got %q", tc.wantLast, last)
			}
			if !strings.Contains(out.String(), tc.wantText) {
				t.Errorf("no %q in:\n%s", tc.wantText, out.String())
			}
			if r.green() != tc.wantGreen {
				t.Errorf("want green %t, got %t", tc.wantGreen, r.green())
			}
		})
	}
}
