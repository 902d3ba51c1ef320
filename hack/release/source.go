// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"
)

// checkVersion refuses what is not a version, or not the tag of an image.
func checkVersion(version string) error {
	number, found := strings.CutPrefix(version, "v")
	parsed, err := semver.StrictNewVersion(number)
	if !found || err != nil || parsed.Metadata() != "" {
		return fmt.Errorf("%q is not a version such as v0.1.0 or v0.2.0-rc.1: run make release VERSION=v0.1.0", version)
	}
	return nil
}

// commit is what a release is built from.
type commit struct {
	hash string
	time time.Time
}

func readCommit(ctx context.Context, root string) (commit, error) {
	out, err := runGit(ctx, root, "log", "-1", "--format=%H %ct")
	if err != nil {
		return commit{}, err
	}
	hash, stamp, _ := strings.Cut(out, " ")
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return commit{}, fmt.Errorf("reading the time of commit %s: %w", hash, err)
	}
	return commit{hash: hash, time: time.Unix(seconds, 0).UTC()}, nil
}

// checkClean refuses what is not in a commit.
func checkClean(ctx context.Context, root string) error {
	changes, err := runGit(ctx, root, "status", "--porcelain")
	if err == nil && changes != "" {
		err = fmt.Errorf("a release is built from a commit, and these files have changes: commit them, or release from a clone\n%s", changes)
	}
	return err
}

func runGit(ctx context.Context, root string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = root
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(exit.Stderr))
	}
	if err != nil {
		return "", fmt.Errorf("running git %s: %w", args[0], err)
	}
	return strings.TrimSpace(string(out)), nil
}

var nextSection = regexp.MustCompile(`(?m)^## `)

// readNotes returns the section of a version in CHANGELOG.md, without its heading.
func readNotes(root, version string) (string, error) {
	changelog, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	if err != nil {
		return "", fmt.Errorf("reading the changes: %w", err)
	}
	number := regexp.QuoteMeta(strings.TrimPrefix(version, "v"))
	heading := regexp.MustCompile(`(?m)^## \[?v?` + number + `\]?(?: .*)?\n`).FindIndex(changelog)
	if heading == nil {
		return "", fmt.Errorf("CHANGELOG.md has no section for %s: write what users notice below a heading \"## %s\"", version, version)
	}
	section := changelog[heading[1]:]
	if next := nextSection.FindIndex(section); next != nil {
		section = section[:next[0]]
	}
	notes := strings.TrimSpace(string(section))
	if notes == "" {
		return "", fmt.Errorf("the section for %s in CHANGELOG.md is empty: write what users notice", version)
	}
	return notes + "\n", nil
}
