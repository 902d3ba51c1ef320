// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/filesystem"
)

// ran is the result of a backup or a restore, as far as both have it.
type ran struct {
	kind lifecycle.KindTraits
	of   lifecycle.Object
	// runs are the HookRuns: first those before the work on objects.
	runs []v1alpha1.HookRun
	operated
	// log and postLog are lines.
	log, postLog []string
	// markers are what the example plugin still has frozen, if that is known.
	markers    []string
	markersErr error
}

// collectRun reads all but the logs, and the data that was copied to a directory.
func (d *demo) collectRun(ctx context.Context, kind lifecycle.KindTraits, of lifecycle.Object, copied string) (ran, error) {
	var all v1alpha1.HookRunList
	if err := d.client.List(ctx, &all, client.InNamespace(namespace)); err != nil {
		return ran{}, err
	}
	r := ran{kind: kind, of: of}
	for _, hookRun := range all.Items {
		if hookRun.Spec.ParentRef.Kind == kind.Name && hookRun.Spec.ParentRef.Name == of.GetName() {
			r.runs = append(r.runs, hookRun)
		}
	}
	slices.SortStableFunc(r.runs, func(a, b v1alpha1.HookRun) int {
		return -cmp.Compare(a.Spec.Hook, b.Spec.Hook) // Pre before Post
	})
	r.markers, r.markersErr = listMarkers(d.state())
	var err error
	r.operated, err = d.collectOperations(ctx, of, copied)
	return r, err
}

func (d *demo) openStore() (*filesystem.Store, error) {
	return filesystem.Open(filepath.Join(d.dir, "store"), "main")
}

// readLog returns the lines of a log, none if there is no such log. It takes what
// the store answered.
func readLog(r io.ReadCloser, err error) ([]string, error) {
	text, err := readCompressed(r, err)
	if errors.Is(err, objectstore.ErrNotExist) {
		return nil, nil
	}
	return slices.Collect(strings.Lines(string(text))), err
}

func readCompressed(r io.ReadCloser, found error) (text []byte, err error) {
	if found != nil {
		return nil, found
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	decompressed, err := gzip.NewReader(r)
	if err != nil {
		return nil, fmt.Errorf("reading a stored file: %w", err)
	}
	if text, err = io.ReadAll(decompressed); err != nil {
		return nil, fmt.Errorf("reading a stored file: %w", err)
	}
	return text, nil
}

// listMarkers fails if there is no directory for them. The plugin keeps more there.
func listMarkers(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("looking for what is frozen: %w", err)
	}
	var markers []string
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), "frozen_") {
			markers = append(markers, entry.Name())
		}
	}
	return markers, nil
}
