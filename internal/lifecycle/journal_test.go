// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"os"
	"testing"

	"github.com/go-logr/logr"

	"github.com/grapnel-dev/grapnel/internal/lifecycle"
)

func TestJournal(t *testing.T) {
	for name, tc := range map[string]struct {
		// before is what the earlier process does, and now is what this process does.
		before, now func(j *lifecycle.Journal)
		wantCrashed bool
		wantFiles   int
	}{
		"no work": {},
		"the process crashed": {
			before: func(j *lifecycle.Journal) { j.Begin("u-1.archive") }, wantCrashed: true, wantFiles: 1,
		},
		"other work was running when it crashed": {
			before: func(j *lifecycle.Journal) { j.Begin("u-1.claim") }, wantFiles: 1,
		},
		"the work had ended": {
			before: func(j *lifecycle.Journal) { j.Begin("u-1.archive")() },
		},
		"the process shut down": {
			before: func(j *lifecycle.Journal) { j.Begin("u-1.archive"); j.Close() },
		},
		"it shut down before the work started": {
			before: func(j *lifecycle.Journal) { j.Close(); j.Begin("u-1.archive") },
		},
		"the crash is counted": {
			before: func(j *lifecycle.Journal) { j.Begin("u-1.archive") },
			now:    func(j *lifecycle.Journal) { j.ForgetCrash("u-1.archive") },
		},
		"the crash is counted and the work is running again": {
			before: func(j *lifecycle.Journal) { j.Begin("u-1.archive") },
			now:    func(j *lifecycle.Journal) { j.Begin("u-1.archive"); j.ForgetCrash("u-1.archive") }, wantFiles: 1,
		},
		"this process shuts down before the crash is counted": {
			before: func(j *lifecycle.Journal) { j.Begin("u-1.archive") },
			now:    (*lifecycle.Journal).Close, wantCrashed: true, wantFiles: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			open := func() *lifecycle.Journal {
				j, err := lifecycle.Open(dir, logr.Discard())
				if err != nil {
					t.Fatal(err)
				}
				return j
			}
			if tc.before != nil {
				tc.before(open())
			}
			j := open()
			if tc.now != nil {
				tc.now(j)
			}
			if got := j.HasCrashed("u-1.archive"); got != tc.wantCrashed {
				t.Errorf("crashed: %v, want %v", got, tc.wantCrashed)
			}
			entries, err := os.ReadDir(dir)
			if err != nil || len(entries) != tc.wantFiles {
				t.Errorf("files %v, %v; want %d", entries, err, tc.wantFiles)
			}
		})
	}
}

func TestReserveExclusive(t *testing.T) {
	j, err := lifecycle.Open(t.TempDir(), logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	reserve := func(id string, want bool) {
		t.Helper()
		if got := j.ReserveExclusive(id); got != want {
			t.Errorf("%s crashed alone: %v, want %v", id, got, want)
		}
	}
	reserve("a", true)
	reserve("a", true)
	reserve("b", false)
	j.ForgetCrash("a") // its crash is counted
	reserve("b", false)
	end := j.Begin("a")
	reserve("b", false)
	j.ForgetWork("a") // it was left behind
	reserve("b", true)
	end() // it ends late
	reserve("a", false)
	j.ForgetWork("b")
	reserve("a", true)
	end = j.Begin("a")
	end()
	reserve("b", true)
}

func TestJournal_Nil(t *testing.T) {
	var j *lifecycle.Journal
	j.Begin("a")()
	j.ForgetCrash("a")
	j.Close()
	if j.HasCrashed("a") {
		t.Error("a nil Journal recorded something")
	}
}

func TestOpen_NoDirectory(t *testing.T) {
	if _, err := lifecycle.Open("/nowhere/at/all", logr.Discard()); err == nil {
		t.Error("want an error")
	}
}
