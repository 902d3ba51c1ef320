// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/go-logr/logr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/grapnel-dev/grapnel/test/perf/load"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The control plane logs through it; what matters here is in the notes.
	ctrllog.SetLogger(logr.Discard())
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

// run measures, prints the figures, and returns an error if a target is missed.
func run(ctx context.Context, args []string, out, notes io.Writer) error {
	var w work
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(notes)
	flags.IntVar(&w.objects, "objects", 50_000, "mixed objects")
	flags.IntVar(&w.namespaces, "namespaces", 300, "namespaces of the mixed objects")
	flags.IntVar(&w.rounds, "rounds", 5, "how often what takes seconds is measured")
	flags.IntVar(&w.operations.count, "operations", 10_000, "operations that go on at a time")
	flags.IntVar(&w.operations.plugins, "plugins", 50, "plugins that they belong to; one of them hangs")
	flags.IntVar(&w.deletions.stored, "stored", 5_000, "backups of an unchanged location")
	flags.IntVar(&w.deletions.expired, "expired", 1_000, "backups that expire at once")
	flags.IntVar(&w.large.objects, "large-objects", 300_000, "mixed objects of a large cluster")
	flags.IntVar(&w.large.namespaces, "large-namespaces", 3_000, "namespaces of a large cluster")
	flags.IntVar(&w.snapshots.claims, "claims", 100, "claims that one Backup captures")
	// With more, two processors are busy with snapshot-controller and its API server, and the driver waits.
	flags.IntVar(&w.snapshots.parallelism, "parallel-snapshots", 2, "snapshots that the driver takes at the same time")
	flags.StringVar(&w.only, "only", "", "the one part to measure: mix, scale, operations, snapshots or deletions; empty means all")
	path := flags.String("out", filepath.Join("bin", "bench.json"), "file for the figures")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if err := w.check(); err != nil {
		return err
	}
	where, err := machine()
	if err != nil {
		return err
	}
	figures, rates, err := w.measure(ctx, notes)
	if err != nil {
		return err
	}
	if err := errors.Join(printTable(out, figures), writeJSON(*path, figures)); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(out, "\n%s%s\n", rates, where)
	if n := missed(figures); n > 0 {
		return fmt.Errorf("%d of %d figures miss their target", n, len(figures))
	}
	return nil
}

// work is what is measured.
type work struct {
	mix
	large      mix
	operations operations
	snapshots  snapshots
	deletions  deletions
	// only names the one part that is measured; empty means all.
	only string
}

// The parts that can be measured by themselves: backups and restores, those of a large cluster,
// running operations, snapshots of claims, and an operator with many backups, which it deletes in the end.
const (
	onlyMix        = "mix"
	onlyScale      = "scale"
	onlyOperations = "operations"
	onlySnapshots  = "snapshots"
	onlyDeletions  = "deletions"
)

// check says what is wrong with the flags.
func (w work) check() error {
	switch {
	case min(w.objects, w.namespaces, w.large.objects, w.large.namespaces) < 1 || w.rounds < 1 || w.operations.count < 1 ||
		w.deletions.stored < 1 || w.deletions.expired < 1:
		return errors.New("the numbers of objects, namespaces, rounds, operations and backups must be positive")
	case w.operations.plugins < 2 || w.operations.plugins > 100:
		return errors.New("-plugins must be from 2 to 100: one of them hangs")
	case min(w.snapshots.claims, w.snapshots.parallelism) < 1:
		return errors.New("-claims and -parallel-snapshots must be positive")
	case !slices.Contains([]string{"", onlyMix, onlyScale, onlyOperations, onlySnapshots, onlyDeletions}, w.only):
		return fmt.Errorf("-only: unknown part %q; use %s, %s, %s, %s or %s", w.only, onlyMix, onlyScale, onlyOperations, onlySnapshots, onlyDeletions)
	}
	return nil
}

// measure does everything between an empty directory and the figures.
func (w work) measure(ctx context.Context, notes io.Writer) (figures []figure, rates string, err error) {
	e, err := setUp(ctx, notes)
	defer func() { err = errors.Join(err, e.close()) }()
	if err != nil {
		return nil, "", err
	}
	for _, part := range []struct {
		name    string
		measure func() ([]figure, string, error)
	}{
		{onlyMix, func() ([]figure, string, error) { return w.mix.measure(ctx, e) }},
		{onlyScale, func() ([]figure, string, error) {
			s, err := w.large.measureScale(ctx, e)
			return s.figures(), s.rates(), err
		}},
		{onlyDeletions, func() ([]figure, string, error) {
			gone, err := w.deletions.measureDeletions(ctx, e)
			return gone.figures(), gone.rates(), err
		}},
		{onlyOperations, func() ([]figure, string, error) {
			followed, err := w.operations.measureOperations(ctx, e)
			return followed.figures(), followed.rates(), err
		}},
		{onlySnapshots, func() ([]figure, string, error) {
			w.snapshots.rounds = w.rounds
			taken, err := w.snapshots.measureSnapshots(ctx, e)
			return taken.figures(), "", err
		}},
	} {
		if w.only != "" && w.only != part.name {
			continue
		}
		more, text, err := part.measure()
		if err != nil {
			return nil, "", err
		}
		figures, rates = append(figures, more...), rates+text+"\n"
	}
	return figures, rates, nil
}

// measure measures everything but operations. Restores come last: they replace the
// control plane.
func (m mix) measure(ctx context.Context, e *environment) (figures []figure, rates string, err error) {
	if err := load.Create(ctx, e.plane.Config(), 0, m.namespaces, loadWorkers, load.Namespace); err != nil {
		return nil, "", err
	}
	if err := m.create(ctx, e, 0); err != nil {
		return nil, "", err
	}
	archiving, err := m.measureArchiving(ctx, e)
	if err != nil {
		return nil, "", err
	}
	if err := m.backUpForRestores(ctx, e); err != nil {
		return nil, "", err
	}
	seen, err := m.measureItems(ctx, e)
	if err != nil {
		return nil, "", err
	}
	little, err := measureSmall(ctx, e, m.rounds)
	if err != nil {
		return nil, "", err
	}
	beyond, err := m.measureBeyond(ctx, e, archiving)
	if err != nil {
		return nil, "", err
	}
	large, err := measureLarge(ctx, e, m.rounds)
	if err != nil {
		return nil, "", err
	}
	restores, err := m.measureRestoring(ctx, e)
	if err != nil {
		return nil, "", err
	}
	figures = append(figures, archiving.figures(m)...)
	figures = append(figures, archiving.mixFigure(m), beyond, large)
	figures = append(figures, little.figures()...)
	figures = append(figures, seen.figures()...)
	figures = append(figures, restores.figures(m)...)
	return figures, archiving.rates() + "\n" + restores.rates(), nil
}
