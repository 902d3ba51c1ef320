// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/grapnel-dev/grapnel/internal/restore"
	"github.com/grapnel-dev/grapnel/internal/storage"
)

// reportRestore shows what the cluster and the store say of the restore.
func (d *demo) reportRestore(ctx context.Context, f *restoreFacts) error {
	for _, line := range []string{
		"kubectl get restores -n " + namespace,
		"kubectl events -n " + namespace + " --for restore/" + restoreName,
	} {
		if err := d.show(ctx, line); err != nil {
			return err
		}
		d.gap()
	}
	d.say("Its actions:")
	d.table(actionRows(f.runs))
	d.gap()
	d.say("What became of the objects; those that are skipped are made by controllers:")
	d.table(outcomeRows(f.outcomes))
	d.showLog(storage.RestoreFileKey("", restoreName, storage.RestorePostLogs), f.postLog)
	return nil
}

func outcomeRows(outcomes map[string]map[string]int) [][]string {
	header := []string{"KIND"}
	var present []string
	for _, outcome := range []restore.Outcome{
		restore.Created, restore.Updated, restore.Recreated, restore.Unchanged, restore.Skipped, restore.Failed,
	} {
		for _, of := range outcomes {
			if of[string(outcome)] > 0 {
				present = append(present, string(outcome))
				header = append(header, strings.ToUpper(string(outcome)))
				break
			}
		}
	}
	rows := [][]string{header}
	for _, kind := range slices.Sorted(maps.Keys(outcomes)) {
		row := []string{kind}
		for _, outcome := range present {
			row = append(row, number(outcomes[kind][outcome]))
		}
		rows = append(rows, row)
	}
	return rows
}

// reportComparison shows what differs, and why.
func (d *demo) reportComparison(f *restoreFacts) {
	c := f.comparison
	d.say("%d objects are compared with what they were, field by field.", c.compared)
	for _, id := range c.same {
		d.say("The %s was not deleted, and is the same to the last field.", id)
	}
	d.say("These differences of the others are meant to be:")
	d.table(expectedRows(c))
	if len(c.unexpected)+len(c.missing)+len(c.additional) == 0 {
		d.gap()
		d.say("There are no others, no object is missing, and there is none that was not there before.")
	}
}

func expectedRows(c comparison) [][]string {
	rows := [][]string{{"FIELD", "OBJECTS", "WHY IT DIFFERS"}}
	for i, rule := range rules() {
		if objects := countObjects(c.expected[i]); objects > 0 {
			rows = append(rows, []string{rule.fields[0], strconv.Itoa(objects), rule.why})
		}
	}
	return rows
}

func countObjects(differences []difference) int {
	objects := map[identity]bool{}
	for _, d := range differences {
		objects[d.object] = true
	}
	return len(objects)
}

// valueLength is how much of a value is shown.
const valueLength = 60

// show returns a printable value; a long one is truncated.
func show(value any) string {
	if value == nil {
		return "nothing"
	}
	text, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	if runes := []rune(string(text)); len(runes) > valueLength {
		return string(runes[:valueLength]) + "…"
	}
	return string(text)
}
