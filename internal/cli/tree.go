// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/names"
)

// newTreeCommand returns the command that shows a run with everything that belongs to it.
func (a *app) newTreeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "tree NAME", Short: "Show a Backup or Restore with its hooks, their attempts and its operations", Args: cobra.ExactArgs(1),
		Long: "Show a Backup or Restore with its hooks, their attempts and its operations.\n\n" + runArgument,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, k, r, err := a.connectToRun(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			hooks, err := c.listHookRuns(cmd.Context(), k, r)
			if err != nil {
				return err
			}
			operations, err := c.countOperations(cmd.Context(), k, r)
			if err != nil {
				return err
			}
			root := &treeNode{text: fmt.Sprintf("%s %s: %s", k.kind, r.GetName(), cmp.Or(r.GetPhase(), v1alpha1.RunPhaseNew))}
			for i := range hooks {
				root.children = append(root.children, newHookNode(&hooks[i]))
			}
			for _, text := range operations {
				root.children = append(root.children, &treeNode{text: text})
			}
			return root.print(a.out, "", "")
		},
	}
}

// treeNode is a line of a tree.
type treeNode struct {
	text     string
	children []*treeNode
}

// print prints a node and what is below it.
func (n *treeNode) print(out *terminal, first, rest string) error {
	if err := out.printf("%s%s\n", first, n.text); err != nil {
		return err
	}
	for i, child := range n.children {
		branch, below := "├── ", "│   "
		if i == len(n.children)-1 {
			branch, below = "└── ", "    "
		}
		if err := child.print(out, rest+branch, rest+below); err != nil {
			return err
		}
	}
	return nil
}

// newHookNode returns the node of a HookRun with its attempts.
func newHookNode(h *v1alpha1.HookRun) *treeNode {
	node := &treeNode{text: fmt.Sprintf("%s %s: %s", h.Spec.Hook, h.Spec.ActionName, cmp.Or(string(h.Status.Phase), "not called"))}
	if h.Status.Duration != "" {
		node.text += ", " + h.Status.Duration
	}
	if len(h.Status.Attempts) < 2 {
		return node
	}
	for i := range h.Status.Attempts {
		attempt := &h.Status.Attempts[i]
		node.children = append(node.children, &treeNode{text: fmt.Sprintf("attempt %d: %s", attempt.Number, attempt.Message)})
	}
	return node
}

// countOperations returns a line for each phase and action of the operations of a run.
func (c *connection) countOperations(ctx context.Context, k runKind, r run) ([]string, error) {
	var list v1alpha1.AsyncOperationList
	label := client.MatchingLabels{k.label: names.LabelValue(r.GetName())}
	if err := c.List(ctx, &list, client.InNamespace(c.namespace), label); err != nil {
		return nil, err
	}
	counts := map[string]int{}
	for i := range list.Items {
		o := &list.Items[i]
		if o.Spec.ParentRef.UID == string(r.GetUID()) {
			counts[fmt.Sprintf("operations of %s: %s", o.Spec.ActionName, cmp.Or(string(o.Status.Phase), "New"))]++
		}
	}
	var lines []string
	for _, text := range slices.Sorted(maps.Keys(counts)) {
		lines = append(lines, fmt.Sprintf("%d %s", counts[text], text))
	}
	return lines, nil
}
