// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bufio"
	"errors"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// deletionRuns are what delete commands wait for.
var deletionRuns = runKind{
	kind: "DeletionRun", resource: "deletionruns",
	newRun: func() run { return &v1alpha1.DeletionRun{} }, newList: func() client.ObjectList { return &v1alpha1.DeletionRunList{} },
	label: v1alpha1.LabelDeletionRunName,
}

// objectAndList are an object and a list of its kind, both empty.
type objectAndList struct {
	object client.Object
	list   client.ObjectList
}

// newDeleteCommand returns the command that deletes objects of a kind.
func (a *app) newDeleteCommand(kind, effect string, newObject func() objectAndList) *cobra.Command {
	var confirmed bool
	command := &cobra.Command{
		Use: "delete NAME", Short: "Delete a " + kind + "; " + effect, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.connect()
			if err != nil {
				return err
			}
			found := newObject()
			if err := c.getObject(cmd.Context(), kind, args[0], found.object, found.list); err != nil {
				return err
			}
			if err := confirmAction(cmd.InOrStdin(), a.errOut, confirmed, "Delete "+kind+" "+args[0]+"?"); err != nil {
				return err
			}
			if err := c.Delete(cmd.Context(), found.object); err != nil {
				return err
			}
			return a.out.printf("%s %s is being deleted; %s\n", kind, args[0], effect)
		},
	}
	command.Flags().BoolVar(&confirmed, "confirm", false, "do not ask for a confirmation")
	return command
}

// confirmAction asks a question, unless it was answered by a flag.
func confirmAction(in io.Reader, out *terminal, confirmed bool, question string) error {
	if confirmed {
		return nil
	}
	if err := out.printf("%s [y/N] ", question); err != nil {
		return err
	}
	answer, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
		return errors.New("not confirmed; answer y, or set --confirm")
	}
	return nil
}
