// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Kubectl-grapnel is the command line of Grapnel. kubectl finds it as a plugin, kubectl grapnel, and it
// works alone, too. See docs/cli.md.
package main

import (
	"os"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/grapnel-dev/grapnel/internal/cli"
)

// version is stamped by the linker.
var version = "dev"

func main() {
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	os.Exit(cli.Run(ctrl.SetupSignalHandler(), streams, version, os.Args[1:]))
}
