// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/archive"
)

// The objects of newBusyCluster. Names and messages have characters that could forge other lines.
const (
	nightlyBackup = `
metadata: {name: nightly-1, namespace: grapnel-system, uid: uid-1, creationTimestamp: "2026-01-02T03:00:00Z"}
spec: {includedNamespaces: ["shop-*", db], excludedNamespaces: [shop-test]}
status:
  phase: PartiallyFailed
  message: "302 objects in the archive, 2 errors, the first: pods are forbidden\x1b[2J"
  storageLocation: main
  startTimestamp: "2026-01-02T03:00:01Z"
  completionTimestamp: "2026-01-02T03:01:11Z"
  defaultTTL: 720h0m0s
  expiration: "2026-02-01T03:00:01Z"
  progress: {totalItems: 302, itemsBackedUp: 302}
  operations: {attempted: 3, completed: 2, failed: 1, cancelled: 0, percent: 100}
  errors: 2
  warnings: 1
  problems:
  - {severity: Error, reason: Forbidden, resource: pods, message: "pods are forbidden\x1b[2J"}
  - {severity: Warning, reason: DataNotCaptured, resource: persistentvolumeclaims, namespace: db, name: data, message: "the data of PersistentVolumeClaim \"db/data\" is not captured"}
  conditions:
  - {type: CleanupOwed, status: "True", reason: CleanupOverdue, message: thaw failed}
`
	freezeHookRun = `
metadata: {name: nightly-1-pre-freeze, uid: uid-2, labels: {grapnel.dev/backup-name: nightly-1}}
spec: {hook: PreBackup, actionName: example.io/freeze, parentRef: {kind: Backup, name: nightly-1, uid: uid-1}, pluginRef: {name: shop}}
status: {phase: Completed, attempt: 1, duration: 1.02s, message: froze 3 databases, startTimestamp: "2026-01-02T03:00:02Z", completionTimestamp: "2026-01-02T03:00:03Z"}
`
	thawHookRun = `
metadata: {name: nightly-1-post-freeze, uid: uid-3, labels: {grapnel.dev/backup-name: nightly-1}}
spec: {hook: PostBackup, actionName: example.io/freeze, parentRef: {kind: Backup, name: nightly-1, uid: uid-1}, pluginRef: {name: shop}, owed: true}
status:
  phase: InProgress
  attempt: 3
  message: "Attempt 3 failed and will be retried: connection refused"
  startTimestamp: "2026-01-02T03:01:11Z"
  nextCallTimestamp: "2026-01-02T03:01:30Z"
  attempts:
  - {number: 1, startTimestamp: "2026-01-02T03:01:11Z", completionTimestamp: "2026-01-02T03:01:12.5Z", reason: TimedOut, message: did not finish before its deadline}
  - {number: 2, startTimestamp: "2026-01-02T03:01:13Z", completionTimestamp: "2026-01-02T03:01:14Z", reason: ActionFailed, message: connection refused}
  - {number: 3, startTimestamp: "2026-01-02T03:01:18Z", completionTimestamp: "2026-01-02T03:01:19Z", reason: ActionFailed, message: connection refused}
`
	againRestore = `
metadata: {name: again, namespace: grapnel-system, uid: uid-4}
spec: {backupName: nightly-1, dryRun: true}
status:
  phase: Completed
  observedGeneration: 0
  conditions:
  - {type: Reconciling, status: "False", reason: Completed, message: done}
  message: "Objects: 2 would be created, 1 unchanged"
  backupName: nightly-1
  storageLocation: main
  startTimestamp: "2026-01-02T04:00:00Z"
  completionTimestamp: "2026-01-02T04:00:02Z"
  progress: {totalItems: 3, itemsRestored: 3}
  counts: {created: 2, unchanged: 1}
`
	nightlySchedule = `
metadata: {name: nightly}
spec: {schedule: 0 3 * * *, timeZone: Europe/Berlin, template: {spec: {includedNamespaces: ["shop-*"]}}}
status:
  phase: Enabled
  message: The next Backup is due at 2026-01-03T02:00:00Z
  nextScheduleTime: "2026-01-03T02:00:00Z"
  lastScheduleTime: "2026-01-02T02:00:00Z"
  lastBackup: nightly-1
  lastHandledRunRequest: "2026-01-01T10:00:00Z"
  lastRunRequestMessage: Backup nightly-0 is active
`
	mainLocation = `
metadata: {name: main}
spec: {default: true, accessMode: ReadWrite, prefix: clusters/a, s3: {bucket: backups, endpoint: "https://s3.example.com"}}
status: {phase: Unavailable, message: "the bucket does not exist: create it", lastValidationTime: "2026-01-02T03:00:00Z"}
`
	shopPlugin = `
metadata: {name: shop}
spec: {suspend: true}
status:
  conditions:
  - {type: Ready, status: "False", reason: LoadFailed, message: the program exits at once}
`
	resultsContent = `{
  "errors": {"problems": [{"reason": "Forbidden", "resource": "pods", "message": "pods are forbidden\u001b[2J"}]},
  "warnings": {"problems": [{"reason": "DataNotCaptured", "message": "the data of PersistentVolumeClaim \"db/data\" is not captured"}]},
  "objects": {"resources": [{"resource": "pods", "objects": 300, "bytes": 3145728, "seconds": 0.2}]}
}`
	logContent = `time=2026-01-02T03:00:02Z level=INFO msg="Calling the action" hook=PreBackup action=example.io/freeze attempt=1
time=2026-01-02T03:00:03Z level=INFO msg="Archiving objects"
`
)

