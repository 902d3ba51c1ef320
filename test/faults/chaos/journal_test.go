// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grapnel-dev/grapnel/internal/testing/program"
)

// journal records what was done to operators, and when, in a file below bin/test/chaos.
type journal struct {
	path string

	// done is what was done to the operators, and ran what they did.
	done, ran tally

	mu   sync.Mutex
	file *os.File
}

func newJournal(t testing.TB, name string) *journal {
	t.Helper()
	root, err := program.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(root, "bin", "test", "chaos")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(filepath.Join(dir, name+".log"))
	if err != nil {
		t.Fatal(err)
	}
	j := &journal{path: file.Name(), file: file}
	t.Cleanup(func() {
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	})
	return j
}

// note adds a line with the time, which can be compared with the logs of operators.
func (j *journal) note(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	_, _ = fmt.Fprintf(j.file, "%s %s\n", time.Now().UTC().Format("15:04:05.000"), fmt.Sprintf(format, args...))
}

// tally counts things by their kind.
type tally struct {
	mu     sync.Mutex
	counts map[string]int
}

// add counts one more of a kind.
func (c *tally) add(kind string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = map[string]int{}
	}
	c.counts[kind]++
}

// String returns how many there are of each kind.
func (c *tally) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []string
	for _, kind := range slices.Sorted(maps.Keys(c.counts)) {
		all = append(all, fmt.Sprintf("%d %s", c.counts[kind], kind))
	}
	return strings.Join(all, ", ")
}

// keep copies a file beside the journal.
func (j *journal) keep(t testing.TB, path, name string) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
		return
	}
	target := j.path[:len(j.path)-len(".log")] + "-" + name
	if err := os.WriteFile(target, content, 0o600); err != nil {
		t.Error(err)
	}
	t.Logf("kept %s", target)
}

// lastRound returns the lines of the last round.
func (j *journal) lastRound() string {
	content, err := os.ReadFile(j.path)
	if err != nil {
		return err.Error()
	}
	lines := strings.SplitAfter(string(content), "\n")
	for i, line := range slices.Backward(lines) {
		if strings.Contains(line, roundBegins) {
			return strings.Join(lines[i:], "")
		}
	}
	return string(content)
}

// roundBegins is in the line with which a round begins.
const roundBegins = " begins a round"
