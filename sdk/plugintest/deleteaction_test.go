// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package plugintest

import (
	"context"
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/grapnel-dev/grapnel/sdk"
	deletev1 "github.com/grapnel-dev/grapnel/sdk/deleteaction/v1"
	"github.com/grapnel-dev/grapnel/sdk/hook"
	prebackupv1 "github.com/grapnel-dev/grapnel/sdk/prebackupaction/v1"
	"github.com/grapnel-dev/grapnel/sdk/serve"
)

// deletion is a DeleteAction.
type deletion struct {
	selects func(ctx context.Context) (deletev1.Selector, error)
	execute func(ctx context.Context, req *deletev1.DeleteRequest) error
}

func (d deletion) AppliesTo(ctx context.Context) (deletev1.Selector, error) {
	if d.selects == nil {
		return deletev1.Selector{LabelSelector: "app=" + sdk.Parameters(ctx)["app"]}, nil
	}
	return d.selects(ctx)
}

func (d deletion) Execute(ctx context.Context, req *deletev1.DeleteRequest) error {
	return d.execute(ctx, req)
}

// preOutput is a PreBackup action that returns the name of an external resource as an
// output.
type preOutput struct{}

func (preOutput) Execute(_ context.Context, req *hook.Request) (*hook.Response, error) {
	return hook.Done().WithOutput("snapshot", "snap-of-"+req.Backup.UID), nil
}

func startDeletion(t *testing.T, d deletion) *Plugin {
	t.Helper()
	return Start(t, serve.New().
		RegisterDeleteActionV1(itemName, func() (deletev1.DeleteAction, error) { return d, nil }).
		RegisterPreBackupActionV1(itemName, func() (prebackupv1.PreBackupAction, error) { return preOutput{}, nil }))
}

func TestDeleteActionV1(t *testing.T) {
	t.Parallel()
	var got *deletev1.DeleteRequest
	p := startDeletion(t, deletion{execute: func(ctx context.Context, req *deletev1.DeleteRequest) error {
		sdk.Logger(ctx).Info("Removing")
		got = req
		return nil
	}})
	action := p.DeleteActionV1(itemName)
	selector, err := action.AppliesTo(WithParameters(t.Context(), map[string]string{"app": "shop"}))
	if err != nil || selector.LabelSelector != "app=shop" {
		t.Errorf("the selector is %+v, %v", selector, err)
	}
	req := NewDeleteRequest()
	req.IdempotencyKey, req.Attempt, req.Parameters["p"] = "run", 3, "ü"
	req.BackupOutputs["x.io/a"] = map[string]string{"id": "1"}
	if err := action.Execute(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	if got.Action != itemName || got.IdempotencyKey != "run" || got.Attempt != 3 || got.Parameters["p"] != "ü" ||
		got.BackupOutputs["x.io/a"]["id"] != "1" || got.Backup.UID != NewRequest().Backup.UID || got.Backup.Labels["app"] != "shop" {
		t.Errorf("it got %+v", got)
	}
	if req.Action != "" {
		t.Error("the request of the test was changed")
	}
	if lines := p.LogLines("run"); len(lines) != 1 || !strings.Contains(lines[0], "Removing") {
		t.Errorf("the log is %q", lines)
	}
	if err := p.DeleteActionV1("example.io/other").Execute(t.Context(), req); status.Code(err) != codes.Unimplemented {
		t.Errorf("error of a missing action is %v", err)
	}
}

// TestCheckContract_DeleteAction checks the calls that the check makes.
func TestCheckContract_DeleteAction(t *testing.T) {
	t.Parallel()
	type call struct {
		key       string
		attempt   int32
		withNames bool
	}
	seen := make(chan call, 100)
	CheckContract(t, startDeletion(t, deletion{execute: func(_ context.Context, req *deletev1.DeleteRequest) error {
		if req.Parameters["app"] != "shop" {
			return errors.New("the request is not the author's request")
		}
		kept := req.BackupOutputs[itemName]["snapshot"] == "snap-of-"+req.Backup.UID
		seen <- call{key: req.IdempotencyKey, attempt: req.Attempt, withNames: kept}
		return nil
	}}), Contract{Delete: func(action Action) *deletev1.DeleteRequest {
		if action.Name != itemName || action.Kind != sdk.KindDeleteAction {
			t.Errorf("asked for a request for %v", action)
		}
		req := NewDeleteRequest()
		req.Parameters["app"] = "shop"
		return req
	}})
	close(seen)
	got := map[call]bool{}
	for c := range seen {
		got[c] = true
	}
	for _, want := range []call{
		{"contract-first", 1, true},
		{"contract-first", 2, true},
		{"contract-second", 1, true},
		{"contract-no-outputs", 1, false},
		{"contract-parallel-3", 1, true},
		{"contract-short", 1, true},
	} {
		if !got[want] {
			t.Errorf("the check did not make the call %+v", want)
		}
	}
}

func TestDeletionProblems(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		selectors []string
		failures  map[int]string // by call number
		want      []string
	}{
		"none":                                {selectors: []string{"app=shop"}},
		"every Backup":                        {selectors: []string{""}},
		"invalid selector":                    {selectors: []string{"a=b=c"}, want: []string{"AppliesTo failed: ", "the label selector cannot be read"}},
		"invalid selector on the second call": {selectors: []string{"a=b", "a=b=c"}, want: []string{"AppliesTo failed on the second call: "}},
		"changed selector":                    {selectors: []string{"n=1", "n=2"}, want: []string{`AppliesTo returned "n=1" first and "n=2" on the second call`}},
		"fails":                               {failures: map[int]string{1: "locked"}, want: []string{"succeeds: Execute failed: ", "locked"}},
		"fails if already deleted":            {failures: map[int]string{2: "no such snapshot"}, want: []string{"succeeds when nothing is left: ", "no such snapshot (missing data"}},
		"fails in another deletion":           {failures: map[int]string{3: "done already"}, want: []string{"succeeds in another deletion: "}},
		"needs its outputs":                   {failures: map[int]string{4: "no output id"}, want: []string{"succeeds without outputs: "}},
		"panics":                              {failures: map[int]string{4: "panic"}, want: []string{"succeeds without outputs: ", "plugin panicked: nil map"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked, called := 0, 0
			p := startDeletion(t, deletion{
				selects: func(context.Context) (deletev1.Selector, error) {
					asked++
					if len(tc.selectors) == 0 {
						return deletev1.Selector{}, nil
					}
					return deletev1.Selector{LabelSelector: tc.selectors[min(asked, len(tc.selectors))-1]}, nil
				},
				execute: func(context.Context, *deletev1.DeleteRequest) error {
					called++
					if failure := tc.failures[called]; failure == "panic" {
						panic("nil map")
					} else if failure != "" {
						return errors.New(failure)
					}
					return nil
				},
			})
			check := &deleteCheck{target: p.DeleteActionV1(itemName)}
			problems := backupSelectorProblems(t.Context(), check.target)
			for _, attempt := range check.executeAttempts() {
				for _, problem := range deletionProblems(t.Context(), check.target, attempt.req) {
					problems = append(problems, attempt.name+": "+problem)
				}
			}
			if len(problems) > 1 || len(problems) == 0 && len(tc.want) > 0 {
				t.Errorf("problems are %q, want one with %q", problems, tc.want)
			}
			for _, want := range tc.want {
				wantProblem(t, problems, want)
			}
			if len(tc.want) == 0 {
				wantProblem(t, problems, "")
			}
		})
	}
}
