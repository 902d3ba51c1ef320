// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
)

const (
	// probePrefix starts the name of the object that Probe writes. The object is directly
	// in backups/, where Velero looks only for directories.
	probePrefix = "grapnel-probe-"

	// staleProbeAge is the age, by the store's own clock, from which a probe counts as a
	// leftover of a process that died.
	staleProbeAge = time.Hour
)

// Probe checks that the location can be used. It can be listed, it contains no directories
// that make Velero reject it (otherwise the error is a *ForeignPrefixesError), and an
// object can be written, read back and removed. Afterwards Capabilities is accurate. Errors
// of the store can be classified with the sentinels of package objectstore.
func (s *Store) Probe(ctx context.Context) error {
	err := s.checkForeignPrefixes(ctx)
	if err == nil {
		err = s.probeWriteAndRead(ctx)
	}
	if err != nil {
		return fmt.Errorf("checking the storage location: %w", err)
	}
	return nil
}

// ProbeReadOnly is Probe for a read-only location: it writes nothing.
func (s *Store) ProbeReadOnly(ctx context.Context) error {
	if err := s.checkForeignPrefixes(ctx); err != nil {
		return fmt.Errorf("checking the storage location: %w", err)
	}
	return nil
}

// checkForeignPrefixes applies the rule by which Velero accepts a bucket.
func (s *Store) checkForeignPrefixes(ctx context.Context) error {
	allowed := []string{"backups", "restores", "restic", "metadata", "plugins", "kopia"}
	var foreign []string
	list := s.objects.List
	if lister, ok := s.objects.(objectstore.PrefixLister); ok {
		list = lister.CommonPrefixes
	}
	for entry, err := range list(ctx, objectstore.ListOptions{Prefix: s.prefix, Delimiter: "/"}) {
		if err != nil {
			return fmt.Errorf("listing it: %w", err)
		}
		directory := strings.TrimSuffix(strings.TrimPrefix(entry.Key, s.prefix), "/")
		if entry.IsPrefix && !slices.Contains(allowed, directory) {
			foreign = append(foreign, directory)
		}
	}
	if len(foreign) > 0 {
		return &ForeignPrefixesError{Prefixes: foreign}
	}
	return nil
}

func (s *Store) probeWriteAndRead(ctx context.Context) (err error) {
	// The time is for stores that do not report when an object was stored.
	content, name := time.Now().UTC().Format(time.RFC3339)+" "+rand.Text(), strings.ToLower(rand.Text())
	key := s.prefix + backupsDir + probePrefix + name
	defer func() {
		if err != nil {
			err = &probeError{cause: err, name: name}
		}
	}()
	if err := s.putBytes(ctx, key, []byte(content), objectstore.PutOptions{IfAbsent: true}); err != nil {
		return fmt.Errorf("writing to it: %w", err)
	}
	defer func() {
		if deleteErr := s.objects.Delete(ctx, key); deleteErr != nil {
			err = errors.Join(err, fmt.Errorf("deleting from it: %w", deleteErr))
		}
	}()
	got, err := s.readJSONFile(ctx, key)
	if err != nil {
		return fmt.Errorf("reading what was written to it: %w", err)
	}
	if string(got) != content {
		return errors.New("what was read back differs from what was written")
	}
	return s.removeStaleProbes(ctx, key)
}

// probeError omits the random name from the text, so that the same problem always has the
// same text.
type probeError struct {
	cause error
	name  string
}

// Error implements error.
func (e *probeError) Error() string { return strings.ReplaceAll(e.cause.Error(), e.name, "…") }

// Unwrap returns the cause.
func (e *probeError) Unwrap() error { return e.cause }

// removeStaleProbes removes the leftovers of processes that died during a probe.
func (s *Store) removeStaleProbes(ctx context.Context, own string) error {
	now, err := s.probeTime(ctx, own)
	if err != nil {
		return fmt.Errorf("reading what was written to it: %w", err)
	}
	var stale []string
	for entry, err := range s.objects.List(ctx, objectstore.ListOptions{Prefix: s.prefix + backupsDir + probePrefix, Delimiter: "/"}) {
		if err != nil {
			return fmt.Errorf("listing it: %w", err)
		}
		if entry.IsPrefix || entry.Key == own {
			continue
		}
		stored := entry.ModTime
		if stored.IsZero() {
			// Ignore the error: the probe is not known to be old.
			if stored, err = s.probeTime(ctx, entry.Key); err != nil {
				continue
			}
		}
		if now.Sub(stored) > staleProbeAge {
			stale = append(stale, entry.Key)
		}
	}
	if err := s.objects.Delete(ctx, stale...); err != nil {
		return fmt.Errorf("deleting from it: %w", err)
	}
	return nil
}

// probeTime returns when a probe was written: by the clock of the store, or by that of the
// writer if the store does not report it.
func (s *Store) probeTime(ctx context.Context, key string) (time.Time, error) {
	if s.Capabilities().Metadata {
		info, err := s.objects.Stat(ctx, key)
		return info.ModTime, err
	}
	content, err := s.readJSONFile(ctx, key)
	if err != nil {
		return time.Time{}, err
	}
	written, _, _ := strings.Cut(string(content), " ")
	return time.Parse(time.RFC3339, written)
}
