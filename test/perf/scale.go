// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/operator"
	"github.com/grapnel-dev/grapnel/test/perf/load"
	"github.com/grapnel-dev/grapnel/test/perf/raw"
)

const (
	// The targets: times by their limits, and bytes for each object.
	scaleArchiveTarget   = 1.5
	scaleRestoreTarget   = 1.3
	scalePerObjectTarget = 250
)

// scale is what one backup and one restore of a large mix yield. They take minutes, so there are no
// rounds.
type scale struct {
	mix
	archive, restore scaleTimes
	listing          raw.Listing
	posts            raw.SendTimes
}

// scaleTimes are those of everything, and the growth of the resident memory in bytes, from an idle
// operator to the peak, of a part and of everything.
type scaleTimes struct{ seconds, growthPart, growth float64 }

// part returns how many namespaces are a third of the mix, and how many objects are in them.
func (m mix) part() (namespaces, objects int) {
	namespaces = max(1, m.namespaces/3)
	for i := range m.objects {
		if i%m.namespaces < namespaces {
			objects++
		}
	}
	return namespaces, objects
}

// measureScale backs up and restores all objects of the mix, and a third of them for the memory.
// Each restore has an empty control plane of its own.
func (m mix) measureScale(ctx context.Context, e *environment) (s scale, err error) {
	s.mix = m
	if err := e.replacePlane(ctx); err != nil {
		return s, err
	}
	if err := load.Create(ctx, e.plane.Config(), 0, m.namespaces, loadWorkers, load.Namespace); err != nil {
		return s, err
	}
	if err := m.create(ctx, e, 0); err != nil {
		return s, err
	}
	if err := e.askLimit(ctx, nil, &s.listing, append([]string{"list"}, load.Collections()...)...); err != nil {
		return s, err
	}
	if err := s.measureArchive(ctx, e); err != nil {
		return s, err
	}
	return s, s.measureRestore(ctx, e)
}

const scaleBackup, scalePartBackup = "scale", "scale-part"

func (s *scale) measureArchive(ctx context.Context, e *environment) error {
	namespaces, objects := s.part()
	err := e.withOperator(ctx, func(op *operator.Operator) (err error) {
		s.archive.growthPart, _, err = s.first(ctx, e, op, newBackup(scalePartBackup, namespaceNames(namespaces)...), objects)
		return err
	})
	if err != nil {
		return err
	}
	return e.withOperator(ctx, func(op *operator.Operator) (err error) {
		s.archive.growth, s.archive.seconds, err = s.first(ctx, e, op, newBackup(scaleBackup, "bench-*"), s.objects)
		e.note("%d objects archived in %.2f s, limit %.2f s; memory +%.0f MiB, of %d objects +%.0f MiB", s.objects,
			s.archive.seconds, s.listing.Seconds, s.archive.growth/mebibyte, objects, s.archive.growthPart/mebibyte)
		return err
	})
}

func (s *scale) measureRestore(ctx context.Context, e *environment) error {
	namespaces, objects := s.part()
	var err error
	if s.restore.growthPart, _, err = restoreAll(ctx, e, scalePartBackup, objects+namespaces); err != nil {
		return err
	}
	if s.restore.growth, s.restore.seconds, err = restoreAll(ctx, e, scaleBackup, s.objects+s.namespaces); err != nil {
		return err
	}
	all := make([]int, s.objects)
	for i := range all {
		all[i] = i
	}
	if s.posts, err = s.measurePosts(ctx, e, s.namespaces, all); err != nil {
		return err
	}
	e.note("%d objects restored in %.2f s, limit %.2f s; memory +%.0f MiB, of %d objects +%.0f MiB", s.objects+s.namespaces,
		s.restore.seconds, s.posts.Seconds, s.restore.growth/mebibyte, objects+namespaces, s.restore.growthPart/mebibyte)
	return nil
}

// restoreAll restores a backup with a fresh operator into an empty control plane.
func restoreAll(ctx context.Context, e *environment, backup string, objects int) (growth, seconds float64, err error) {
	restore := &v1alpha1.Restore{
		ObjectMeta: metav1.ObjectMeta{Namespace: operator.Namespace, Name: backup},
		Spec:       v1alpha1.RestoreSpec{BackupName: backup, StorageLocation: locationName},
	}
	err = e.withNewPlane(ctx, func(op *operator.Operator) error {
		growth, err = growthDuring(op, func() error {
			seconds, err = runRestore(ctx, e, restore, objects, created)
			return err
		})
		return err
	})
	return growth, seconds, err
}

func (s *scale) figures() []figure {
	namespaces, objects := s.part()
	perObject := func(t scaleTimes) float64 {
		return (t.growth - t.growthPart) / float64(s.objects+s.namespaces-objects-namespaces)
	}
	return []figure{
		newFigure(fmt.Sprintf("archive phase, %d objects in %d namespaces", s.objects, s.namespaces), "s",
			s.archive.seconds, s.listing.Seconds, scaleArchiveTarget*s.listing.Seconds),
		newFigure(fmt.Sprintf("memory growth per object beyond %d", objects), "bytes", perObject(s.archive), s.nameBytes(), scalePerObjectTarget),
		newFigure(fmt.Sprintf("restore of %d objects into new namespaces", s.objects+s.namespaces), "s",
			s.restore.seconds, s.posts.Seconds, scaleRestoreTarget*s.posts.Seconds),
		newFigure(fmt.Sprintf("memory growth per object restored beyond %d", objects+namespaces), "bytes",
			perObject(s.restore), s.nameBytes(), scalePerObjectTarget),
	}
}

// rates says in absolute numbers how fast the runs and their limits are.
func (s *scale) rates() string {
	n := float64(s.objects)
	return fmt.Sprintf("%d objects: raw paged LIST %.0f objects/s, archive phase %.0f; raw POSTs %.0f, restore %.0f", s.objects,
		n/s.listing.Seconds, n/s.archive.seconds, n/s.posts.Seconds, n/s.restore.seconds)
}
