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
	"syscall"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/grapnel-dev/grapnel/internal/testing/program"
)

// exitInterrupted is what shells expect after ctrl-C.
const exitInterrupted = 130

func main() {
	keep := flag.Bool("keep", false, "keep everything running until it is interrupted")
	flag.Parse()
	// What the libraries would log is no part of the story.
	ctrl.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(demonstrate(ctx, os.Stdout, *keep))
}

// demonstrate returns the exit code.
func demonstrate(ctx context.Context, out io.Writer, keep bool) int {
	p := printer{out: out}
	d, err := newDemo(p, keep)
	if err == nil {
		err = d.run(ctx)
	}
	switch {
	case err == nil:
		return 0
	case ctx.Err() != nil:
		p.write("\nInterrupted; everything was stopped.\n")
		return exitInterrupted
	default:
		p.write("\nThe demonstration FAILED: %v\n", err)
		return 1
	}
}

// newDemo takes the directory bin/demo and empties it.
func newDemo(p printer, keep bool) (*demo, error) {
	root, err := program.ModuleRoot()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(root, "bin", "demo")
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(dir+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	// It is held until the program ends.
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(errors.New("another demonstration is running; wait for its end or interrupt it"), lock.Close())
	}
	if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o755)); err != nil {
		return nil, fmt.Errorf("emptying %s: %w", dir, err)
	}
	return &demo{printer: p, root: root, dir: dir, keep: keep, lock: lock, halfway: map[string]int{}}, nil
}
