// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

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

// filePrefix is the prefix of the file names. The ID of the work and the boot ID of the machine
// follow. The information is in the name, because a file that exists has a name even if the
// machine lost power, and with it the content of the file.
const filePrefix, bootSeparator = "grapnel-step-", "@"

// bootFile has the boot ID of the machine, also in a container.
const bootFile = "/proc/sys/kernel/random/boot_id"

// Journal records on disk which pieces of work are running. The next process with
// the same disk knows which of them were running when the last one crashed.
//
// Each piece of work is an empty file. The file is removed when the work ends, or when the
// process shuts down. Only a process that crashed, or was killed because of its memory usage,
// leaves files behind. The file name includes the boot ID of the machine: if that differs, the
// machine crashed, and not the process. A disk that is lost with its node or pod provides no
// information. See docs/adr/0013.
//
// It is safe for concurrent use. A nil Journal records nothing.
type Journal struct {
	dir string
	log logr.Logger
	// boot is the boot ID of the machine; empty if it is unknown.
	boot string

	mu      sync.Mutex
	crashed map[string]bool
	// crashedAlone is the only work that was running when an earlier process crashed; empty if
	// there was more than one.
	crashedAlone string
	running      map[string]bool
	closed       bool
	// exclusive is the only work that may run although it may crash the process.
	exclusive string
}

// Open reads what an earlier process left in a directory.
func Open(dir string, log logr.Logger) (*Journal, error) {
	boot, err := os.ReadFile(bootFile)
	if err != nil {
		log.Info("The boot ID of the machine is unknown; a crash of the machine counts as a crash of the operator", "error", err.Error())
	}
	return openForBoot(dir, strings.TrimSpace(string(boot)), log)
}

// openForBoot is Open on a machine with the given boot ID. What an earlier boot left is no crash
// of the operator: the machine lost power, or its kernel crashed.
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
		log.Info("The machine was restarted while work was running", "id", id)
		if err := os.Remove(filepath.Join(dir, entry.Name())); err != nil {
			log.Error(err, "Removing the record of work from before the restart of the machine failed", "id", id)
		}
	}
	if len(j.crashed) == 1 {
		for id := range j.crashed {
			j.crashedAlone = id
		}
	}
	return j, nil
}

// Begin records that work is running until the returned function is called. The ID must be a
// valid file name. If the record cannot be written, the work runs anyway.
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
		j.log.Error(err, "Recording that work is running failed; if the work crashes the operator, the crash is not counted", "id", id)
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

// HasCrashed reports whether the work was running when an earlier process crashed.
func (j *Journal) HasCrashed(id string) bool {
	if j == nil {
		return false
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.crashed[id]
}

// HasCrashedAlone reports whether the work, and no other, was running when an earlier process
// crashed. ForgetCrash does not change the result.
func (j *Journal) HasCrashedAlone(id string) bool { return j != nil && j.crashedAlone == id }

// ForgetCrash removes the record that the work was running when an earlier process crashed,
// unless the work is running again.
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

// ForgetWork drops work that will not run again, or whose end is not awaited anymore.
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

// ReserveExclusive reserves the only place for work that may crash the process. It reports
// whether the place was free or is already reserved for the same work. The place is free again
// when the work ends or is dropped.
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

// Close removes the records of all running work, because the process is shutting down on
// request.
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
		j.log.Error(err, "Removing the record of running work failed", "id", id)
	}
}

func (j *Journal) filePath(id string) string {
	return filepath.Join(j.dir, filePrefix+id+bootSeparator+j.boot)
}
