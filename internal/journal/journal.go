// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/go-logr/logr"
)

// filePrefix is how the names of the files begin. The work follows, then the boot of the machine: a
// file that is there has a name, even if the machine lost its power and with it what was in the file.
const filePrefix, bootSeparator = "grapnel-step-", "@"

// bootFile has the identity of the boot of the machine, also in a container.
const bootFile = "/proc/sys/kernel/random/boot_id"

// Journal has the pieces of work that go on, and those that went on when the process before
// this one crashed. It is safe for concurrent use. A nil Journal remembers nothing.
type Journal struct {
	dir string
	log logr.Logger
	// boot is that of the machine; empty if it tells none.
	boot string

	mu      sync.Mutex
	crashed map[string]bool
	// crashedAlone is the only work that went on when an earlier process crashed, if there was no other.
	crashedAlone string
	running      map[string]bool
	closed       bool
	// exclusive is the work that has the place for what may crash the process.
	exclusive string
}

// Open reads what an earlier process left in a directory.
func Open(dir string, log logr.Logger) (*Journal, error) {
	boot, err := os.ReadFile(bootFile)
	if err != nil {
		log.Info("The machine tells no identity of its boot; if it crashes, this counts as a crash of the operator", "error", err.Error())
	}
	return openForBoot(dir, strings.TrimSpace(string(boot)), log)
}

// openForBoot is Open on a machine with this boot. What an earlier boot left is no crash of the operator:
// the machine lost its power, or its kernel crashed.
func openForBoot(dir, boot string, log logr.Logger) (*Journal, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("reading the scratch directory: %w", err)
	}
	j := &Journal{dir: dir, log: log, boot: boot, crashed: map[string]bool{}, running: map[string]bool{}}
	for _, entry := range entries {
		name, ours := strings.CutPrefix(entry.Name(), filePrefix)
		if !ours {
			continue
		}
		id, of, _ := strings.Cut(name, bootSeparator)
		if of == boot {
			j.crashed[id] = true
			continue
		}
		log.Info("The machine was started anew while work went on", "id", id)
		if err := os.Remove(filepath.Join(dir, entry.Name())); err != nil {
			log.Error(err, "Removing the note that work went on before the machine was started", "id", id)
		}
	}
	if len(j.crashed) == 1 {
		for id := range j.crashed {
			j.crashedAlone = id
		}
	}
	return j, nil
}

// Begin notes that work goes on until the function that it returns is called. The identity
// must be a file name. That the note cannot be written stops nothing.
func (j *Journal) Begin(id string) (end func()) {
	if j == nil {
		return func() {}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return func() {}
	}
	file, err := os.OpenFile(j.filePath(id), os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		err = file.Close()
	}
	if err != nil {
		j.log.Error(err, "Noting that work goes on failed; if it crashes the operator, that is not counted", "id", id)
	}
	j.running[id] = true
	return func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.removeFile(id)
		if j.exclusive == id {
			j.exclusive = ""
		}
	}
}

// HasCrashed reports whether the work went on when an earlier process crashed.
func (j *Journal) HasCrashed(id string) bool {
	if j == nil {
		return false
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.crashed[id]
}

// HasCrashedAlone reports whether the work, and no other, went on when an earlier process crashed,
// also when that is forgotten.
func (j *Journal) HasCrashedAlone(id string) bool { return j != nil && j.crashedAlone == id }

// ForgetCrash drops the note that the work went on when an earlier process crashed, unless it
// goes on again.
func (j *Journal) ForgetCrash(id string) {
	if j == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.crashed[id] && !j.running[id] {
		j.removeFile(id)
	}
	delete(j.crashed, id)
}

// ForgetWork forgets work that will not go on, or for whose end nothing waits any more.
func (j *Journal) ForgetWork(id string) {
	if j == nil {
		return
	}
	j.ForgetCrash(id)
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.exclusive == id {
		j.exclusive = ""
	}
}

// ReserveExclusive takes the one place for work that may crash the process, and reports whether
// it is free, or taken by the same work. It is free again when the work ends or is dropped.
func (j *Journal) ReserveExclusive(id string) bool {
	if j == nil {
		return true
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.exclusive == "" {
		j.exclusive = id
	}
	return j.exclusive == id
}

// Close drops the notes of all work that goes on: the process ends because it was asked to.
func (j *Journal) Close() {
	if j == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closed = true
	for id := range j.running {
		j.removeFile(id)
	}
}

func (j *Journal) removeFile(id string) {
	delete(j.running, id)
	if err := os.Remove(j.filePath(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		j.log.Error(err, "Removing the note that work goes on failed", "id", id)
	}
}

func (j *Journal) filePath(id string) string {
	return filepath.Join(j.dir, filePrefix+id+bootSeparator+j.boot)
}
