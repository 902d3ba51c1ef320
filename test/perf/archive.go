// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/operator"
	"github.com/grapnel-dev/grapnel/test/perf/load"
	"github.com/grapnel-dev/grapnel/test/perf/raw"
)

const (
	// archiveTarget is how many times the limit the archive phase may take:
	// every object is written twice.
	archiveTarget = 2
	// loadWorkers create objects; more are not faster.
	loadWorkers = 32
)

// mix is the set of mixed objects.
type mix struct {
	objects, namespaces, rounds int
}

// selected is how many namespaces are selected by name: 250 of 300.
func (m mix) selected() int { return m.namespaces * 5 / 6 }

// create creates the next m.objects objects, from the number first on.
func (m mix) create(ctx context.Context, e *environment, first int) error {
	e.note("Creating %d objects in %d namespaces", m.objects, m.namespaces)
	return load.Create(ctx, e.plane.Config(), first, m.objects, loadWorkers, func(i int) client.Object {
		return load.Object(i, m.namespaces)
	})
}

// archiving is what the rounds over the mix yield.
type archiving struct {
	all, selected phase
	// growth of the resident memory in bytes by round, from an idle operator
	// to the peak of its first backup.
	growth []float64
}

// phase is the archive phase of one selection.
type phase struct {
	// limits are those of the kinds in the backup.
	limits []raw.Listing
	// seconds by round.
	seconds []float64
}

// limit is the median of the limits in seconds.
func (p phase) limit() float64 {
	var seconds []float64
	for _, l := range p.limits {
		seconds = append(seconds, l.Seconds)
	}
	return raw.Median(seconds)
}

func (p phase) figure(name string) figure {
	limit := p.limit()
	return newFigure("archive phase, "+name, "s", raw.Median(p.seconds), limit, archiveTarget*limit)
}

// measureArchiving alternates between the limits and the operator, so that both
// see the same machine.
func (m mix) measureArchiving(ctx context.Context, e *environment) (archiving, error) {
	var a archiving
	for round := range m.rounds {
		// A backup of everything contains the companions, one of namespaces by
		// name only its namespaces themselves.
		for p, collections := range map[*phase][]string{
			&a.all:      append(load.Companions(), load.Collections()...),
			&a.selected: load.Collections(),
		} {
			if err := m.addLimit(ctx, e, p, collections); err != nil {
				return a, err
			}
		}
		err := e.withOperator(ctx, func(op *operator.Operator) error {
			return m.round(ctx, e, op, round, &a)
		})
		if err != nil {
			return a, err
		}
		e.note("Round %d: all namespaces %.2f s, limit %.2f s; by name %.2f s, limit %.2f s; memory +%.0f MiB", round+1,
			a.all.seconds[round], a.all.limits[round].Seconds,
			a.selected.seconds[round], a.selected.limits[round].Seconds, a.growth[round]/mebibyte)
	}
	return a, nil
}

func (m mix) addLimit(ctx context.Context, e *environment, p *phase, collections []string) error {
	var listing raw.Listing
	if err := e.askLimit(ctx, nil, &listing, append([]string{"list"}, collections...)...); err != nil {
		return err
	}
	if listing.Objects < int64(m.objects) {
		return fmt.Errorf("the limit read %d objects of %d", listing.Objects, m.objects)
	}
	p.limits = append(p.limits, listing)
	return nil
}

// round backs up all namespaces with a fresh operator, then those by name.
func (m mix) round(ctx context.Context, e *environment, op *operator.Operator, round int, a *archiving) error {
	growth, seconds, err := m.first(ctx, e, op, newBackup(fmt.Sprintf("all-%d", round)), m.objects)
	if err != nil {
		return err
	}
	a.growth, a.all.seconds = append(a.growth, growth), append(a.all.seconds, seconds)
	seconds, err = archivePhase(ctx, e, newBackup(fmt.Sprintf("selected-%d", round), namespaceNames(m.selected())...), m.objects*m.selected()/m.namespaces)
	a.selected.seconds = append(a.selected.seconds, seconds)
	return err
}

// first makes the first backup of a fresh operator and returns its growth too.
func (m mix) first(ctx context.Context, e *environment, op *operator.Operator, backup *v1alpha1.Backup, objects int) (growth, seconds float64, err error) {
	growth, err = growthDuring(op, func() error {
		seconds, err = archivePhase(ctx, e, backup, objects)
		return err
	})
	return growth, seconds, err
}

// archivePhase returns the seconds from the line in the run's log that begins the
// archive phase until a client sees that the Backup is Completed: nothing that
// comes between is left out, also not the results, the manifests and the status.
func archivePhase(ctx context.Context, e *environment, backup *v1alpha1.Backup, objects int) (float64, error) {
	seen, err := runBackups(ctx, e.client, backup)
	if err != nil {
		return 0, err
	}
	status := seen[0].last.Status
	if status.Progress == nil || status.Progress.ItemsBackedUp < int64(objects) || status.Warnings > 0 {
		return 0, fmt.Errorf("the Backup %s should have at least %d objects and no warning: %+v, %d warnings",
			backup.Name, objects, status.Progress, status.Warnings)
	}
	since, err := archivingSince(e.store(), seen[0].last)
	if err != nil {
		return 0, err
	}
	return seen[0].completed.Sub(since).Seconds(), nil
}

// figures of the archive phase.
func (a archiving) figures(m mix) []figure {
	return []figure{
		a.all.figure(fmt.Sprintf("all %d namespaces", m.namespaces)),
		a.selected.figure(fmt.Sprintf("%d of %d namespaces by name", m.selected(), m.namespaces)),
	}
}

// rates says in absolute numbers how fast the limit and the operator are.
func (a archiving) rates() string {
	listing, limit := a.all.limits[0], a.all.limit()
	objects, megabytes := float64(listing.Objects), float64(listing.Bytes)/1e6
	return fmt.Sprintf("raw paged LIST of all namespaces, through gzip: %.0f objects/s, %.0f MB/s of JSON (%.0f bytes an object)\n"+
		"archive phase, all namespaces: %.0f objects/s, %.0f MB/s of JSON",
		objects/limit, megabytes/limit, float64(listing.Bytes)/objects,
		objects/raw.Median(a.all.seconds), megabytes/raw.Median(a.all.seconds))
}
