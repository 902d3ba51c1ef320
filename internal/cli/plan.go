// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/rawclient"
)

// deleteTimeout is how long deleting an object may take that a command created for itself.
const deleteTimeout = 10 * time.Second

// deleteAfterUse deletes an object that a command created for itself, even if the command was interrupted.
func (c *connection) deleteAfterUse(ctx context.Context, object client.Object) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deleteTimeout)
	defer cancel()
	return client.IgnoreNotFound(c.Delete(ctx, object))
}

// waitForEnd waits until a run has ended, and shows its progress.
func (a *app) waitForEnd(ctx context.Context, c *connection, k runKind, name string) (run, error) {
	shown := &progressPrinter{out: a.errOut}
	for {
		ended, err := c.watchRunUntil(ctx, k, name, isFinished, func(r run) { shown.show(progressText(r)) })
		shown.end()
		if err != nil || ended != nil {
			return ended, err
		}
		if err := rawclient.Sleep(ctx, rewatchInterval); err != nil {
			return nil, err
		}
	}
}

// hasOutcomes reports whether a Restore got as far as its objects.
func hasOutcomes(r run) bool {
	return r.GetPhase() == v1alpha1.RunPhaseCompleted || r.GetPhase() == v1alpha1.RunPhasePartiallyFailed
}

// showPlan waits for a dry run, and prints the outcome of each object.
func (a *app) showPlan(ctx context.Context, c *connection, name string, output outputFlag) error {
	ended, err := a.waitForEnd(ctx, c, restores, name)
	if err != nil {
		return err
	}
	if !hasOutcomes(ended) {
		return a.reportOutcome(restores, ended)
	}
	err = c.withFile(ctx, v1alpha1.DownloadRestoreResourceList, name, false, func(file io.Reader) error {
		if output.format != outputTable {
			return a.copyJSON(file, output)
		}
		return a.printOutcomes(file)
	})
	switch {
	case err != nil:
		return err
	case output.format != outputTable:
		return exitErrorForPhase(ended.GetPhase())
	}
	return a.reportOutcome(restores, ended)
}

// itemOutcome is what a Restore did, or would do, to an object.
type itemOutcome struct{ kind, name, outcome string }

// readOutcomes reads the list of a Restore: "namespace/name(outcome)" by kind.
func readOutcomes(file io.Reader) ([]itemOutcome, error) {
	list, err := readResourceList(file)
	if err != nil {
		return nil, err
	}
	var outcomes []itemOutcome
	for _, kind := range slices.Sorted(maps.Keys(list)) {
		for _, entry := range list[kind] {
			name, outcome, _ := strings.Cut(strings.TrimSuffix(entry, ")"), "(")
			outcomes = append(outcomes, itemOutcome{kind: kind, name: name, outcome: outcome})
		}
	}
	return outcomes, nil
}

// printOutcomes prints the list of a Restore.
func (a *app) printOutcomes(file io.Reader) error {
	outcomes, err := readOutcomes(file)
	if err != nil {
		return err
	}
	for _, o := range outcomes {
		if err := a.out.printf("%-10s %s %s\n", o.outcome, o.kind, o.name); err != nil {
			return err
		}
	}
	return nil
}
