// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// at returns the value at a dotted path of an object, nil if there is none.
func at(object *unstructured.Unstructured, path string) any {
	value, _, _ := unstructured.NestedFieldNoCopy(object.Object, strings.Split(path, ".")...)
	return value
}

func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), plane.KubectlPath(), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+plane.KubeconfigPath())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// cells splits a line of kubectl's table into its columns.
func cells(line string) []string {
	return regexp.MustCompile(` {2,}`).Split(strings.TrimSpace(line), -1)
}

// kinds has one object of each kind while it is in progress, and the row that kubectl shows for
// it. AGE and other values that depend on the clock are written as *.
var kinds = map[string]struct {
	resource, short, kind, body, status string
	header, row                         []string
	wide                                []string
}{
	"Backup": {
		resource: "backups", short: "gbk", kind: "Backup", body: `{metadata: {name: nightly}}`,
		status: `{"phase":"InProgress","message":"Archiving objects","storageLocation":"main","errors":1,"warnings":2,
			"expiration":"2030-01-02T03:04:05Z","progress":{"totalItems":900,"itemsBackedUp":300}}`,
		header: []string{"NAME", "PHASE", "ITEMS", "OF", "ERRORS", "WARNINGS", "AGE", "MESSAGE"},
		row:    []string{"nightly", "InProgress", "300", "900", "1", "2", "*", "Archiving objects"},
		wide:   []string{"LOCATION", "EXPIRES", "IMPORTED-FROM", "DATA"},
	},
	"Restore": {
		resource: "restores", short: "grs", kind: "Restore", body: `{metadata: {name: shop-again}, spec: {backupName: shop}}`,
		status: `{"phase":"InProgress","message":"Restoring: 300 of 900 objects","backupName":"shop","storageLocation":"main",
			"errors":1,"warnings":2,"progress":{"totalItems":900,"itemsRestored":300}}`,
		header: []string{"NAME", "BACKUP", "PHASE", "ITEMS", "OF", "ERRORS", "WARNINGS", "AGE", "MESSAGE"},
		row:    []string{"shop-again", "shop", "InProgress", "300", "900", "1", "2", "*", "Restoring: 300 of 900 objects"},
	},
	"HookRun": {
		resource: "hookruns", short: "ghr", kind: "HookRun",
		body:   `{metadata: {name: nightly-pre-0}, spec: {` + hookRun + `, timeout: 1m, desiredState: Run}}`,
		status: `{"phase":"Completed","attempt":2,"duration":"1.5s","message":"Froze 3 databases"}`,
		header: []string{"NAME", "HOOK", "ACTION", "PLUGIN", "FOR", "PHASE", "ATTEMPT", "DURATION", "AGE", "MESSAGE"},
		row:    []string{"nightly-pre-0", "PreBackup", "example.io/freeze", "example", "b", "Completed", "2", "1.5s", "*", "Froze 3 databases"},
	},
	"AsyncOperation": {
		resource: "asyncoperations", short: "gao", kind: "AsyncOperation",
		body:   `{metadata: {name: nightly-data-0}, spec: {` + operation + `, timeout: 4h, pollInterval: 10s}}`,
		status: `{"phase":"InProgress","message":"Copying","progress":{"completed":61,"total":100,"units":"bytes","summary":"61 % (61 of 100 bytes)"}}`,
		header: []string{"NAME", "ACTION", "PLUGIN", "KIND", "IN", "ITEM", "PHASE", "PROGRESS", "FOR", "AGE", "MESSAGE"},
		row:    []string{"nightly-data-0", "example.io/copy", "example", "persistentvolumeclaims", "shop", "data", "InProgress", "61 % (61 of 100 bytes)", "b", "*", "Copying"},
		wide:   []string{"CAPTURED", "ID"},
	},
	"DeletionRun": {
		resource: "deletionruns", short: "gdr", kind: "DeletionRun", body: `{metadata: {name: nightly-expired}, spec: {backupName: nightly, cause: Expired}}`,
		status: `{"phase":"InProgress","message":"Removing the stored files","storageLocation":"main"}`,
		header: []string{"NAME", "BACKUP", "PHASE", "CAUSE", "AGE", "MESSAGE"},
		row:    []string{"nightly-expired", "nightly", "InProgress", "Expired", "*", "Removing the stored files"},
		wide:   []string{"LOCATION"},
	},
	"Schedule": {
		resource: "schedules", short: "gsc", kind: "Schedule", body: `{metadata: {name: nightly}, spec: {schedule: "0 3 * * *", timeZone: Europe/Berlin, template: {}}}`,
		status: `{"phase":"Enabled","message":"The next Backup is due","active":1,"lastScheduleTime":"2025-01-02T03:04:05Z","nextScheduleTime":"2030-01-02T03:04:05Z"}`,
		header: []string{"NAME", "SCHEDULE", "PHASE", "ACTIVE", "LAST", "NEXT", "AGE", "MESSAGE"},
		row:    []string{"nightly", "0 3 * * *", "Enabled", "1", "*", "2030-01-02T03:04:05Z", "*", "The next Backup is due"},
		wide:   []string{"ZONE"},
	},
	"Plugin": {
		resource: "plugins", short: "gpl", kind: "Plugin",
		body: `{metadata: {name: example}, spec: {executor: {process: {command: example}}, suspend: true}}`,
		status: `{"message":"The file is missing","actions":[{"name":"example.io/freeze","kind":"PreBackupAction"}],"conditions":[
			{"type":"Ready","status":"False","reason":"NotFound","message":"m","lastTransitionTime":"2025-01-02T03:04:05Z"}]}`,
		header: []string{"NAME", "READY", "REASON", "SUSPENDED", "AGE", "MESSAGE"},
		row:    []string{"example", "False", "NotFound", "true", "*", "The file is missing"},
		wide:   []string{"ACTIONS"},
	},
	"DownloadRequest": {
		resource: "downloadrequests", short: "gdl", kind: "DownloadRequest",
		body:   `{metadata: {name: nightly-log}, spec: {target: {kind: BackupLog, name: nightly}, tokenHash: ` + strings.Repeat("0a", 32) + `}}`,
		status: `{"phase":"Failed","message":"Backup nightly does not exist"}`,
		header: []string{"NAME", "TARGET", "FOR", "PHASE", "AGE", "MESSAGE"},
		row:    []string{"nightly-log", "BackupLog", "nightly", "Failed", "*", "Backup nightly does not exist"},
	},
	"BackupPreview": {
		resource: "backuppreviews", short: "gbp", kind: "BackupPreview",
		body:   `{metadata: {name: nightly}}`,
		status: `{"phase":"Completed","objects":3,"message":"A Backup would archive 3 objects"}`,
		header: []string{"NAME", "PHASE", "OBJECTS", "AGE", "MESSAGE"},
		row:    []string{"nightly", "Completed", "3", "*", "A Backup would archive 3 objects"},
	},
	"BackupStorageLocation": {
		resource: "backupstoragelocations", short: "gsl", kind: "BackupStorageLocation",
		body:   `{metadata: {name: main}, spec: {filesystem: {}, default: true}}`,
		status: `{"phase":"Unavailable","message":"The directory cannot be written","lastValidationTime":"2025-01-02T03:04:05Z"}`,
		header: []string{"NAME", "PHASE", "DEFAULT", "ACCESS", "CHECKED", "AGE", "MESSAGE"},
		row:    []string{"main", "Unavailable", "true", "ReadWrite", "*", "*", "The directory cannot be written"},
	},
}

