// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/names"
	"github.com/grapnel-dev/grapnel/internal/timeline"
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
			hooks, operations, err := c.listChildren(cmd.Context(), k, r)
			if err != nil {
				return err
			}
			root := &treeNode{text: fmt.Sprintf("%s %s: %s", k.kind, r.GetName(), cmp.Or(r.GetPhase(), v1alpha1.RunPhaseNew))}
			for i := range hooks {
				root.children = append(root.children, newHookNode(&hooks[i]))
			}
			root.children = append(root.children, newOperationNodes(operations)...)
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
		line := fmt.Sprintf("attempt %d: ", attempt.Number)
		if end := attempt.CompletionTimestamp; end == nil {
			line += "running"
		} else {
			line += cmp.Or(attempt.Reason, "Succeeded") + ", " + timeline.FormatDuration(end.Sub(attempt.StartTimestamp.Time))
		}
		if attempt.Message != "" {
			line += " (" + attempt.Message + ")"
		}
		node.children = append(node.children, &treeNode{text: line})
	}
	return node
}

// listChildren returns the HookRuns of a run, see listHookRuns, and its AsyncOperations.
func (c *connection) listChildren(ctx context.Context, k runKind, r run) ([]v1alpha1.HookRun, []v1alpha1.AsyncOperation, error) {
	hooks, err := c.listHookRuns(ctx, k, r)
	if err != nil {
		return nil, nil, err
	}
	operations, err := c.listOperations(ctx, k, r)
	return hooks, operations, err
}

// listOperations returns the AsyncOperations of a run.
func (c *connection) listOperations(ctx context.Context, k runKind, r run) ([]v1alpha1.AsyncOperation, error) {
	var list v1alpha1.AsyncOperationList
	label := client.MatchingLabels{k.label: names.LabelValue(r.GetName())}
	if err := c.List(ctx, &list, client.InNamespace(c.namespace), label); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.Items, func(o v1alpha1.AsyncOperation) bool { return o.Spec.ParentRef.UID != string(r.GetUID()) }), nil
}

// newOperationNodes returns a node for each action, with the number of its operations in each phase.
func newOperationNodes(operations []v1alpha1.AsyncOperation) []*treeNode {
	counts := map[string]map[v1alpha1.AsyncOperationPhase]int{}
	for i := range operations {
		o := &operations[i]
		if counts[o.Spec.ActionName] == nil {
			counts[o.Spec.ActionName] = map[v1alpha1.AsyncOperationPhase]int{}
		}
		counts[o.Spec.ActionName][cmp.Or(o.Status.Phase, v1alpha1.AsyncOperationPhaseNew)]++
	}
	var nodes []*treeNode
	for _, action := range slices.Sorted(maps.Keys(counts)) {
		var phases []string
		for _, phase := range slices.Sorted(maps.Keys(counts[action])) {
			phases = append(phases, fmt.Sprintf("%d × %s", counts[action][phase], phase))
		}
		nodes = append(nodes, &treeNode{text: "operations of " + action + ": " + strings.Join(phases, ", ")})
	}
	return nodes
}
