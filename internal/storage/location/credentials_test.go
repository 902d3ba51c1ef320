// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package location_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// leave writes the file that a killed operator leaves.
func (s *site) leave(name string) string {
	s.t.Helper()
	path := filepath.Join(s.scratch, "location-credentials", name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("old"), 0o600)); err != nil {
		s.t.Fatal(err)
	}
	return path
}

// TestRemoveLeftovers starts an operator whose locations no longer need credentials.
func TestRemoveLeftovers(t *testing.T) {
	t.Parallel()
	s := newSite(t, "first")
	s.leave("uid-9-123")
	log := filepath.Join(s.scratch, "a-log-of-a-run")
	if err := os.WriteFile(log, []byte("line"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.opener.RemoveLeftovers(); err != nil {
		t.Fatal(err)
	}
	if files := s.credentials(); !slices.Equal(files, []string{log}) {
		t.Errorf("files %q, want only the log", files)
	}
	s.secret("password=" + password)
	s.mustProbe(inPlugin("uid-1", "first", withCredential))
	if err := s.opener.RemoveLeftovers(); err != nil {
		t.Fatal(err)
	}
	if files := s.credentials(); len(files) != 2 {
		t.Errorf("files %q, want the log and credentials in use", files)
	}
}

// TestOpen_PluginRestarted starts with the files that a killed operator left.
func TestOpen_PluginRestarted(t *testing.T) {
	t.Parallel()
	s := newSite(t, "first")
	left := s.leave("uid-1-123")
	s.secret("password=" + password)
	at := inPlugin("uid-1", "first", withCredential)
	s.mustProbe(at)
	if files := s.credentials(); len(files) != 1 || files[0] == left {
		t.Errorf("files %q", files)
	}
	// The directory is removed, and the process dies: the next probe recreates both.
	if err := os.RemoveAll(filepath.Dir(left)); err != nil {
		t.Fatal(err)
	}
	if process, err := os.FindProcess(s.directory.AcceptedInits()[0].PID); err != nil || process.Kill() != nil {
		t.Fatal("the process cannot be killed")
	}
	s.awaitEnd(s.directory.AcceptedInits()[0].PID)
	s.mustProbe(at)
	if err := s.opener.Close(); err != nil {
		t.Error(err)
	}
	if _, err := s.opener.Open(t.Context(), at); err == nil || !strings.Contains(err.Error(), "the operator is stopping") {
		t.Errorf("opening after the end: %v", err)
	}
	if files := s.credentials(); len(files) > 0 {
		t.Errorf("remaining files %q", files)
	}
}

// TestReleaseReplacedLocation releases one of two locations of a name: the other one can be used,
// and the first one can no longer be used, whether it was ever opened or not.
func TestReleaseReplacedLocation(t *testing.T) {
	t.Parallel()
	s := newSite(t, "first")
	s.secret("password=" + password)
	before, after := inPlugin("uid-1", "first", withCredential), inPlugin("uid-2", "first", withCredential)
	s.mustProbe(before)
	s.mustProbe(after)
	s.opener.ReleaseReplacedLocation(t.Context(), before.UID)
	s.opener.ReleaseReplacedLocation(t.Context(), "uid-0")
	starts := s.directory.AcceptedInits()
	s.awaitEnd(starts[0].PID)
	s.mustProbe(after)
	if files := s.credentials(); !slices.Equal(files, []string{starts[1].Config["credentialsFile"]}) {
		t.Errorf("files %q", files)
	}
	for _, at := range []*v1alpha1.BackupStorageLocation{before, inPlugin("uid-0", "first", withCredential)} {
		if err := s.probe(at); err == nil || !strings.Contains(err.Error(), "the location was deleted") {
			t.Errorf("opening %s: %v", at.UID, err)
		}
	}
	if again := s.directory.AcceptedInits(); len(again) != 2 {
		t.Errorf("unexpected initialization of the store: %+v", again)
	}
}