// TestPrintColumns checks the columns that kubectl shows for each kind.
func TestPrintColumns(t *testing.T) {
	namespace := newNamespace(t)
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			object := createForNow(t, kind.kind, namespace, kind.body)
			if err := admin.Status().Patch(t.Context(), object, merge(`{"status":`+kind.status+`}`)); err != nil {
				t.Fatal(err)
			}
			for _, word := range []string{kind.resource, kind.short} {
				lines := strings.Split(strings.TrimSpace(kubectl(t, "get", word, "-n", namespace)), "\n")
				if len(lines) != 2 {
					t.Fatalf("kubectl get %s: %q", word, lines)
				}
				if header := cells(lines[0]); !slices.Equal(header, kind.header) {
					t.Errorf("kubectl get %s: columns are %q, want %q", word, header, kind.header)
				}
				row := cells(lines[1])
				for i, want := range kind.row {
					if want != "*" && (i >= len(row) || row[i] != want) {
						t.Errorf("kubectl get %s: the row is %q, want %q", word, row, kind.row)
						break
					}
				}
			}
			header, _, _ := strings.Cut(kubectl(t, "get", kind.resource, "-n", namespace, "-o", "wide"), "\n")
			if got := cells(header); !slices.Equal(got, slices.Concat(kind.header, kind.wide)) {
				t.Errorf("wide columns are %q, want %q after the others", got, kind.wide)
			}
		})
	}
}

// TestSelectableFields selects objects of each kind with a phase by it, and HookRuns and
// AsyncOperations by their parent.
func TestSelectableFields(t *testing.T) {
	if served, err := plane.IsAtLeast("1.31"); err != nil {
		t.Fatal(err)
	} else if !served {
		t.Skip("the API server cannot select custom resources by their fields")
	}
	namespace := newNamespace(t)
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			object := createForNow(t, kind.kind, namespace, kind.body)
			if err := admin.Status().Patch(t.Context(), object, merge(`{"status":`+kind.status+`}`)); err != nil {
				t.Fatal(err)
			}
			for _, path := range []string{"status.phase", "spec.parentRef.name"} {
				value, ok := at(object, path).(string)
				if !ok {
					continue
				}
				for selector, want := range map[string]bool{path + "=" + value: true, path + "!=" + value: false} {
					listed := kubectl(t, "get", kind.resource, "-n", namespace, "-o", "name", "--field-selector", selector)
					if got := strings.Contains(listed, object.GetName()); got != want {
						t.Errorf("kubectl get %s --field-selector %s lists %q; lists %s: %t, want %t",
							kind.resource, selector, listed, object.GetName(), got, want)
					}
				}
			}
		})
	}
}

// TestCategories lists all kinds with one command, but those that commands create for themselves, which viewers may not list.
func TestCategories(t *testing.T) {
	namespace := newNamespace(t)
	for _, kind := range kinds {
		createForNow(t, kind.kind, namespace, kind.body)
	}
	want := []string{
		"asyncoperation.grapnel.dev/nightly-data-0", "backup.grapnel.dev/nightly", "hookrun.grapnel.dev/nightly-pre-0",
		"plugin.grapnel.dev/example", "backupstoragelocation.grapnel.dev/main",
		"restore.grapnel.dev/shop-again", "deletionrun.grapnel.dev/nightly-expired", "schedule.grapnel.dev/nightly",
	}
	for _, what := range []string{"grapnel", "backups,restores,hookruns,asyncoperations,plugins,gsl,deletionruns,schedules"} {
		listed := strings.Fields(kubectl(t, "get", what, "-n", namespace, "-o", "name"))
		slices.Sort(listed)
		if expected := slices.Sorted(slices.Values(want)); !slices.Equal(listed, expected) {
			t.Errorf("kubectl get %s lists %q, want %q", what, listed, expected)
		}
	}
}
