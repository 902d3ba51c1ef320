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

// itemReport is what a restore tells of its objects. Only the one that has just restored
// them knows it: another that goes on with its work finds them restored.
type itemReport struct {
	results resultsFile
	// resourceListWriter writes what became of each object. It is nil if nothing is known of them.
	resourceListWriter func(io.Writer) error
	// fromStore says that the report was read from the store, and what belongs to it may
	// be there too.
	fromStore bool
}

// resultsFile is the results file: what Velero has there, which API versions were chosen
// and why, and which restore actions were asked about the objects of which kind. Each
// part is an object in JSON, because Velero's client reads the file as Messages by name.
type resultsFile struct {
	results.Results
	Versions map[string]version.Choice `json:"versions,omitempty"`
	Actions  map[string][]string       `json:"actions,omitempty"`
	// Restore says whose file this is: another one may have had the name.
	Restore restoreIdentity `json:"restore"`
	// BeforeOperations are the errors without those of operations, if there are any.
	BeforeOperations *results.Messages `json:"errorsBeforeOperations,omitempty"`
}

// restoreIdentity is the Restore that a file belongs to.
type restoreIdentity struct {
	UID string `json:"uid,omitempty"`
}

func (r resultsFile) encodeJSON(w io.Writer) error { return json.NewEncoder(w).Encode(r) }

// addRunError adds why the restore as a whole did not succeed, once.
func (r *resultsFile) addRunError(reason string) {
	if !slices.Contains(r.Errors.Velero, reason) {
		r.Errors.Velero = append(r.Errors.Velero, reason)
	}
}

// addRunWarning adds a warning about the restore as a whole, once.
func (r *resultsFile) addRunWarning(warning string) {
	if !slices.Contains(r.Warnings.Velero, warning) {
		r.Warnings.Velero = append(r.Warnings.Velero, warning)
	}
}

// How often what a restore tells is stored again while its store cannot be
// reached, and the first pause. Each pause is twice the one before: 31 seconds in
// all.
const (
	maxStoreAttempts    = 6
	initialStoreBackoff = time.Second
)

// storeReportWithRetry stores what a restore tells, before its outcome is known: a store that is
// silent for a moment must not cost what a restore has to say. What cannot be
// stored is kept in the scratch directory.
func (j *Runner) storeReportWithRetry(ctx context.Context, store *backupstore.Store, req Request, what itemReport) error {
	wait := j.Wait
	if wait == nil {
		wait = request.Sleep
	}
	for attempt := 1; ; attempt++ {
		err := j.storeReportFiles(ctx, store, req, what)
		if err == nil {
			j.removePendingReport(req.UID) // by an attempt before that was interrupted
			return nil
		}
		pause := initialStoreBackoff << (attempt - 1)
		if attempt == maxStoreAttempts || !errors.Is(err, objectstore.ErrUnavailable) || wait(ctx, pause) != nil {
			return fmt.Errorf("%w: %w", ErrResultsNotStored, errors.Join(err, j.savePendingReport(req.UID, what)))
		}
		logr.FromContextOrDiscard(ctx).Info("Storing results failed, retrying", "error", err.Error(), "attempt", attempt)
	}
}

// pendingReportPath is where a part of what a restore tells is kept until it is stored.
func (j *Runner) pendingReportPath(uid, part string) string {
	return filepath.Join(j.Scratch.Path, "restore-"+filepath.Base(uid)+"-"+part+".json")
}

// The parts, in the order they are kept: if the last is there, so is the first.
const (
	pendingListPart    = "resource-list"
	pendingResultsPart = "results"
)

// savePendingReport writes what a restore tells into the scratch directory.
func (j *Runner) savePendingReport(uid string, what itemReport) error {
	err := writeFileAtomically(j.pendingReportPath(uid, pendingListPart), what.resourceListWriter)
	if err == nil {
		err = writeFileAtomically(j.pendingReportPath(uid, pendingResultsPart), what.results.encodeJSON)
	}
	if err != nil {
		return fmt.Errorf("saving what became of each object: %w", err)
	}
	return nil
}

// partialSuffix ends the name of a file that is being written. One that is killed there
// leaves it behind.
const partialSuffix = ".part"

// writeFileAtomically makes a file, all of it or nothing.
func writeFileAtomically(path string, write func(io.Writer) error) error {
	part := path + partialSuffix
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

// readPendingReport returns what an attempt to restore told that could not be stored. It tells
// nothing if there was none, or with an error.
func (j *Runner) readPendingReport(uid string) (itemReport, error) {
	data, err := os.ReadFile(j.pendingReportPath(uid, pendingResultsPart))
	if errors.Is(err, fs.ErrNotExist) {
		return itemReport{}, nil
	}
	what := itemReport{resourceListWriter: func(w io.Writer) error {
		list, err := os.Open(j.pendingReportPath(uid, pendingListPart))
		if err != nil {
			return err
		}
		defer func() { _ = list.Close() }() // it was only read
		_, err = io.Copy(w, list)
		return err
	}}
	if err == nil {
		err = json.Unmarshal(data, &what.results)
	}
	if err != nil {
		return itemReport{}, err
	}
	return what, nil
}

// RemoveLocalFiles removes what is kept of a restore that is over, by this process or by one before
// it that was killed while it wrote, and its archive.
func (j *Runner) RemoveLocalFiles(uid string) {
	j.ReleaseArchive(uid)
	j.removePendingReport(uid)
}

// removePendingReport removes what is kept of what a restore tells.
func (j *Runner) removePendingReport(uid string) {
	for _, part := range []string{pendingResultsPart, pendingListPart} {
		for _, end := range []string{"", partialSuffix} {
			_ = os.Remove(j.pendingReportPath(uid, part) + end) // one left behind costs space and nothing else
		}
	}
}
