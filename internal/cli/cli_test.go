// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/timeline"
)

// runOffline runs a command line that needs no cluster.
func runOffline(t *testing.T, args ...string) (code int, out, errOut string) {
	t.Helper()
	t.Setenv("KUBECONFIG", "/dev/null")
	var stdout, stderr bytes.Buffer
	streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: &stdout, ErrOut: &stderr}
	code = Run(t.Context(), streams, "test", append([]string{"--server", "https://127.0.0.1:1"}, args...))
	return code, stdout.String(), stderr.String()
}

// TestCreate_YAML compares the objects that flags describe. Velero's flags mean the same here.
func TestCreate_YAML(t *testing.T) {
	for name, tc := range map[string]struct {
		command string
		want    string
	}{
		"a Backup": {
			command: "backup create shop --include-namespaces shop-*,db --exclude-resources events,pods --selector app=shop --ttl 720h " +
				"--storage-location main --labels quiesce=yes --include-cluster-resources=false --ordered-resources pods=db/a,db/b;configmaps=db/c " +
				"--parameter example.io/freeze:timeout=30s --parameter example.io/freeze:mode=hard",
			want: `apiVersion: grapnel.dev/v1alpha1
kind: Backup
metadata:
  labels:
    quiesce: "yes"
  name: shop
  namespace: grapnel-system
spec:
  excludedResources:
  - events
  - pods
  includeClusterResources: false
  includedNamespaces:
  - shop-*
  - db
  labelSelector:
    matchLabels:
      app: shop
  orderedResources:
    configmaps: db/c
    pods: db/a,db/b
  parameters:
    example.io/freeze:
      mode: hard
      timeout: 30s
  storageLocation: main
  ttl: 720h0m0s
`,
		},
		"a Restore": {
			command: "restore create again --from-backup shop --namespace-mappings shop=copy --existing-resource-policy update --preserve-nodeports " +
				"--status-include-resources workflows --resource-modifier-configmap rules",
			want: `apiVersion: grapnel.dev/v1alpha1
kind: Restore
metadata:
  name: again
  namespace: grapnel-system
spec:
  backupName: shop
  existingResourcePolicy: update
  namespaceMapping:
    shop: copy
  preserveNodePorts: true
  resourceModifier:
    name: rules
  restoreStatus:
    includedResources:
    - workflows
`,
		},
		"a Schedule": {
			command: "schedule create nightly --schedule @daily --time-zone Europe/Berlin --paused --backup-labels tier=gold --include-namespaces shop --ttl 24h",
			want: `apiVersion: grapnel.dev/v1alpha1
kind: Schedule
metadata:
  name: nightly
  namespace: grapnel-system
spec:
  schedule: '@daily'
  suspend: true
  template:
    metadata:
      labels:
        tier: gold
    spec:
      includedNamespaces:
      - shop
      ttl: 24h0m0s
  timeZone: Europe/Berlin
`,
		},
		"a location of a plugin": {
			command: "location create azure --provider velero.io/azure --bucket backups --config resourceGroup=rg --credential cloud=creds --default",
			want: `apiVersion: grapnel.dev/v1alpha1
kind: BackupStorageLocation
metadata:
  name: azure
  namespace: grapnel-system
spec:
  default: true
  plugin:
    bucket: backups
    config:
      resourceGroup: rg
    credential:
      key: creds
      name: cloud
    provider: velero.io/azure
`,
		},
		"a Plugin": {
			command: "plugin create freeze --command init/freeze --arg --verbose",
			want: `apiVersion: grapnel.dev/v1alpha1
kind: Plugin
metadata:
  name: freeze
spec:
  executor:
    process:
      args:
      - --verbose
      command: init/freeze
`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errOut := runOffline(t, append(strings.Fields(tc.command), "-o", "yaml")...)
			if diff := cmp.Diff(tc.want, out); diff != "" || code != exitSuccess {
				t.Errorf("exit code %d, %s\n(-want +got):\n%s", code, errOut, diff)
			}
		})
	}
}

