// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

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
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/grapnel-dev/grapnel/internal/rawclient"
	"github.com/grapnel-dev/grapnel/internal/restore/version"
	"github.com/grapnel-dev/grapnel/internal/results"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
)

// itemReport is the report of a restore about its objects. Only the attempt that restored
// them has it: a later attempt finds them already restored.
type itemReport struct {
	results resultsFile
	// resourceListWriter writes the outcome of each object. It is nil if the outcomes are
	// unknown.
	resourceListWriter func(io.Writer) error
	// fromStore reports that the report was read from the store, which may also contain the
	// files that belong to it.
	fromStore bool
}

// resultsFile is the results file: Velero's content, the chosen API versions with reasons,
// and which restore actions were called for the objects of each kind. Each part is a JSON
// object, because Velero's client reads the file as Messages by name.
type resultsFile struct {
	results.Results
	Versions map[string]version.Choice `json:"versions,omitempty"`
	Actions  map[string][]string       `json:"actions,omitempty"`
	// Restore identifies the owner of the file: another Restore may have had the name.
	Restore restoreIdentity `json:"restore"`
	// BeforeOperations are the errors without those of operations, if there are any.
	BeforeOperations *results.Problems `json:"errorsBeforeOperations,omitempty"`
}

// restoreIdentity is the Restore that a file belongs to.
type restoreIdentity struct {
	UID string `json:"uid,omitempty"`
}

func (r resultsFile) encodeJSON(w io.Writer) error { return json.NewEncoder(w).Encode(r) }

// The number of retries to store a report while the store is unreachable, and the first
// delay. Each delay is twice the previous one: 31 seconds in total.
const (
	maxStoreAttempts    = 6
	initialStoreBackoff = time.Second
)

// storeReportWithRetry stores the report of a restore before its outcome is known: a short
// outage of the store must not lose the report. A report that cannot be stored is saved in
// the scratch directory.
func (j *Runner) storeReportWithRetry(ctx context.Context, store *storage.Store, req RunRequest, what itemReport) error {
	sleep := j.Wait
	if sleep == nil {
		sleep = rawclient.Sleep
	}
	delays := wait.Backoff{Duration: initialStoreBackoff, Factor: 2, Steps: maxStoreAttempts}
	for attempt := 1; ; attempt++ {
		err := j.storeReportFiles(ctx, store, req, what)
		if err == nil {
			j.removePendingReport(req.UID) // from an earlier, interrupted attempt
			return nil
		}
		if attempt == maxStoreAttempts || !errors.Is(err, objectstore.ErrUnavailable) || sleep(ctx, delays.Step()) != nil {
			return fmt.Errorf("%w: %w", ErrResultsNotStored, errors.Join(err, j.savePendingReport(req.UID, what)))
		}
		logr.FromContextOrDiscard(ctx).Info("Storing results failed, retrying", "error", err.Error(), "attempt", attempt)
	}
}

// pendingReportPath is the path of a part of a report until the report is stored.
func (j *Runner) pendingReportPath(uid, part string) string {
	return filepath.Join(j.Scratch.Path, "restore-"+filepath.Base(uid)+"-"+part+".json")
}

// The parts in the order in which they are saved: if the last exists, so does the first.
const (
	pendingListPart    = "resource-list"
	pendingResultsPart = "results"
)

// savePendingReport writes a report to the scratch directory.
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

// partialSuffix ends the name of a file that is being written. A process that is killed
// then leaves it behind.
const partialSuffix = ".part"

// writeFileAtomically creates a complete file or none.
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

// readPendingReport returns the report of an attempt that could not be stored. It returns
// an empty report if there is none, or after an error.
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
		defer func() { _ = list.Close() }() // opened only for reading
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

// RemoveLocalFiles removes the local files of a finished restore and its archive, including
// files of an earlier process that was killed while it wrote.
func (j *Runner) RemoveLocalFiles(uid string) {
	j.ReleaseArchive(uid)
	j.removePendingReport(uid)
}

// removePendingReport removes the saved report of a restore.
func (j *Runner) removePendingReport(uid string) {
	for _, part := range []string{pendingResultsPart, pendingListPart} {
		for _, end := range []string{"", partialSuffix} {
			_ = os.Remove(j.pendingReportPath(uid, part) + end) // a leftover file only uses space
		}
	}
}
