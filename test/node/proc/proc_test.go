// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
	"testing"
	"time"
)

// roleVariable makes the test program behave like one that the tests start.
const roleVariable = "GRAPNEL_TEST_PROC"

func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case "":
		os.Exit(m.Run())
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
	}
	fmt.Println("ready")
	for {
		_ = syscall.Pause()
	}
}

// start starts this program in a role and returns when it is ready.
func start(t *testing.T, role string) (*exec.Cmd, ID) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"="+role)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	id, err := Of(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	return cmd, id
}

func endedBy(cmd *exec.Cmd) syscall.Signal {
	_ = cmd.Wait()
	status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
	return status.Signal()
}

func TestStop(t *testing.T) {
	cases := map[string]struct {
		role  string
		grace time.Duration
		want  syscall.Signal
	}{
		"one that listens":             {"polite", time.Minute, syscall.SIGTERM},
		"one that does not":            {"stubborn", 10 * time.Millisecond, syscall.SIGKILL},
		"one that is not asked at all": {"polite", 0, syscall.SIGKILL},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			cmd, id := start(t, c.role)
			if !id.Alive() {
				t.Fatal("it is not alive")
			}
			if err := id.Stop(t.Context(), c.grace); err != nil {
				t.Fatal(err)
			}
			// No process has waited for it: a zombie is not alive.
			if id.Alive() {
				t.Error("it is still alive")
			}
			if _, err := Of(id.PID); !errors.Is(err, ErrGone) {
				t.Errorf("looking for it: %v, want that it is gone", err)
			}
			if got := endedBy(cmd); got != c.want {
				t.Errorf("ended by %v, want %v", got, c.want)
			}
			if err := id.Stop(t.Context(), 0); err != nil {
				t.Errorf("stopping it again: %v", err)
			}
		})
	}
}

func TestAlive_ReusedPID(t *testing.T) {
	cases := map[string]func(*ID){
		"started later":   func(id *ID) { id.Start-- },
		"in another boot": func(id *ID) { id.Boot = "another" },
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			_, id := start(t, "polite")
			old := id
			change(&old)
			if old.Alive() {
				t.Error("it is taken for the one that there was before")
			}
			if err := old.Stop(t.Context(), 0); err != nil || !id.Alive() {
				t.Errorf("another process was ended (%v)", err)
			}
		})
	}
}

func TestMarked(t *testing.T) {
	_, first := start(t, "polite")
	_, second := start(t, "stubborn")
	found, err := Marked(roleVariable + "=polite")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(found, first) || slices.Contains(found, second) {
		t.Errorf("found %v, want %v and not %v", found, first, second)
	}
}

func TestParseStat(t *testing.T) {
	const rest = " 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20 21"
	cases := map[string]struct {
		stat  string
		state byte
		start uint64
		fails bool
	}{
		"a plain name":              {stat: "12 (sh) S" + rest, state: 'S', start: 4711},
		"a name with parentheses":   {stat: "12 (a) Z (b)) R" + rest, state: 'R', start: 4711},
		"a zombie":                  {stat: "12 (sh) Z" + rest, state: 'Z', start: 4711},
		"nothing":                   {fails: true},
		"too short":                 {stat: "12 (sh) S 1 2 3", fails: true},
		"a start that is no number": {stat: "12 (sh) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 x", fails: true},
		"a name that does not end":  {stat: "12 (sh S" + rest, fails: true},
		"a name with a line break":  {stat: "12 (a\nb) S" + rest, state: 'S', start: 4711},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			state, start, err := parseStat(c.stat)
			if (err != nil) != c.fails || state != c.state || start != c.start {
				t.Errorf("got %c, %d, %v", state, start, err)
			}
		})
	}
}

func TestHasVariable(t *testing.T) {
	environment := []byte("A=1\x00AB=2\x00XA=1\x00")
	for variable, want := range map[string]bool{"A=1": true, "AB=2": true, "A": false, "B=2": false, "A=": false} {
		if got := hasVariable(environment, variable); got != want {
			t.Errorf("%s: %v, want %v", variable, got, want)
		}
	}
}
