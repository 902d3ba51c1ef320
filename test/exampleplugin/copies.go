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

// outcomeRetention is how long it is known how a copy ended. The operator asks until it has
// written that down, which takes seconds.
const outcomeRetention = 24 * time.Hour

// copies makes copies of folders while the plugin goes on, and knows how they ended. In
// data, claims have the folders "namespace/claim", as if a storage system had mounted
// them there; in store, their copies are in "UID of the Backup/namespace/claim".
type copies struct {
	data, store, outcomes string

	mu      sync.Mutex
	running map[string]*transfer
	// transfers are those of the transfers.
	transfers sync.WaitGroup
}

// newCopies returns those in folders below dir, or below the one for temporary files if
// dir is empty.
func newCopies(dir string) *copies {
	if dir == "" {
		dir = os.TempDir()
	}
	return &copies{
		data: filepath.Join(dir, "example-data"), store: filepath.Join(dir, "example-copies"),
		outcomes: filepath.Join(dir, "example-outcomes"), running: map[string]*transfer{},
	}
}

// startTransfer begins a transfer. It goes on when the call that began it has ended, but not
// when the process has.
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
		// What is not written down has to stay in memory.
		if err := c.recordOutcome(t.id, outcome); err == nil {
			c.mu.Lock()
			delete(c.running, t.id)
			c.mu.Unlock()
		}
		t.setOutcome(outcome)
	})
}

// transferProgress tells how far a transfer is: from memory while it goes on, from the disk when
// it has ended. One that this process does not run and that did not end is lost: it was
// interrupted by the end of an earlier process. What it left is removed.
func (c *copies) transferProgress(root, id string) (*item.Progress, error) {
	if t := c.findRunningTransfer(id); t != nil {
		return t.currentProgress(), nil
	}
	content, err := os.ReadFile(c.outcomePath(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(item.ErrUnknownOperation, os.RemoveAll(filepath.Join(root, partialDirName(id))))
	}
	if err != nil {
		return nil, fmt.Errorf("reading how the copy ended: %w", err)
	}
	progress := &item.Progress{}
	if err := json.Unmarshal(content, progress); err != nil {
		return nil, fmt.Errorf("reading how the copy ended: %w", err)
	}
	return progress, nil
}

// cancelTransfer stops a transfer, which then removes what it has copied. One that has ended
// stays as it is.
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

// recordOutcome writes down how a transfer ended: this marker is what a later process of the
// plugin knows about it. It is moved to its place, so that it is whole or not there.
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

// pruneOldOutcomes removes outcomes that nobody asks for any more. Those that it cannot remove are
// tried again the next time.
func (c *copies) pruneOldOutcomes() {
	entries, _ := os.ReadDir(c.outcomes)
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && time.Since(info.ModTime()) > outcomeRetention {
			_ = os.Remove(filepath.Join(c.outcomes, entry.Name()))
		}
	}
}

// hasSucceededTransfer reports whether a transfer ended well whose ID begins so.
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

// removeClaimCopy removes the copy of a claim. One that is gone already is no error.
func (c *copies) removeClaimCopy(backup, claim string) error {
	root, err := os.OpenRoot(c.store)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("opening the folder of copies: %w", err)
	}
	if err := errors.Join(root.RemoveAll(path.Join(backup, claim)), root.Close()); err != nil {
		return fmt.Errorf("removing the copy: %w", err)
	}
	return nil
}

// outcomePath returns the file of an outcome. Escaping makes a name of any text.
func (c *copies) outcomePath(id string) string {
	return filepath.Join(c.outcomes, url.PathEscape(id)+".json")
}

// partialDirName returns the folder of a transfer that has not ended. No namespace and no Backup
// has such a name.
func partialDirName(id string) string { return ".part-" + url.PathEscape(id) }
