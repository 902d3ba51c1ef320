// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Command kubectl-grapnel is the command line of Grapnel: kubectl grapnel, or grapnel alone.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/grapnel-dev/grapnel/internal/cli"
)

// version is stamped by the linker.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	code := cli.Run(ctx, streams, version, os.Args[1:])
	stop()
	os.Exit(code)
}
