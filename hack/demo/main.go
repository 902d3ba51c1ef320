// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Demo shows a backup, its restore and its deletion on a real API server on this machine:
//
//	go run ./hack/demo [-keep]
//
// It starts a control plane, installs Grapnel, deploys a small application and runs the example
// plugin. It backs the application up, deletes it, restores it, with one namespace mapped to
// another, and deletes the backup. It prints each command so that it can be repeated, and the
// progress of each run. Then it compares every restored object with its original and checks the
// results; it exits with 1 if a check fails.
//
// Its files are in bin/demo, which each run empties first. Everything that it starts ends with it;
// with -keep, it waits until it is interrupted.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/grapnel-dev/grapnel/internal/testing/program"
)

// exitInterrupted is the exit code that shells expect after ctrl-C.
const exitInterrupted = 130

func main() {
	keep := flag.Bool("keep", false, "keep everything running until it is interrupted")
	flag.Parse()
	ctrl.SetLogger(logr.Discard()) // logs of libraries would interrupt the output
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := runDemo(ctx, *keep)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		fmt.Println("\nInterrupted; everything was stopped.")
		os.Exit(exitInterrupted)
	default:
		fmt.Printf("\nThe demo FAILED: %v\n", err)
		os.Exit(1)
	}
}

// runDemo locks and empties bin/demo, and runs the demo there.
func runDemo(ctx context.Context, keep bool) (err error) {
	root, err := program.ModuleRoot()
	if err != nil {
		return err
	}
	dir := filepath.Join(root, "bin", "demo")
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	lock, err := os.OpenFile(dir+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return errors.New("another demo is running; wait for its end or interrupt it")
	}
	if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o755)); err != nil {
		return fmt.Errorf("emptying %s: %w", dir, err)
	}
	d := &demo{root: root, dir: dir, keep: keep}
	return errors.Join(d.runSteps(ctx), d.stop())
}
