// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/grapnel-dev/grapnel/sdk/hook"
)

// state is the state of the actions: markers of frozen applications and how often a run was
// called. With a directory it survives the process.
type state struct {
	dir string

	mu      sync.Mutex
	markers map[string]bool
	calls   map[string]int
}

func newState(dir string) *state {
	return &state{dir: dir, markers: map[string]bool{}, calls: map[string]int{}}
}

// ensureStateDir returns an error if the directory is not usable.
func (s *state) ensureStateDir() error {
	if s.dir == "" {
		return nil
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil { //nolint:gosec // whoever starts the plugin chooses it
		return fmt.Errorf("creating the directory EXAMPLE_STATE_DIR: %w", err)
	}
	return nil
}

// frozenMarkerName returns the name of the marker of one run of one backup or restore. Path escapes
// make any text a valid name, and the prefix prevents "..".
func frozenMarkerName(req *hook.Request) string {
	return frozenMarkerPrefix(req) + url.PathEscape(req.IdempotencyKey)
}

func frozenMarkerPrefix(req *hook.Request) string {
	return "frozen_" + url.PathEscape(runInfoFromRequest(req).uid) + "_"
}

// setFrozenMarker sets the marker of a run and reports whether it was not set before.
func (s *state) setFrozenMarker(req *hook.Request) (fresh bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := frozenMarkerName(req)
	if s.dir == "" {
		fresh = !s.markers[name]
		s.markers[name] = true
		return fresh, nil
	}
	file, err := os.OpenFile(filepath.Join(s.dir, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("writing the marker: %w", err)
	}
	return true, file.Close()
}

// removeFrozenMarkers removes all markers of a backup or restore, also those of runs whose outputs were
// lost, and returns how many there were.
func (s *state) removeFrozenMarkers(req *hook.Request) (removed int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	prefix := frozenMarkerPrefix(req)
	for name := range s.markers {
		if strings.HasPrefix(name, prefix) {
			delete(s.markers, name)
			removed++
		}
	}
	if s.dir == "" {
		return removed, nil
	}
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return removed, fmt.Errorf("listing the markers: %w", err)
	}
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), prefix) {
			continue
		}
		if err := os.Remove(filepath.Join(s.dir, entry.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return removed, fmt.Errorf("removing a marker: %w", err)
		}
		removed++
	}
	return removed, nil
}

// countCalls returns how often a run was called, this call included.
func (s *state) countCalls(req *hook.Request) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dir == "" {
		s.calls[req.IdempotencyKey]++
		return s.calls[req.IdempotencyKey], nil
	}
	path := filepath.Join(s.dir, "calls_"+url.PathEscape(req.IdempotencyKey))
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("reading the number of calls: %w", err)
	}
	calls, _ := strconv.Atoi(string(data))
	calls++
	if err := os.WriteFile(path, []byte(strconv.Itoa(calls)), 0o600); err != nil {
		return 0, fmt.Errorf("writing the number of calls: %w", err)
	}
	return calls, nil
}
