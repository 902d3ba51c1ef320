// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// newPluginCommand returns the command for Plugins.
func (a *app) newPluginCommand() *cobra.Command {
	newObject := func() objectAndList { return objectAndList{&v1alpha1.Plugin{}, &v1alpha1.PluginList{}} }
	return newGroupCommand("plugin", "Create, show and delete Plugins",
		a.newCreatePluginCommand(),
		a.newGetCommand("Plugin", "plugins"),
		a.newDescribeObjectCommand("Plugin", newObject),
		a.newDeleteCommand("Plugin", "it stays until no run needs it", newObject))
}

// newCreatePluginCommand returns the command that creates a Plugin.
func (a *app) newCreatePluginCommand() *cobra.Command {
	var flags createFlags
	var command, address string
	var args []string
	cmd := &cobra.Command{
		Use: "create NAME --command PROGRAM | --address HOST:PORT", Short: "Create a Plugin that is a program or a gRPC server", Args: cobra.ExactArgs(1),
		Long: "Create a Plugin that is a program in the operator's plugin directory, or a gRPC server.\n\n" +
			"Jobs, webhooks, commands in pods and the settings of actions need a manifest: print one with -o yaml, and edit it.",
		RunE: func(cmd *cobra.Command, names []string) error {
			c, err := a.connect()
			if err != nil {
				return err
			}
			p := &v1alpha1.Plugin{ObjectMeta: metav1.ObjectMeta{Name: names[0]}}
			switch {
			case (command == "") == (address == ""):
				return errors.New("set either --command or --address")
			case command != "":
				p.Spec.Executor.Process = &v1alpha1.ProcessExecutor{Command: command, Args: args}
			default:
				p.Spec.Executor.GRPC = &v1alpha1.GRPCExecutor{Address: address}
			}
			_, err = a.createObject(cmd.Context(), c, p, flags)
			return err
		},
	}
	cmd.Flags().StringVar(&command, "command", "", "program in the operator's plugin directory")
	cmd.Flags().StringArrayVar(&args, "arg", nil, "argument of the program; may be repeated")
	cmd.Flags().StringVar(&address, "address", "", "address of a gRPC server, host:port or unix:///path")
	flags.bindFlags(cmd)
	return cmd
}
