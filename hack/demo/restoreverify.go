// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// restoreChecks returns all checks of the restore. None changes the facts.
func restoreChecks() []check[*restoreFacts] {
	return []check[*restoreFacts]{
		{"The Restore is Completed, without errors or warnings", func(f *restoreFacts) error { return f.checkOutcome() }},
		{"Its conditions say that it is done and owes nothing", func(f *restoreFacts) error { return f.checkConditions() }},
		{"Its actions are Completed, one before the objects and one after them, in this order", func(f *restoreFacts) error { return f.checkActions() }},
		{"Each action has its HookRun, which belongs to the Restore and needed one attempt", func(f *restoreFacts) error { return f.checkRuns() }},
		{"Every object is back where it belongs, and nothing else is there", checkBack},
		{"No object differs in anything that is not meant to", checkUnexpected},
		{"The namespace that is mapped is where it should be, and not where it was", checkMapped},
		{"The status counts every object of the archive", checkCounts},
		{"So does the list of resources", checkOutcomes},
		{"No file that the status names is missing", checkRestoreFiles},
		{"What the plugin put out before the backup is in the status", checkBackupOutputs},
		{"What it logged before the objects is in the restore's log", checkRestoreLog},
		{"What it logged afterwards is in a log of its own, with the replicas from before the backup", checkRestorePostLog},
		{"Nothing is frozen any more", func(f *restoreFacts) error { return f.checkThawed() }},
		{"The Restore waited for the one operation of a plugin, which is Completed", func(f *restoreFacts) error { return f.checkOperation() }},
		{"The data of the claim is back, byte by byte", func(f *restoreFacts) error { return f.checkData() }},
	}
}

func checkBack(f *restoreFacts) error {
	var errs []error
	if f.comparison.compared == 0 {
		errs = append(errs, errors.New("there was nothing to compare"))
	}
	for _, id := range f.comparison.missing {
		errs = append(errs, fmt.Errorf("%s is not there", f.restored.target(id)))
	}
	for _, id := range f.comparison.additional {
		errs = append(errs, fmt.Errorf("%s was not there before", id))
	}
	return errors.Join(errs...)
}

func checkUnexpected(f *restoreFacts) error {
	var errs []error
	for _, d := range f.comparison.unexpected {
		errs = append(errs, fmt.Errorf("%s: %s was %s and is %s", d.object, d.field, show(d.before), show(d.after)))
	}
	if len(f.comparison.expected) == 0 {
		errs = append(errs, errors.New("nothing differs at all, so this is no restored application"))
	}
	return errors.Join(errs...)
}

func checkMapped(f *restoreFacts) error {
	var errs []error
	for from, to := range f.restored.mapping {
		var moved int
		for id := range f.restored.after {
			if id.namespace == from || id.name == from {
				errs = append(errs, fmt.Errorf("there is %s", id))
			}
			if id.namespace == to {
				moved++
			}
		}
		if moved == 0 {
			errs = append(errs, fmt.Errorf("there is nothing in %s", to))
		}
	}
	return errors.Join(errs...)
}

func checkCounts(f *restoreFacts) error {
	s := f.restore.Status
	if s.Progress == nil || s.Counts == nil {
		return errors.New("there are no counts")
	}
	c, want := *s.Counts, int64(f.archived)
	if c.Created == 0 || c.Created+c.Unchanged+c.Skipped != want || c.Updated+c.Recreated+c.Failed != 0 ||
		s.Progress.TotalItems != want || s.Progress.ItemsRestored != want {
		return fmt.Errorf("it says %+v and %+v, the archive has %d objects", c, *s.Progress, want)
	}
	if text := fmt.Sprintf("%d created", c.Created); !strings.Contains(s.Message, text) {
		return fmt.Errorf("the message has no %q: %s", text, s.Message)
	}
	return nil
}

func checkOutcomes(f *restoreFacts) error {
	listed := v1alpha1.RestoreCounts{
		Created: f.outcome("created"), Updated: f.outcome("updated"), Recreated: f.outcome("recreated"),
		Unchanged: f.outcome("unchanged"), Skipped: f.outcome("skipped"), Failed: f.outcome("failed"),
	}
	if c := f.restore.Status.Counts; c == nil || *c != listed {
		return fmt.Errorf("it has %+v, the status %+v", listed, c)
	}
	return nil
}

func checkRestoreFiles(f *restoreFacts) error {
	if f.restore.Status.Files == nil {
		return errors.New("the status names none")
	}
	if len(f.missing) > 0 {
		return errors.New(strings.Join(f.missing, "\n"))
	}
	return nil
}

func checkBackupOutputs(f *restoreFacts) error {
	if outputs := f.restore.Status.BackupOutputs[actionName]; outputs["replicas"] != "3" {
		return fmt.Errorf("it has %v", outputs)
	}
	return nil
}

func checkRestoreLog(f *restoreFacts) error {
	return checkLine(f.log, "Froze the application", "namespaces="+strings.Join(restoredNamespaces(), ","))
}

func checkRestorePostLog(f *restoreFacts) error {
	if checkLine(f.log, "Thawed the application") == nil {
		return errors.New("it is in the restore's log")
	}
	// The restore does not know how many replicas there are.
	return checkLine(f.postLog, "Thawed the application", "phase=Completed", "replicas=3", "removedMarkers=1")
}
