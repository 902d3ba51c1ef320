// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/grapnel-dev/grapnel/hack/release/image"
	"github.com/grapnel-dev/grapnel/internal/testing/program"
	"github.com/grapnel-dev/grapnel/test/node/cluster"
	"github.com/grapnel-dev/grapnel/test/node/images"
	"github.com/grapnel-dev/grapnel/test/node/smoke"
)

const usage = `usage: bin/e2e/e2e COMMAND

  up                 bring up a cluster of one node; its kubeconfig is bin/e2e/kubeconfig
  down               take it down, also after something crashed
  load IMAGE.tar...  put images on its node
  smoke              check that pods, logs, exec, names, Services, volumes and webhooks work
  enforce KUBECONFIG enforce NetworkPolicies until it is signaled; up starts it
  image NAME OUT.tar build an image: busybox, endpoints, grapnel, pause or postgres;
                     grapnel is that of the OCI layout $E2E_LAYOUT, if it is set
`

// layoutVariable names an OCI layout, below the root of the repository or absolute, whose image is
// installed instead of one that is built.
const layoutVariable = "E2E_LAYOUT"

var errUsage = errors.New("unknown command line")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	switch {
	case errors.Is(err, errUsage):
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 2 && args[0] == cluster.EnforceCommand {
		// A process of the cluster does not run in the repository.
		return cluster.Enforce(ctx, args[1])
	}
	root, err := program.ModuleRoot()
	if err != nil {
		return err
	}
	if len(args) == 0 {
		return errUsage
	}
	switch command, args := args[0], args[1:]; {
	case command == "up" && len(args) == 0:
		return cluster.Up(ctx, root, out)
	case command == "down" && len(args) == 0:
		return cluster.Down(ctx, root, out)
	case command == "load" && len(args) > 0:
		loaded, err := cluster.Load(ctx, args...)
		_, printed := fmt.Fprint(out, loaded)
		return errors.Join(err, printed)
	case command == "smoke" && len(args) == 0:
		return smoke.Run(ctx, smoke.Options{
			Root: root, Kubeconfig: cluster.Kubeconfig(root), Out: out,
			Load: func(ctx context.Context, file string) error {
				_, err := cluster.Load(ctx, file)
				return err
			},
		})
	case command == "image" && len(args) == 2:
		return saveImage(ctx, root, args[0], args[1])
	}
	return errUsage
}

func saveImage(ctx context.Context, root, name, file string) error {
	var i image.Image
	var err error
	switch name {
	case "busybox":
		i, err = images.Busybox(ctx)
	case "endpoints":
		i, err = images.Endpoints(ctx, root)
	case "grapnel":
		layout := os.Getenv(layoutVariable)
		if layout != "" && !filepath.IsAbs(layout) {
			layout = filepath.Join(root, layout)
		}
		return images.SaveGrapnel(ctx, root, layout, file)
	case "pause":
		i, err = images.Pause(ctx, root)
	case "postgres":
		return images.SavePostgres(ctx, root, file)
	default:
		return errUsage
	}
	if err != nil {
		return err
	}
	return i.Save(file)
}
