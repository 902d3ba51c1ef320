// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Release builds what a release consists of, without a container engine: `make release` runs it.
// The same commit, built with the same version of Go, gives the same bytes.
//
//	main.go      the command line
//	release.go   a release, from the first check to the checksums
//	build.go     programs, with go build
//	source.go    the commit, and the section of CHANGELOG.md
//	images.go    the image of the operator, also for make image and the Dockerfile
//	archives.go  the command line in archives, and the manifest for krew
//	packages.go  the chart, and install.yaml
//	sbom.go      which modules are in which program
//	image/       packs images; test/node uses it, too
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
	"strings"
	"syscall"
)

const usage = `usage: go run -C hack/release . COMMAND

  release -version VERSION -out DIRECTORY
                     build a release
  image -version VERSION -name NAME -platforms OS/ARCHITECTURE,... -out DIRECTORY
                     build the image of the operator: an OCI layout, and an archive of it,
                     DIRECTORY.tar
  root -version VERSION -platform OS/ARCHITECTURE -out DIRECTORY
                     write the files of that image
  push -layout DIRECTORY NAME
                     push the image of an OCI layout to a registry, with the credentials of docker
`

// errUsage is not described: the usage is.
var errUsage = errors.New("unknown command line")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err == nil {
		err = run(ctx, builder{root: root, build: buildProgram, log: os.Stderr}, os.Args[1:], os.Stdout)
	}
	stop()
	switch {
	case errors.Is(err, errUsage):
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// builder is what all commands need.
type builder struct {
	// root is that of the repository.
	root  string
	build func(ctx context.Context, root string, p program, version, target string) error
	log   io.Writer
}

func (b builder) logf(format string, args ...any) {
	fmt.Fprintf(b.log, format+"\n", args...)
}

func run(ctx context.Context, b builder, args []string, out io.Writer) error {
	if len(args) == 0 {
		return errUsage
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	version := flags.String("version", "", "")
	name := flags.String("name", "", "")
	platforms := flags.String("platforms", "", "")
	platform := flags.String("platform", "", "")
	dir := flags.String("out", "", "")
	layout := flags.String("layout", "", "")
	if err := flags.Parse(args[1:]); err != nil {
		return errors.Join(errUsage, err)
	}
	switch args[0] {
	case "release":
		return b.buildRelease(ctx, *version, *dir)
	case "image":
		return b.buildImage(ctx, *name, *version, strings.Split(*platforms, ","), *dir)
	case "root":
		return b.writeRoot(ctx, *version, *platform, *dir)
	case "push":
		pushed, err := pushLayout(ctx, *layout, flags.Arg(0))
		if err == nil {
			_, err = fmt.Fprintln(out, pushed)
		}
		return err
	}
	return errUsage
}
