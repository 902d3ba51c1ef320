// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/internal/runlog"
)

// The lines are written by the package that writes the logs of backups, so that a
// change of their form is noticed here.
func TestFindArchiving(t *testing.T) {
	book, err := runlog.New(t.TempDir(), redact.New(), logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	log := book.Logger(runlog.Run{UID: "run"}, runlog.Main)
	log.Info("Something else")
	before := time.Now().Truncate(time.Millisecond)
	log.Info("Archiving objects", "backup", "a/b")
	after := time.Now()
	log.Info("Storing results")
	lines, err := book.OpenReader("run", runlog.Main)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lines.Close() }()
	got, err := findArchiving(lines)
	if err != nil || got.Before(before) || got.After(after) {
		t.Errorf("archiving began at %s (%v), want between %s and %s", got, err, before, after)
	}
}

func TestFindArchiving_Errors(t *testing.T) {
	for name, log := range map[string]string{
		"empty":         "",
		"other lines":   "time=2026-11-21T20:51:44.123Z level=INFO msg=\"Storing results\"\n",
		"no time in it": "time=yesterday level=INFO msg=\"Archiving objects\"\n",
	} {
		if at, err := findArchiving(strings.NewReader(log)); err == nil {
			t.Errorf("%s: no error, but %s", name, at)
		}
	}
}