// TestRun_BadInput: bad input gets an error that says what to do, before anything is sent.
func TestRun_BadInput(t *testing.T) {
	for name, tc := range map[string]struct{ command, want string }{
		"no name":               {"backup create", "name the Backup, or use --from-schedule"},
		"a duration in days":    {"backup create x --ttl 30d", `"30d" is not a duration; write for example 720h or 90m`},
		"a parameter":           {"backup create x --parameter freeze", `"freeze" is not ACTION:KEY=VALUE`},
		"an empty namespace":    {"backup create x --include-namespaces a,,b", "there is an empty name"},
		"a selector":            {"backup create x --selector a=b=c -o yaml", "--selector: "},
		"ordered resources":     {"backup create x --ordered-resources pods -o yaml", `--ordered-resources: "pods" is not RESOURCE=NAME,NAME`},
		"nothing to restore":    {"restore create", "set either --from-backup or --from-schedule"},
		"two things":            {"restore create --from-backup a --from-schedule b", "set either --from-backup or --from-schedule"},
		"no provider":           {"location create x", "set --provider to filesystem, s3"},
		"no certificates":       {"location create x --provider s3 --cacert /no/such/file", "--cacert: "},
		"a credential":          {"location create x --provider velero.io/azure --credential cloud", `"cloud" is not SECRET=KEY`},
		"no program":            {"plugin create x", "set either --command or --address"},
		"an object":             {"find secret", `"secret" is not an object`},
		"an output format":      {"backup create x -o xml", `unknown output format "xml"; use json or yaml`},
		"a picture format":      {"timeline x -o png", `unknown output format "png"; use term, svg or html`},
		"an unknown command":    {"bakcup get", "unknown command"},
		"an unknown verb":       {"backup delte x", `unknown command "delte"; run kubectl grapnel backup --help`},
		"a verb of Velero":      {"restore logs x", `unknown command "logs"`},
		"two sources":           {"backup create --from-schedule x --ttl 24h", "remove --ttl"},
		"two sources of a plan": {"plan backup --from-schedule x --selector a=b", "remove --selector"},
		"a format of ls":        {"ls x -o wide", `unknown output format "wide"; use table, json or yaml`},
		"too many arguments":    {"logs a b", "accepts 1 arg(s), received 2"},
		"a run of what kind":    {"logs pod/x", `"pod/x" is neither backup/NAME nor restore/NAME`},
		"no API server":         {"backup get", "cannot be reached"},
		"no schedule":           {"schedule create x", `required flag(s) "schedule" not set`},
		"no reason":             {"hook retry x", `required flag(s) "reason" not set`},
		"an empty reason":       {"hook skip x --reason=", "--reason is empty"},
		"too long a reason":     {"hook skip x --reason " + strings.Repeat("ä", 257), "--reason has 257 characters; the limit is 256"},
		"an unknown flag":       {"backup create x --snapshot-volumes", "unknown flag: --snapshot-volumes"},
		"a confirmation, none":  {"restore delete x", "cannot be reached"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errOut := runOffline(t, strings.Fields(tc.command)...)
			if code != exitFailure || !strings.Contains(errOut, tc.want) || out != "" {
				t.Errorf("exit code %d, %q, %q; want 1 and %q", code, out, errOut, tc.want)
			}
		})
	}
}