// newBusyCluster returns a cluster in which much has happened.
func newBusyCluster(t *testing.T) *fakeCluster {
	t.Helper()
	f := newFakeCluster()
	parse := func(kind, text string) object {
		o := object{"apiVersion": v1alpha1.GroupVersion.String(), "kind": kind}
		if err := yaml.Unmarshal([]byte(text), &o); err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		return o
	}
	f.answers[namespacedPath+"/backups/nightly-1"] = parse("Backup", nightlyBackup)
	f.answers[namespacedPath+"/backups"] = newList("Backup", v1alpha1.GroupVersion, parse("Backup", nightlyBackup))
	f.answers[namespacedPath+"/backups/again"] = nil
	f.answers[namespacedPath+"/backups/nightly-2"] = parse("Backup", strings.ReplaceAll(nightlyBackup, "nightly-1", "nightly-2"))
	f.answers[namespacedPath+"/restores/again"] = parse("Restore", againRestore)
	f.created = map[string]string{namespacedPath + "/restores": "again"} // a dry run
	f.answers[namespacedPath+"/hookruns"] = newList("HookRun", v1alpha1.GroupVersion, parse("HookRun", thawHookRun), parse("HookRun", freezeHookRun))
	f.answers[namespacedPath+"/schedules/nightly"] = parse("Schedule", nightlySchedule)
	f.answers[namespacedPath+"/backupstoragelocations/main"] = parse("BackupStorageLocation", mainLocation)
	f.answers[grapnelPath+"/plugins/shop"] = parse("Plugin", shopPlugin)
	f.files = map[string]string{
		"BackupLog/nightly-1":          logContent,
		"BackupResults/nightly-1":      resultsContent,
		"BackupResourceList/nightly-1": `{"v1/Pod": ["db/web-0", "db/web-1\u001b[2J"], "apps/v1/Deployment": ["db/web"]}`,
		"RestoreResourceList/again":    `{"v1/Pod": ["db/web-0(created)", "db/web-1(created)"], "v1/Namespace": ["db(unchanged)"]}`,
		"BackupContents/nightly-1":     newArchive(t, "blue", "settings", "old"),
		"BackupContents/nightly-2":     newArchive(t, "red", "settings", "new"),
	}
	return f
}

// newArchive returns an archive of ConfigMaps with a color.
func newArchive(t *testing.T, color string, names ...string) string {
	t.Helper()
	var content bytes.Buffer
	w, err := archive.NewWriter(&content, archive.WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		item := archive.Item{
			Identity: archive.Identity{Version: "v1", Resource: "configmaps", Preferred: true, Namespace: "shop", Name: name},
			JSON:     fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"shop","name":%q},"data":{"color":"%s\u001b[2J"}}`, name, color),
		}
		if err := w.AddObject(item); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return content.String()
}

// variable matches what differs from run to run: times in the zone of this machine, and ages.
var variable = regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \S+ \([^)]*\)`)

// TestOutput compares what commands print with golden files.
func TestOutput(t *testing.T) {
	for name, tc := range map[string]struct {
		command string
		code    int
	}{
		"backup-describe":   {command: "backup describe nightly-1"},
		"restore-describe":  {command: "restore describe again"},
		"schedule-describe": {command: "schedule describe nightly"},
		"location-describe": {command: "location describe main"},
		"plugin-describe":   {command: "plugin describe shop"},
		"tree":              {command: "tree nightly-1"},
		"logs":              {command: "logs nightly-1"},
		"logs-hooks":        {command: "logs backup/nightly-1 --hooks"},
		"results":           {command: "results nightly-1"},
		"ls":                {command: "ls nightly-1"},
		"ls-json":           {command: "ls nightly-1 -o json"},
		"ls-yaml":           {command: "ls nightly-1 -o yaml"},
		"results-yaml":      {command: "results nightly-1 -o yaml"},
		"find":              {command: "find pod/db/web-0"},
		"cat":               {command: "cat nightly-1 configmap/shop/settings"},
		"diff":              {command: "diff nightly-1 nightly-2", code: exitFailure},
		"diff-cluster":      {command: "diff nightly-1 --cluster", code: exitFailure},
		"plan-restore":      {command: "plan restore nightly-1"},
		"version":           {command: "version"},
		"help":              {command: "--help"},
		"help-backup":       {command: "backup --help"},
		"help-backup-create": {
			command: "backup create --help",
		},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errOut := newBusyCluster(t).run(t, "v1.2.3", strings.Fields(tc.command)...)
			if code != tc.code || errOut != "" {
				t.Errorf("exit code %d, want %d; %s", code, tc.code, errOut)
			}
			if strings.Contains(out, "\x1b") {
				t.Error("there is a control character")
			}
			compareGolden(t, "output-"+name+".txt", variable.ReplaceAllString(out, "TIME (AGE)"))
		})
	}
}

// TestOutput_Many lists a backup of 50,000 objects.
func TestOutput_Many(t *testing.T) {
	const objects = 50_000
	var names []string
	for i := range objects {
		names = append(names, fmt.Sprintf("shop/settings-%05d", i))
	}
	list, err := json.Marshal(map[string][]string{"v1/ConfigMap": names})
	if err != nil {
		t.Fatal(err)
	}
	f := newBusyCluster(t)
	f.files["BackupResourceList/nightly-1"] = string(list)
	code, out, errOut := f.run(t, "v1.2.3", "ls", "nightly-1")
	if code != exitSuccess {
		t.Fatalf("exit code %d: %s", code, errOut)
	}
	if got := strings.Count(out, "\n"); got != objects || !strings.HasSuffix(out, "v1/ConfigMap shop/settings-49999\n") {
		t.Errorf("%d lines, the end is %q", got, out[max(0, len(out)-60):])
	}
}
