// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/backupimport"
	"github.com/grapnel-dev/grapnel/internal/testing/operator"
)

const (
	// The targets: seconds of a sync of an unchanged location, and writes meanwhile.
	resyncTarget      = 2
	resyncWriteTarget = 0
	// resyncInterval is the time between two syncs, and resyncLooks how many are measured
	// after the first.
	resyncInterval = 3 * time.Second
	resyncLooks    = 3
)

// resync is one measurement of an unchanged location.
type resync struct {
	// seconds is the mean of the syncs, writes what was written to the API meanwhile, and
	// limit the seconds that it takes to list the directory.
	seconds, writes, limit float64
}

// measureResync syncs a location repeatedly that has count backups, all of
// which have their Backups.
func (d deletions) measureResync(ctx context.Context, e *environment) (r resync, err error) {
	if err := e.replacePlane(ctx); err != nil {
		return r, err
	}
	e.note("Storing %d backups of a Velero server, and creating their Backups", d.stored)
	if err := os.RemoveAll(e.store()); err != nil {
		return r, fmt.Errorf("emptying the store: %w", err)
	}
	if err := d.storeVelero(ctx, e); err != nil {
		return r, err
	}
	if r.limit, err = listDirectory(e.store()); err != nil {
		return r, err
	}
	return r, e.withOperator(ctx, func(op *operator.Operator) error {
		if err := e.awaitAtWork(ctx); err != nil {
			return err
		}
		if err := awaitSyncs(ctx, op, 1); err != nil {
			return err
		}
		began, err := readSyncs(ctx, op)
		if err != nil {
			return err
		}
		writes, err := e.writes(ctx)
		if err != nil {
			return err
		}
		if err := awaitSyncs(ctx, op, began.count+resyncLooks); err != nil {
			return err
		}
		ended, err := readSyncs(ctx, op)
		if err != nil {
			return err
		}
		writesThen, err := e.writes(ctx)
		r.seconds, r.writes = (ended.sum-began.sum)/(ended.count-began.count), writesThen-writes
		e.note("A sync takes %.2f s, %.2f s of which is the list at least; %.0f writes in %.0f syncs", r.seconds, r.limit, r.writes, ended.count-began.count)
		return err
	}, "--backup-sync-interval="+resyncInterval.String(), "--location-check-interval=1h") // a check writes, too
}

// storeVelero writes the manifests of backups, and creates the Backups that the operator
// would make of them.
func (d deletions) storeVelero(ctx context.Context, e *environment) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(loadWorkers)
	for i := range d.stored {
		group.Go(func() error {
			name := fmt.Sprintf("stored-%05d", i)
			manifest := fmt.Appendf(nil, `{"apiVersion":"velero.io/v1","kind":"Backup","metadata":{"name":%q,"namespace":"velero","uid":"stored-%d"},`+
				`"spec":{"includedNamespaces":["shop"]},"status":{"version":1,"formatVersion":"1.1.0","phase":"Completed",`+
				`"startTimestamp":"2026-01-02T03:04:05Z","completionTimestamp":"2026-01-02T03:04:35Z"}}`, name, i)
			dir := filepath.Join(e.store(), "backups", name)
			if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "velero-backup.json"), manifest, 0o600)); err != nil {
				return fmt.Errorf("storing backup %s: %w", name, err)
			}
			b, err := backupimport.BackupFromManifest(backupimport.Source{Namespace: operator.Namespace, Location: locationName, Name: name}, manifest, nil)
			if err != nil {
				return err
			}
			return e.createEnded(ctx, b)
		})
	}
	return group.Wait()
}

// createEnded creates a Backup with its status.
func (e *environment) createEnded(ctx context.Context, b *v1alpha1.Backup) error {
	status := b.Status
	if err := e.client.Create(ctx, b); err != nil {
		return fmt.Errorf("creating the Backup %s: %w", b.Name, err)
	}
	patch := client.MergeFrom(b.DeepCopy())
	b.Status = status
	b.Status.ObservedGeneration = b.Generation
	for i := range b.Status.Conditions {
		b.Status.Conditions[i].ObservedGeneration = b.Generation
		if b.Status.Conditions[i].LastTransitionTime.IsZero() {
			b.Status.Conditions[i].LastTransitionTime = metav1.Now()
		}
	}
	if err := e.client.Status().Patch(ctx, b, patch); err != nil {
		return fmt.Errorf("writing the status of the Backup %s: %w", b.Name, err)
	}
	return nil
}

// listDirectory returns the seconds that it takes to find all files below a directory.
func listDirectory(dir string) (float64, error) {
	began := time.Now()
	err := filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			_, err = entry.Info()
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("listing the store: %w", err)
	}
	return time.Since(began).Seconds(), nil
}

// syncs are what the histogram of the operator says.
type syncs struct{ count, sum float64 }

// readSyncs reads how many syncs there were, and how long they took together.
func readSyncs(ctx context.Context, op *operator.Operator) (s syncs, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, op.MetricsURL(), http.NoBody)
	if err != nil {
		return s, fmt.Errorf("asking for the metrics of the operator: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return s, fmt.Errorf("reading the metrics of the operator: %w", err)
	}
	metrics, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return s, fmt.Errorf("reading the metrics of the operator: %w", err)
	}
	const name = "grapnel_location_sync_duration_seconds"
	lines := bufio.NewScanner(bytes.NewReader(metrics))
	for lines.Scan() {
		labels, text, _ := strings.Cut(lines.Text(), "} ")
		value, err := strconv.ParseFloat(text, 64)
		switch {
		case err != nil:
		case strings.HasPrefix(labels, name+"_count{"):
			s.count = value
		case strings.HasPrefix(labels, name+"_sum{"):
			s.sum = value
		}
	}
	return s, lines.Err()
}

// awaitSyncs waits until there were so many syncs, which it reads from the metrics.
func awaitSyncs(ctx context.Context, op *operator.Operator, count float64) error {
	ctx, cancel := context.WithTimeoutCause(ctx, operationPatience, errors.New("the location is not synced"))
	defer cancel()
	for {
		s, err := readSyncs(ctx, op)
		if err != nil || s.count >= count {
			return err
		}
		if err := pause(ctx, resyncInterval/10); err != nil {
			return err
		}
	}
}

// writes returns how many writes to anything of Grapnel's, to ConfigMaps and of events the API
// server counted.
func (e *environment) writes(ctx context.Context) (float64, error) {
	var sum float64
	metrics, err := e.apiMetrics(ctx)
	if err != nil {
		return 0, err
	}
	among := func(labels, key string, values ...string) bool {
		return slices.ContainsFunc(values, func(value string) bool { return strings.Contains(labels, key+`="`+value+`"`) })
	}
	err = eachRequest(metrics, func(labels string, n float64) {
		if among(labels, "verb", "POST", "PUT", "PATCH", "DELETE") &&
			(among(labels, "group", v1alpha1.GroupVersion.Group) || among(labels, "resource", "configmaps", "events")) {
			sum += n
		}
	})
	return sum, err
}