func TestMissingError(t *testing.T) {
	for name, tc := range map[string]struct {
		name  string
		names []string
		want  string
	}{
		"a typing error":  {"nightli", []string{"weekly", "nightly", "shop"}, `there is no Backup "nightli" in namespace ns; did you mean nightly?`},
		"a part":          {"nightly", []string{"nightly-20260102", "nightly-20260101", "other"}, `there is no Backup "nightly" in namespace ns; did you mean nightly-20260101, nightly-20260102?`},
		"nothing similar": {"nightly", []string{"shop"}, `there is no Backup "nightly" in namespace ns`},
		"nothing at all":  {"nightly", nil, `there is no Backup "nightly" in namespace ns, and no other one; is it the right namespace and context?`},
		"many":            {"a", []string{"a1", "a2", "a3", "a4"}, `there is no Backup "a" in namespace ns; did you mean a1, a2, a3?`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := missingError("Backup", "ns", tc.name, tc.names).Error(); got != tc.want {
				t.Errorf("%s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestObjectReference_IsIn(t *testing.T) {
	list := resourceList{
		"v1/Pod": {"shop/web-0"}, "apps/v1/Deployment": {"shop/web"}, "v1/Namespace": {"shop"},
		"networking.k8s.io/v1/NetworkPolicy": {"shop/deny"}, "networking.k8s.io/v1/Ingress": {"shop/front"},
	}
	for argument, want := range map[string]bool{
		"pod/shop/web-0": true, "Pod/shop/web-0": true, "pods/shop/web-0": true, "pod/web-0": false, "pod/other/web-0": false,
		"deployment/shop/web": true, "deployments.apps/shop/web": true, "deployments.batch/shop/web": false, "namespace/shop": true,
		"networkpolicies/shop/deny": true, "ingresses/shop/front": true, "ingress/shop/front": true, "statefulset/shop/web": false,
	} {
		t.Run(argument, func(t *testing.T) {
			ref, err := parseObjectReference(argument)
			if got := err == nil && ref.isIn(list); got != want {
				t.Errorf("%v (%v), want %v", got, err, want)
			}
		})
	}
}

func TestTerminal_CopyText(t *testing.T) {
	var out bytes.Buffer
	if err := newTerminal(&out).copyText(strings.NewReader("a\x1b[31mb\u202ec\n")); err != nil || out.String() != "a[31mbc\n" {
		t.Errorf("%q (%v)", out.String(), err)
	}
}

func TestTruncateToWidth(t *testing.T) {
	for text, want := range map[string]string{"short": "short", "exactly 10": "exactly 1", "longer than it": "longer th", "äöüäöüäöüäöü": "äöüäöüäöü"} {
		if got := truncateToWidth(text, 10); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := truncateToWidth("any", 0); got != "any" {
		t.Errorf("without a width: %q", got)
	}
}

func TestProgressText(t *testing.T) {
	start := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local))
	b := &v1alpha1.Backup{}
	if got, want := progressText(b), notSeenText; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	b.Status.Phase, b.Status.Message, b.Status.StartTimestamp = v1alpha1.RunPhaseInProgress, "Archiving", &start
	b.Status.Progress = &v1alpha1.BackupProgress{TotalItems: 50, ItemsBackedUp: 20}
	b.Status.Operations = &v1alpha1.OperationCounts{Attempted: 2, Percent: 40}
	if got, want := progressText(b), "InProgress, Archiving, 20 of 50 objects, operations 40 %, since 03:04:05"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestReportOutcome_CleanupOwed: a run whose clean-up is overdue has ended, and is no success.
func TestReportOutcome_CleanupOwed(t *testing.T) {
	var out bytes.Buffer
	a := &app{out: newTerminal(&out)}
	b := &v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Name: "b"}}
	b.Status.Phase = v1alpha1.RunPhaseCompleted
	for status, want := range map[metav1.ConditionStatus]string{metav1.ConditionTrue: "clean-up is owed: thaw failed", metav1.ConditionFalse: ""} {
		b.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionCleanupOwed, Status: status, Message: "thaw failed"}}
		got := ""
		if err := a.reportOutcome(backups, b); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: error %q, want %q", status, got, want)
		}
		// A command that waits for a canceled run must not hide it either.
		if err := ignoreCanceled(a.reportOutcome(backups, b)); (err != nil) != (want != "") {
			t.Errorf("%s: after a cancellation: %v", status, err)
		}
	}
}

func TestReportOutcome(t *testing.T) {
	for phase, want := range map[v1alpha1.RunPhase]int{
		v1alpha1.RunPhaseCompleted: exitSuccess, v1alpha1.RunPhasePartiallyFailed: exitPartialFailure,
		v1alpha1.RunPhaseFailed: exitFailure, v1alpha1.RunPhaseCancelled: exitFailure, v1alpha1.RunPhaseFailedValidation: exitFailure,
	} {
		t.Run(string(phase), func(t *testing.T) {
			var out bytes.Buffer
			a := &app{out: newTerminal(&out)}
			b := &v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Name: "b"}}
			b.Status.Phase, b.Status.Message, b.Status.Errors = phase, "what happened", 3
			b.Status.Problems = []v1alpha1.Problem{{Severity: v1alpha1.ProblemSeverityError, Reason: "Forbidden", Message: "pods a/b:\x1b[2J no"}}
			code := exitSuccess
			if exit, ok := a.reportOutcome(backups, b).(*exitError); ok { //nolint:errorlint // it is not wrapped
				code = exit.code
			}
			wantText := "Backup b: " + string(phase) + " (what happened)\n  Error Forbidden: pods a/b:[2J no\n  and 2 more: kubectl grapnel results backup/b\n"
			if code != want || out.String() != wantText {
				t.Errorf("exit code %d, want %d\n%q, want\n%q", code, want, out.String(), wantText)
			}
		})
	}
}

