// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/internal/testing/operator"
	"github.com/grapnel-dev/grapnel/test/perf/load"
	"github.com/grapnel-dev/grapnel/test/perf/memory"
	"github.com/grapnel-dev/grapnel/test/perf/raw"
)

const (
	mebibyte = 1 << 20

	// The targets, in MiB and bytes.
	mixGrowthTarget   = 100
	largeGrowthTarget = 200
	perObjectTarget   = 300

	largeSecrets   = 500
	largeNamespace = "bench-large"
)

// growthDuring returns by how many bytes the resident memory of the operator was
// at its peak during work above what it was before.
func growthDuring(op *operator.Operator, work func() error) (float64, error) {
	before, err := memory.Process(op.PID()).Resident()
	if err != nil {
		return 0, err
	}
	peak, err := peakDuring(op, work)
	return peak - float64(before), err
}

// peakDuring returns how many bytes the resident memory of the operator was at its peak during work.
func peakDuring(op *operator.Operator, work func() error) (float64, error) {
	process := memory.Process(op.PID())
	if err := process.ResetPeak(); err != nil {
		return 0, err
	}
	if err := work(); err != nil {
		return 0, err
	}
	peak, err := process.Peak()
	return float64(peak), err
}

// mixFigure is the memory that the mix takes. A peak is a promise: the worst round
// counts.
func (a archiving) mixFigure(m mix) figure {
	return newFigure(fmt.Sprintf("memory growth, %d objects", m.objects), "MiB",
		slices.Max(a.growth)/mebibyte, raw.Median(growthOf(a.all.limits))/mebibyte, mixGrowthTarget)
}

func growthOf(listings []raw.Listing) []float64 {
	var out []float64
	for _, l := range listings {
		out = append(out, float64(l.Growth))
	}
	return out
}

// measureBeyond creates as many objects again and returns what each of them adds
// to the memory. The peak of a single round depends on when the collector ran, so
// medians are compared.
func (m mix) measureBeyond(ctx context.Context, e *environment, a archiving) (figure, error) {
	if err := m.create(ctx, e, m.objects); err != nil {
		return figure{}, err
	}
	var growth []float64
	for round := range m.rounds {
		err := e.withOperator(ctx, func(op *operator.Operator) error {
			g, seconds, err := m.first(ctx, e, op, newBackup(fmt.Sprintf("double-%d", round)), 2*m.objects)
			growth = append(growth, g)
			e.note("Round %d: %d objects in %.2f s, memory +%.0f MiB", round+1, 2*m.objects, seconds, g/mebibyte)
			return err
		})
		if err != nil {
			return figure{}, err
		}
	}
	perObject := (raw.Median(growth) - raw.Median(a.growth)) / float64(m.objects)
	return newFigure(fmt.Sprintf("memory growth per object beyond %d", m.objects), "bytes",
		perObject, m.nameBytes(), perObjectTarget), nil
}

// nameBytes is how long the name of an object with its namespace is: the resource
// list that is stored with a backup is sorted, so all names have to be held.
func (m mix) nameBytes() float64 {
	const sample = 10_000
	total := 0
	for i := range sample {
		o := load.Object(m.objects+i, m.namespaces)
		total += len(o.GetNamespace()) + 1 + len(o.GetName())
	}
	return float64(total) / sample
}

// measureLarge backs up Secrets that are as large as they can be, each time with a
// fresh operator.
func measureLarge(ctx context.Context, e *environment, rounds int) (figure, error) {
	e.note("Creating %d Secrets of 1 MiB", largeSecrets)
	if err := createNamespaces(ctx, e, largeNamespace); err != nil {
		return figure{}, err
	}
	err := load.Create(ctx, e.plane.Config(), 0, largeSecrets, loadWorkers, func(i int) client.Object {
		return load.LargeSecret(i, largeNamespace)
	})
	if err != nil {
		return figure{}, err
	}
	var growth, limits []float64
	for round := range rounds {
		var listing raw.Listing
		path := "/api/v1/namespaces/" + largeNamespace + "/secrets"
		if err := e.askLimit(ctx, nil, &listing, "list", path); err != nil {
			return figure{}, err
		}
		limits = append(limits, float64(listing.Growth))
		err := e.withOperator(ctx, func(op *operator.Operator) error {
			var seconds float64
			g, err := growthDuring(op, func() (err error) {
				seconds, err = archivePhase(ctx, e, newBackup(fmt.Sprintf("large-%d", round), largeNamespace), largeSecrets)
				return err
			})
			growth = append(growth, g)
			e.note("Round %d: limit %.2f s, operator %.2f s, memory +%.0f MiB", round+1, listing.Seconds, seconds, g/mebibyte)
			return err
		})
		if err != nil {
			return figure{}, err
		}
	}
	return newFigure(fmt.Sprintf("memory growth, %d Secrets of 1 MiB", largeSecrets), "MiB",
		slices.Max(growth)/mebibyte, raw.Median(limits)/mebibyte, largeGrowthTarget), nil
}
