// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/grapnel-dev/grapnel/sdk/item"
)

// outcomeRetention is how long the outcome of a copy is kept. The operator polls until it
// has recorded the outcome, which takes seconds.
const outcomeRetention = 24 * time.Hour

// copies copies directories in the background and records the outcomes. In data, claims
// have the directories "namespace/claim", as if a storage system had mounted them there; in
// store, their copies are in "UID of the Backup/namespace/claim".
type copies struct {
	data, store, outcomes string

	mu      sync.Mutex
	running map[string]*transfer
	// transfers are the transfers by ID.
	transfers sync.WaitGroup
}

// newCopies returns copies with directories below dir, or below the directory for temporary
// files if dir is empty.
func newCopies(dir string) *copies {
	if dir == "" {
		dir = os.TempDir()
	}
	return &copies{
		data: filepath.Join(dir, "example-data"), store: filepath.Join(dir, "example-copies"),
		outcomes: filepath.Join(dir, "example-outcomes"), running: map[string]*transfer{},
	}
}

// startTransfer starts a transfer. It continues after the call that started it, but ends
// with the process.
func (c *copies) startTransfer(ctx context.Context, t *transfer) {
	ctx, t.stop = context.WithCancel(context.WithoutCancel(ctx))
	t.ended = make(chan struct{})
	now := time.Now()
	t.progress = item.Progress{OperationUnits: "bytes", Description: "counting", Started: now, Updated: now}
	c.mu.Lock()
	c.running[t.id] = t
	c.mu.Unlock()
	c.transfers.Go(func() {
		defer close(t.ended)
		defer t.stop()
		outcome := t.runToOutcome(ctx)
		// An outcome that is not recorded must stay in memory.
		if err := c.recordOutcome(t.id, outcome); err == nil {
			c.mu.Lock()
			delete(c.running, t.id)
			c.mu.Unlock()
		}
		t.setOutcome(outcome)
	})
}

// transferProgress returns the progress of a transfer: from memory while it runs, from disk when
// it has ended. An unfinished transfer that this process does not run is lost: it was
// interrupted by the end of an earlier process. Its partial copy is removed.
func (c *copies) transferProgress(root, id string) (*item.Progress, error) {
	if t := c.findRunningTransfer(id); t != nil {
		return t.currentProgress(), nil
	}
	content, err := os.ReadFile(c.outcomePath(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(item.ErrUnknownOperation, os.RemoveAll(filepath.Join(root, partialDirName(id))))
	}
	if err != nil {
		return nil, fmt.Errorf("reading the outcome of the copy: %w", err)
	}
	progress := &item.Progress{}
	if err := json.Unmarshal(content, progress); err != nil {
		return nil, fmt.Errorf("reading the outcome of the copy: %w", err)
	}
	return progress, nil
}

// cancelTransfer stops a transfer, which then removes its partial copy. A transfer that has
// ended is unchanged.
func (c *copies) cancelTransfer(root, id string) error {
	if t := c.findRunningTransfer(id); t != nil {
		t.stop()
		return nil
	}
	_, err := c.transferProgress(root, id)
	return err
}

func (c *copies) findRunningTransfer(id string) *transfer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.running[id]
}

// recordOutcome records the outcome of a transfer in a file for later processes of the
// plugin. The file is renamed into place, so it is either complete or missing.
func (c *copies) recordOutcome(id string, outcome item.Progress) error {
	content, err := json.Marshal(outcome)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(c.outcomes, 0o700); err != nil {
		return err
	}
	c.pruneOldOutcomes()
	name := c.outcomePath(id)
	if err := os.WriteFile(name+".part", content, 0o600); err != nil {
		return err
	}
	return os.Rename(name+".part", name)
}

// pruneOldOutcomes removes outcomes that are no longer needed. If it cannot remove an outcome, it
// retries the next time.
func (c *copies) pruneOldOutcomes() {
	entries, _ := os.ReadDir(c.outcomes)
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && time.Since(info.ModTime()) > outcomeRetention {
			_ = os.Remove(filepath.Join(c.outcomes, entry.Name()))
		}
	}
}

// hasSucceededTransfer reports whether a transfer with the given ID prefix succeeded.
func (c *copies) hasSucceededTransfer(prefix string) bool {
	entries, _ := os.ReadDir(c.outcomes)
	for _, entry := range entries {
		id, err := url.PathUnescape(strings.TrimSuffix(entry.Name(), ".json"))
		if err != nil || !strings.HasPrefix(id, prefix) {
			continue
		}
		if outcome, err := c.transferProgress(c.data, id); err == nil && outcome.Err == "" && !outcome.Cancelled {
			return true
		}
	}
	return false
}

// removeClaimCopy removes the copy of a claim. A missing copy is not an error.
func (c *copies) removeClaimCopy(backup, claim string) error {
	root, err := os.OpenRoot(c.store)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("opening the directory of copies: %w", err)
	}
	if err := errors.Join(root.RemoveAll(path.Join(backup, claim)), root.Close()); err != nil {
		return fmt.Errorf("removing the copy: %w", err)
	}
	return nil
}

// outcomePath returns the file of an outcome. Escaping makes any text a valid name.
func (c *copies) outcomePath(id string) string {
	return filepath.Join(c.outcomes, url.PathEscape(id)+".json")
}

// partialDirName returns the directory of an unfinished transfer. No namespace and no Backup has
// such a name.
func partialDirName(id string) string { return ".part-" + url.PathEscape(id) }