// TestPrintHooks: a hook has its interventions, and what to do about a failed one.
func TestPrintHooks(t *testing.T) {
	at := metav1.NewTime(time.Now().Add(-90 * time.Second))
	handled := func(what v1alpha1.HookInterventionType, outcome v1alpha1.HookInterventionOutcome, message string) *v1alpha1.HandledHookIntervention {
		return &v1alpha1.HandledHookIntervention{Type: what, Outcome: outcome, Message: message, HandledTimestamp: at}
	}
	for name, tc := range map[string]struct {
		owed   bool
		status v1alpha1.HookRunStatus
		want   string // %s is the time of the intervention
	}{
		"completed": {
			status: v1alpha1.HookRunStatus{Phase: v1alpha1.HookRunPhaseCompleted, StartTimestamp: &at, CompletionTimestamp: &at, Message: "Done"},
			want:   "  PostBackup   example.io/thaw: Completed (Done)\n",
		},
		"failed": {
			status: v1alpha1.HookRunStatus{Phase: v1alpha1.HookRunPhaseFailed, StartTimestamp: &at, CompletionTimestamp: &at, Message: "it is down"},
			want: "  PostBackup   example.io/thaw: Failed (it is down)\n" +
				"    To retry it now: kubectl grapnel hook retry nightly-post-0 --reason TEXT\n",
		},
		"owed, and failing": {
			owed: true,
			status: v1alpha1.HookRunStatus{
				Phase: v1alpha1.HookRunPhaseInProgress, StartTimestamp: &at, NextCallTimestamp: &at, Attempt: 7, Message: "Attempt 7 failed",
			},
			want: "  PostBackup   example.io/thaw: InProgress, attempt 7 (Attempt 7 failed)\n" +
				"    To retry it now: kubectl grapnel hook retry nightly-post-0 --reason TEXT\n" +
				"    To abandon it: kubectl grapnel hook skip nightly-post-0 --reason TEXT\n",
		},
		"retried": {
			status: v1alpha1.HookRunStatus{
				Phase: v1alpha1.HookRunPhaseInProgress, StartTimestamp: &at, Attempt: 2, Message: "Running attempt 2",
				LastIntervention: handled(v1alpha1.HookInterventionRetry, v1alpha1.HookInterventionAccepted, "Retried by jane: \x1b[2Jit is up"),
			},
			want: "  PostBackup   example.io/thaw: InProgress, attempt 2 (Running attempt 2)\n    Retried by jane: [2Jit is up, %s\n",
		},
		"skipped": {
			status: v1alpha1.HookRunStatus{
				Phase: v1alpha1.HookRunPhaseSkipped, CompletionTimestamp: &at, Message: "Skipped by jane: not needed",
				LastIntervention: handled(v1alpha1.HookInterventionSkip, v1alpha1.HookInterventionAccepted, "Skipped by jane: not needed"),
				Conditions:       []metav1.Condition{{Type: v1alpha1.ConditionSucceeded, Reason: v1alpha1.ReasonSkippedByUser}},
			},
			want: "  PostBackup   example.io/thaw: Skipped (Skipped by jane: not needed)\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			d := &description{out: newTerminal(&out)}
			h := v1alpha1.HookRun{ObjectMeta: metav1.ObjectMeta{Name: "nightly-post-0"}, Status: tc.status}
			h.Spec.Hook, h.Spec.ActionName, h.Spec.DesiredState = v1alpha1.HookPostBackup, "example.io/thaw", v1alpha1.HookDesiredStateRun
			h.Spec.Owed = tc.owed
			d.printHooks([]v1alpha1.HookRun{h})
			want := "\nHooks\n" + strings.ReplaceAll(tc.want, "%s", describeTime(&at))
			if diff := cmp.Diff(want, out.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestPrintIntervention(t *testing.T) {
	for name, tc := range map[string]struct {
		outcome           v1alpha1.HookInterventionOutcome
		wantOut, wantText string
	}{
		"accepted": {outcome: v1alpha1.HookInterventionAccepted, wantOut: "HookRun h: InProgress (Running attempt 2)\n"},
		"refused":  {outcome: v1alpha1.HookInterventionRefused, wantText: "Retry refused: it is running"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			a := &app{out: newTerminal(&out)}
			h := &v1alpha1.HookRun{ObjectMeta: metav1.ObjectMeta{Name: "h"}}
			h.Status.Phase, h.Status.Message = v1alpha1.HookRunPhaseInProgress, "Running attempt 2"
			h.Status.LastIntervention = &v1alpha1.HandledHookIntervention{Outcome: tc.outcome, Message: "Retry refused: it is running"}
			text := ""
			if err := a.printIntervention(h); err != nil {
				text = err.Error()
			}
			if out.String() != tc.wantOut || text != tc.wantText {
				t.Errorf("%q and the error %q, want %q and %q", out.String(), text, tc.wantOut, tc.wantText)
			}
		})
	}
}

func TestTree(t *testing.T) {
	minute := func(n int) v1alpha1.MicroTime {
		return v1alpha1.NewMicroTime(time.Date(2026, 1, 2, 3, n, 0, 0, time.UTC))
	}
	end := minute(2)
	h := &v1alpha1.HookRun{Spec: v1alpha1.HookRunSpec{Hook: v1alpha1.HookPreBackup, ActionName: "freeze"}}
	h.Status.Phase, h.Status.Duration = v1alpha1.HookRunPhaseInProgress, "2m0s"
	h.Status.Attempts = []v1alpha1.HookAttempt{
		{Number: 1, StartTimestamp: minute(0), CompletionTimestamp: &end, Reason: v1alpha1.ReasonTimedOut, Message: "too\x1b[2J late"},
		{Number: 2, StartTimestamp: minute(2), CompletionTimestamp: &end},
		{Number: 3, StartTimestamp: minute(3)},
	}
	operations := make([]v1alpha1.AsyncOperation, 50)
	for i := range operations {
		operations[i].Spec.ActionName = "move"
		operations[i].Status.Phase = v1alpha1.AsyncOperationPhaseCompleted
	}
	operations[7].Status.Phase, operations[9].Status.Phase, operations[11].Spec.ActionName = v1alpha1.AsyncOperationPhaseFailed, "", "copy"
	root := &treeNode{text: "Backup b", children: append([]*treeNode{newHookNode(h)}, newOperationNodes(operations)...)}
	var out bytes.Buffer
	if err := root.print(newTerminal(&out), "", ""); err != nil {
		t.Fatal(err)
	}
	want := `Backup b
├── PreBackup freeze: InProgress, 2m0s
│   ├── attempt 1: TimedOut, 2m00s (too[2J late)
│   ├── attempt 2: Succeeded, 0s
│   └── attempt 3: running
├── operations of copy: 1 × Completed
└── operations of move: 47 × Completed, 1 × Failed, 1 × New
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestPrintTimeline checks what needs no terminal: the width, and no colors.
func TestPrintTimeline(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	end := v1alpha1.NewMicroTime(start.Add(time.Minute))
	b := &v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Name: "b"}}
	b.Status.Phase = v1alpha1.RunPhaseCompleted
	b.Status.Timeline = []v1alpha1.RunStage{{Name: "Archiving\x1b[2J", StartTimestamp: v1alpha1.NewMicroTime(start), CompletionTimestamp: &end}}
	built := timeline.Build("Backup", b, nil, nil, start)
	for format, want := range map[string]string{
		outputTerm: "Backup b: Completed\n2026-01-02 03:04:05 UTC, took 1m00s\n\nStages         ┊0",
		outputSVG:  "<svg xmlns=", outputHTML: "<!DOCTYPE html>",
	} {
		t.Run(format, func(t *testing.T) {
			var out bytes.Buffer
			a := &app{out: newTerminal(&out)}
			if err := a.printTimeline(&built, outputFlag{format: format}); err != nil {
				t.Fatal(err)
			}
			if got := out.String(); !strings.HasPrefix(got, want) || strings.Contains(got, "\x1b") {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}
