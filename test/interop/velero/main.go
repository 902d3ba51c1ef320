// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Command velero is Velero as it is published, without the commands that are for
// people: its server and its built-in plugins. The module pins it, and its plugin
// for S3, with the dependencies that Velero was released with.
package main

import (
	"os"

	"github.com/spf13/cobra"
	"github.com/vmware-tanzu/velero/pkg/client"
	"github.com/vmware-tanzu/velero/pkg/cmd/server"
	"github.com/vmware-tanzu/velero/pkg/cmd/server/plugin"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

func main() {
	// No flag says that no port is wanted for these metrics, and the default one may
	// belong to another program.
	metricsserver.DefaultBindAddress = "0"
	factory := client.NewFactory("velero", client.VeleroConfig{})
	root := &cobra.Command{Use: "velero", SilenceUsage: true}
	factory.BindFlags(root.PersistentFlags())
	root.AddCommand(server.NewCommand(factory), plugin.NewCommand(factory))
	if err := root.Execute(); err != nil {
		os.Exit(1)
	}
}
