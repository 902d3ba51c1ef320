// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// deleteTimeout is how long deleting an object may take that a command created for itself.
const deleteTimeout = 10 * time.Second

// deleteAfterUse deletes an object that a command created for itself, even if the command was interrupted.
func (c *connection) deleteAfterUse(ctx context.Context, object client.Object) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deleteTimeout)
	defer cancel()
	return client.IgnoreNotFound(c.Delete(ctx, object))
}

// showPlan waits for a dry run, and prints the outcome of each object.
func (a *app) showPlan(ctx context.Context, c *connection, name string, output outputFlag) error {
	shown := &progressPrinter{out: a.errOut}
	var ended run
	for ended == nil {
		var err error
		ended, err = c.watchRunUntil(ctx, restores, name, isFinished, func(r run) { shown.show(progressText(r)) })
		shown.end()
		if err != nil {
			return err
		}
	}
	failed := ended.GetPhase() != v1alpha1.RunPhaseCompleted && ended.GetPhase() != v1alpha1.RunPhasePartiallyFailed
	if !failed {
		err := c.withFile(ctx, v1alpha1.DownloadRestoreResourceList, name, false, func(file io.Reader) error {
			if output.format == outputJSON {
				return a.out.copyText(file)
			}
			return a.printOutcomes(file)
		})
		if err != nil {
			return err
		}
	}
	if output.format == outputJSON && !failed {
		return nil
	}
	return a.reportOutcome(restores, ended)
}

// printOutcomes prints a list of a Restore: "namespace/name(outcome)" by kind.
func (a *app) printOutcomes(file io.Reader) error {
	list, err := readResourceList(file)
	if err != nil {
		return err
	}
	counts := map[string]int{}
	for _, kind := range slices.Sorted(maps.Keys(list)) {
		for _, entry := range list[kind] {
			name, outcome, _ := strings.Cut(strings.TrimSuffix(entry, ")"), "(")
			counts[outcome]++
			if err := a.out.printf("%-10s %s %s\n", outcome, kind, name); err != nil {
				return err
			}
		}
	}
	if len(counts) == 0 {
		return errors.New("the backup has nothing that the Restore would select")
	}
	return nil
}
