// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/go-logr/logr"

	"github.com/grapnel-dev/grapnel/internal/backupstore"
	"github.com/grapnel-dev/grapnel/internal/kube/request"
	"github.com/grapnel-dev/grapnel/internal/objectstore"
	"github.com/grapnel-dev/grapnel/internal/restore/version"
	"github.com/grapnel-dev/grapnel/internal/results"
)

// told is what a restore tells of its objects. Only the one that has just restored
// them knows it: another that goes on with its work finds them restored.
type told struct {
	report report
	// list writes what became of each object. It is nil if nothing is known of them.
	list func(io.Writer) error
	// stored says that the report was read from the store, and what belongs to it may
	// be there too.
	stored bool
}

// report is the results file: what Velero has there, which API versions were chosen
// and why, and which restore actions were asked about the objects of which kind. Each
// part is an object in JSON, because Velero's client reads the file as Messages by name.
type report struct {
	results.Results
	Versions map[string]version.Choice `json:"versions,omitempty"`
	Actions  map[string][]string       `json:"actions,omitempty"`
	// Restore says whose file this is: another one may have had the name.
	Restore owner `json:"restore"`
	// BeforeOperations are the errors without those of operations, if there are any.
	BeforeOperations *results.Messages `json:"errorsBeforeOperations,omitempty"`
}

// owner is the Restore that a file belongs to.
type owner struct {
	UID string `json:"uid,omitempty"`
}

func (r report) write(w io.Writer) error { return json.NewEncoder(w).Encode(r) }

// addReason adds why the restore as a whole did not succeed, once.
func (r *report) addReason(reason string) {
	if !slices.Contains(r.Errors.Velero, reason) {
		r.Errors.Velero = append(r.Errors.Velero, reason)
	}
}

// How often what a restore tells is stored again while its store can not be
// reached, and the first pause. Each pause is twice the one before: 31 seconds in
// all.
const (
	storeAttempts = 6
	firstPause    = time.Second
)

// tell stores what a restore tells, before its outcome is known: a store that is
// silent for a moment must not make a good restore a failed one. What can not be
// stored is kept in the scratch folder, for Abandon.
func (j *Job) tell(ctx context.Context, store *backupstore.Store, req Request, what told) error {
	wait := j.Wait
	if wait == nil {
		wait = request.Sleep
	}
	for attempt := 1; ; attempt++ {
		err := j.files(ctx, store, req, what)
		if err == nil {
			return nil
		}
		pause := firstPause << (attempt - 1)
		if attempt == storeAttempts || !errors.Is(err, objectstore.ErrUnavailable) || wait(ctx, pause) != nil {
			return fmt.Errorf("%w: %w", ErrNotStored, errors.Join(err, j.keep(req.UID, what)))
		}
		logr.FromContextOrDiscard(ctx).Info("Storing results failed and is tried again", "error", err.Error(), "attempt", attempt)
	}
}

// keptPath is where a part of what a restore tells is kept until it is stored.
func (j *Job) keptPath(uid, part string) string {
	return filepath.Join(j.ScratchDir, "restore-"+filepath.Base(uid)+"-"+part+".json")
}

// The parts, in the order they are kept: if the last is there, so is the first.
const (
	keptList   = "resource-list"
	keptReport = "results"
)

// keep writes what a restore tells into the scratch folder.
func (j *Job) keep(uid string, what told) error {
	err := writeFile(j.keptPath(uid, keptList), what.list)
	if err == nil {
		err = writeFile(j.keptPath(uid, keptReport), what.report.write)
	}
	if err != nil {
		return fmt.Errorf("keeping what became of each object: %w", err)
	}
	return nil
}

// halfWritten ends the name of a file that is being written. One that is killed there
// leaves it behind.
const halfWritten = ".part"

// writeFile makes a file, all of it or nothing.
func writeFile(path string, write func(io.Writer) error) error {
	part := path + halfWritten
	file, err := os.OpenFile(part, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	buffered := bufio.NewWriter(file)
	err = write(buffered)
	if err = errors.Join(err, buffered.Flush(), file.Close()); err != nil {
		return errors.Join(err, os.Remove(part))
	}
	return os.Rename(part, path)
}

// kept returns what an attempt to restore told that could not be stored. It tells
// nothing if there was none, or with an error.
func (j *Job) kept(uid string) (told, error) {
	data, err := os.ReadFile(j.keptPath(uid, keptReport))
	if errors.Is(err, fs.ErrNotExist) {
		return told{}, nil
	}
	what := told{list: func(w io.Writer) error {
		list, err := os.Open(j.keptPath(uid, keptList))
		if err != nil {
			return err
		}
		defer func() { _ = list.Close() }() // it was only read
		_, err = io.Copy(w, list)
		return err
	}}
	if err == nil {
		err = json.Unmarshal(data, &what.report)
	}
	if err != nil {
		return told{}, err
	}
	return what, nil
}

// Forget removes what is kept of a restore that is over, by this process or by one before
// it that was killed while it wrote.
func (j *Job) Forget(uid string) {
	for _, part := range []string{keptReport, keptList} {
		for _, end := range []string{"", halfWritten} {
			_ = os.Remove(j.keptPath(uid, part) + end) // one left behind costs space and nothing else
		}
	}
}
