// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/archive"
	"github.com/grapnel-dev/grapnel/internal/storage"
)

// logLines is how much of a log is shown.
const logLines = 8

// report prints all results.
func (d *demo) report(ctx context.Context, f *facts) error {
	for _, line := range []string{"kubectl get backups,hookruns,asyncoperations,plugins,gsl -n " + namespace, "kubectl events -n " + namespace} {
		if err := d.show(ctx, line); err != nil {
			return err
		}
		d.gap()
	}
	d.say("The Backup is %s: %s", f.backup.Status.Phase, f.backup.Status.Message)
	d.gap()
	d.say("Its actions:")
	d.table(actionRows(f.runs))
	d.gap()
	d.say("The archive has %d objects:", len(f.objects))
	d.table(objectRows(f.objects))
	d.gap()
	d.command("tar tzf " + d.stored(storage.FileKey("", backupName, storage.Contents)) + " | grep databases")
	d.text(strings.Join(pathsWith(f.paths, "databases"), "\n"))
	d.gap()
	d.say("Its files, in %s:", d.short(path.Join(d.dir, "store", "main")))
	d.table(fileRows(f.files))
	d.showLog(storage.FileKey("", backupName, storage.Logs), f.log)
	d.showLog(storage.FileKey("", backupName, storage.PostLogs), f.postLog)
	return nil
}

// showLog shows how a log begins, as the command would.
func (d *demo) showLog(key string, lines []string) {
	d.gap()
	d.command(fmt.Sprintf("zcat %s | head -n %d", d.stored(key), logLines))
	d.text(strings.Join(lines[:min(logLines, len(lines))], ""))
}

// stored returns where a stored file is on this machine.
func (d *demo) stored(key string) string {
	return d.short(path.Join(d.dir, "store", "main", key))
}

func actionRows(runs []v1alpha1.HookRun) [][]string {
	rows := [][]string{{"POINT", "ACTION", "PHASE", "TOOK", "WHAT IT SAYS"}}
	for _, run := range runs {
		rows = append(rows, []string{
			string(run.Spec.Hook), run.Spec.ActionName, string(run.Status.Phase),
			cmp.Or(run.Status.Duration, "-"), run.Status.Message,
		})
	}
	return rows
}

// objectRows counts objects by kind and namespace.
func objectRows(objects []archive.Identity) [][]string {
	count := map[string]map[string]int{}
	namespaces := map[string]bool{}
	for _, object := range objects {
		kind := object.GroupResource()
		if count[kind] == nil {
			count[kind] = map[string]int{}
		}
		count[kind][object.Namespace]++
		namespaces[object.Namespace] = true
	}
	columns := slices.Sorted(maps.Keys(namespaces))
	header := []string{"RESOURCE"}
	for _, namespace := range columns {
		header = append(header, strings.ToUpper(cmp.Or(namespace, "(cluster)")))
	}
	rows := [][]string{header}
	for _, kind := range slices.Sorted(maps.Keys(count)) {
		row := []string{kind}
		for _, namespace := range columns {
			row = append(row, number(count[kind][namespace]))
		}
		rows = append(rows, row)
	}
	return rows
}

func number(n int) string {
	if n == 0 {
		return "."
	}
	return strconv.Itoa(n)
}

func pathsWith(paths []string, part string) []string {
	return slices.DeleteFunc(slices.Clone(paths), func(path string) bool { return !strings.Contains(path, part) })
}

func fileRows(files []storedFile) [][]string {
	rows := make([][]string, 0, len(files))
	for _, file := range files {
		rows = append(rows, []string{fmt.Sprintf("%8d bytes", file.size), file.name})
	}
	return rows
}
