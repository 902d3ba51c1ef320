// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package plugintest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/grapnel-dev/grapnel/sdk"
	asyncbackupitemv1 "github.com/grapnel-dev/grapnel/sdk/asyncbackupitemaction/v1"
	asyncrestoreitemv1 "github.com/grapnel-dev/grapnel/sdk/asyncrestoreitemaction/v1"
	backupitemv2 "github.com/grapnel-dev/grapnel/sdk/backupitemaction/v2"
	"github.com/grapnel-dev/grapnel/sdk/item"
	restoreitemv2 "github.com/grapnel-dev/grapnel/sdk/restoreitemaction/v2"
	"github.com/grapnel-dev/grapnel/sdk/serve"
)

// jobs are operations as a plugin author would store them: each start has its own ID.
type jobs struct {
	mu      sync.Mutex
	started int
	// cancelled has every canceled job that was not removed.
	cancelled map[string]bool
}

func (j *jobs) start(of string) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.started++
	id := fmt.Sprintf("%s-%d", of, j.started)
	j.cancelled[id] = false
	return id
}

func (j *jobs) progress(id, run string) (*item.Progress, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	cancelled, ok := j.cancelled[id]
	if !ok {
		return nil, fmt.Errorf("no job %s: %w", id, item.ErrUnknownOperation)
	}
	return &item.Progress{Completed: cancelled, Cancelled: cancelled, NTotal: 5, Description: id + " of " + run}, nil
}

func (j *jobs) cancel(id string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, ok := j.cancelled[id]; !ok {
		return fmt.Errorf("no job %s: %w", id, item.ErrUnknownOperation)
	}
	j.cancelled[id] = true
	return nil
}

type asyncBackup struct {
	pods
	*jobs
}

func (a asyncBackup) Start(ctx context.Context, req *item.BackupRequest) (*asyncbackupitemv1.Started, error) {
	sdk.Logger(ctx).Info("Starting")
	return &asyncbackupitemv1.Started{
		BackupResponse: item.BackupResponse{BackupLabels: map[string]string{"of": req.Backup.Name}},
		OperationID:    a.start(req.Item.GetName()), PollInterval: time.Minute,
		PostOperationItems: []item.Ref{{Resource: "pods", Namespace: "shop", Name: "p"}},
	}, nil
}

func (a asyncBackup) Progress(_ context.Context, req *asyncbackupitemv1.OperationRequest) (*item.Progress, error) {
	return a.progress(req.OperationID, req.Backup.Name)
}

func (a asyncBackup) Cancel(_ context.Context, req *asyncbackupitemv1.OperationRequest) error {
	return a.cancel(req.OperationID)
}

type asyncRestore struct {
	pods
	*jobs
}

func (a asyncRestore) Start(_ context.Context, req *item.RestoreRequest) (*asyncrestoreitemv1.Started, error) {
	return &asyncrestoreitemv1.Started{
		RestoreResponse: item.RestoreResponse{AdditionalItems: []item.Ref{{Resource: "configmaps", Namespace: "shop", Name: "c"}}},
		OperationID:     a.start(req.ItemFromBackup.GetName()), PollInterval: time.Minute,
		WaitForAdditionalItems: true, AdditionalItemsReadyTimeout: time.Hour,
	}, nil
}

func (a asyncRestore) Progress(_ context.Context, req *asyncrestoreitemv1.OperationRequest) (*item.Progress, error) {
	return a.progress(req.OperationID, req.Restore.Name)
}

func (a asyncRestore) Cancel(_ context.Context, req *asyncrestoreitemv1.OperationRequest) error {
	return a.cancel(req.OperationID)
}

func (asyncRestore) AreAdditionalItemsReady(_ context.Context, req *asyncrestoreitemv1.ReadyRequest) (bool, error) {
	if req.AdditionalItems[0].Namespace != "shop-restored" {
		return false, errors.New("called with the namespace of the backup")
	}
	return true, nil
}

func newAsync() *serve.Server {
	all := &jobs{cancelled: map[string]bool{}}
	return serve.New().
		RegisterAsyncBackupItemActionV1(itemName, func() (asyncbackupitemv1.AsyncBackupItemAction, error) {
			return asyncBackup{jobs: all}, nil
		}).
		RegisterAsyncRestoreItemActionV1(itemName, func() (asyncrestoreitemv1.AsyncRestoreItemAction, error) {
			return asyncRestore{jobs: all}, nil
		})
}

func TestAsyncBackupItemActionV1(t *testing.T) {
	t.Parallel()
	p := Start(t, newAsync())
	action, req := p.AsyncBackupItemActionV1(itemName), NewBackupItemRequest(SampleObjects()[0])
	selector, err := action.AppliesTo(t.Context())
	if err != nil || selector.LabelSelector != "app=shop" {
		t.Errorf("the selector is %+v, %v", selector, err)
	}
	started, err := action.Start(WithKey(t.Context(), "run"), req)
	if err != nil {
		t.Fatal(err)
	}
	if started.OperationID != "web-0-1" || started.PollInterval != time.Minute || started.PostOperationItems[0].Name != "p" ||
		started.BackupLabels["of"] != "nightly" || started.Item.GetName() != "web-0" {
		t.Errorf("the answer is %+v", started)
	}
	if lines := p.LogLines("run"); len(lines) != 1 {
		t.Errorf("the log is %q", lines)
	}
	operation := &asyncbackupitemv1.OperationRequest{OperationID: started.OperationID, Backup: req.Backup}
	if got, err := action.Progress(t.Context(), operation); err != nil || got.Completed || got.Cancelled || got.Description != "web-0-1 of nightly" {
		t.Errorf("the progress is %+v, %v", got, err)
	}
	if err := action.Cancel(t.Context(), operation); err != nil {
		t.Errorf("Cancel: %v", err)
	}
	if got, err := action.Progress(t.Context(), operation); err != nil || !got.Completed || !got.Cancelled {
		t.Errorf("the progress after Cancel is %+v, %v", got, err)
	}
}

func TestAsyncRestoreItemActionV1(t *testing.T) {
	t.Parallel()
	p := Start(t, newAsync())
	action, req := p.AsyncRestoreItemActionV1(itemName), NewRestoreItemRequest(SampleObjects()[0])
	started, err := action.Start(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if started.OperationID != "web-0-1" || started.PollInterval != time.Minute || !started.WaitForAdditionalItems ||
		started.AdditionalItemsReadyTimeout != time.Hour || started.SkipRestore || started.Item.GetName() != "web-0" {
		t.Errorf("the answer is %+v", started)
	}
	if err := (asyncRestoreTargetV1{action}).checkItemsReady(t.Context(), started.AdditionalItems); err != nil {
		t.Error(err)
	}
	operation := &asyncrestoreitemv1.OperationRequest{OperationID: started.OperationID, Restore: req.Restore}
	if err := action.Cancel(t.Context(), operation); err != nil {
		t.Errorf("Cancel: %v", err)
	}
	if got, err := action.Progress(t.Context(), operation); err != nil || !got.Cancelled || got.Description != "web-0-1 of nightly-again" {
		t.Errorf("the progress is %+v, %v", got, err)
	}
}

// unknowing is version 2 of actions without any known operations.
type unknowing struct{ backupV2 }

func (unknowing) Progress(context.Context, *backupitemv2.OperationRequest) (*item.Progress, error) {
	return nil, item.ErrUnknownOperation
}

func (unknowing) Cancel(context.Context, *backupitemv2.OperationRequest) error {
	return item.ErrUnknownOperation
}

type unknowingRestore struct{ restoreV2 }

func (unknowingRestore) Progress(context.Context, *restoreitemv2.OperationRequest) (*item.Progress, error) {
	return nil, item.ErrUnknownOperation
}

func (unknowingRestore) Cancel(context.Context, *restoreitemv2.OperationRequest) error {
	return item.ErrUnknownOperation
}

// TestToOperationError_UnknownOperation checks that the test of a plugin author can match the error
// that the action returned.
func TestToOperationError_UnknownOperation(t *testing.T) {
	t.Parallel()
	p := Start(t, newAsync().
		RegisterBackupItemActionV2(itemName, func() (backupitemv2.BackupItemAction, error) { return unknowing{}, nil }).
		RegisterRestoreItemActionV2(itemName, func() (restoreitemv2.RestoreItemAction, error) { return unknowingRestore{}, nil }))
	for kind, versions := range itemTargetFactories() {
		for version, of := range versions {
			target, ok := of(p, itemName).(operationTarget)
			if !ok {
				continue
			}
			for _, id := range []string{"nothing", "", strings.Repeat("x", 1<<20)} {
				_, err := target.getOperationProgress(t.Context(), id)
				for what, err := range map[string]error{"Progress": err, "Cancel": target.cancelOperation(t.Context(), id)} {
					if !errors.Is(err, item.ErrUnknownOperation) || status.Code(err) != codes.NotFound {
						t.Errorf("%s of %s %s with an ID of %d bytes: error is %.300v", what, kind, version, len(id), err)
					}
				}
			}
			if _, err := of(p, "example.io/other").(operationTarget).getOperationProgress(t.Context(), "x"); err == nil || errors.Is(err, item.ErrUnknownOperation) {
				t.Errorf("%s %s of an action that is not there: error is %v", kind, version, err)
			}
		}
	}
}

func TestCheckContract_AsyncItemActions(t *testing.T) {
	t.Parallel()
	CheckContract(t, Start(t, newAsync()), Contract{})
}

// faultyOperations are the operations of an action with faults.
type faultyOperations struct {
	// answers are the results of Progress in order; the last one repeats.
	answers []*item.Progress
	// unknown is the error for an unknown operation; cancels are the errors of each Cancel.
	unknown, unknownCancel error
	cancels                []error
	asked, cancelled       int
}

func (f *faultyOperations) getOperationProgress(_ context.Context, id string) (*item.Progress, error) {
	if id == unknownOperation {
		return &item.Progress{}, f.unknown
	}
	f.asked++
	answer := f.answers[min(f.asked, len(f.answers))-1]
	if answer == nil {
		return nil, errors.New("cannot say")
	}
	return answer, nil
}

func (f *faultyOperations) cancelOperation(_ context.Context, id string) error {
	if id == unknownOperation {
		return f.unknownCancel
	}
	f.cancelled++
	if f.cancelled > len(f.cancels) {
		return nil
	}
	return f.cancels[f.cancelled-1]
}

// faultyAsync are faultyOperations of an asynchronous action.
type faultyAsync struct{ *faultyOperations }

func (faultyAsync) isAsyncTarget() {}

func TestOperationProblems(t *testing.T) {
	t.Parallel()
	running, done := &item.Progress{}, &item.Progress{Completed: true}
	for name, tc := range map[string]struct {
		id      string
		answers []*item.Progress
		cancels []error
		want    string // of an asynchronous action
		wantV2  string
	}{
		"runs":                               {answers: []*item.Progress{running}},
		"is done":                            {answers: []*item.Progress{done}},
		"becomes done":                       {answers: []*item.Progress{running, done}},
		"is cancelled":                       {answers: []*item.Progress{running, running, {Completed: true, Cancelled: true}}},
		"longest ID":                         {id: strings.Repeat("x", 1024), answers: []*item.Progress{done}},
		"ID that is too long":                {id: strings.Repeat("x", 1025), want: "has 1025 bytes, at most 1024", wantV2: "has 1025 bytes, at most 1024"},
		"unknown":                            {answers: []*item.Progress{nil}, want: "failed at first: cannot say", wantV2: "failed at first: cannot say"},
		"unknown soon":                       {answers: []*item.Progress{done, nil}, want: "failed on the second call: cannot say"},
		"unknown then":                       {answers: []*item.Progress{running, running, nil}, want: "failed after Cancel: cannot say"},
		"completed, then not completed":      {answers: []*item.Progress{done, running}, want: "is not completed on the second call: it must stay completed"},
		"runs on":                            {answers: []*item.Progress{running, done, running}, want: "is not completed after Cancel: it must stay completed"},
		"failed and not completed":           {answers: []*item.Progress{{Err: "disk full"}}, want: `has the error "disk full" and is not completed`},
		"cancelled and not completed":        {answers: []*item.Progress{{Cancelled: true}}, want: "is cancelled and not completed"},
		"refuses to cancel":                  {answers: []*item.Progress{done}, cancels: []error{errors.New("too late")}, want: "Cancel of an operation that was started failed: too late", wantV2: "too late"},
		"cancels only once":                  {answers: []*item.Progress{done}, cancels: []error{nil, errors.New("gone")}, want: "A second Cancel of an operation that was started failed: gone"},
		"forgets the operation after Cancel": {answers: []*item.Progress{done}, cancels: []error{nil, item.ErrUnknownOperation}, want: "A second Cancel"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id := tc.id
			if id == "" {
				id = "op"
			}
			problems := operationProblems(t.Context(), faultyAsync{&faultyOperations{answers: tc.answers, cancels: tc.cancels}}, id)
			wantProblem(t, problems, tc.want)
			if len(problems) > 1 {
				t.Errorf("one fault is reported several times: %q", problems)
			}
			wantProblem(t, operationProblems(t.Context(), &faultyOperations{answers: tc.answers, cancels: tc.cancels}, id), tc.wantV2)
		})
	}
}

func TestUnknownOperationProblems(t *testing.T) {
	t.Parallel()
	other, crashed := errors.New("cannot say"), status.Error(codes.Aborted, "plugin panicked")
	for name, tc := range map[string]struct {
		unknown, cancel error
		want, wantV2    string
	}{
		"unknown operation":       {unknown: item.ErrUnknownOperation, cancel: item.ErrUnknownOperation},
		"nothing to cancel":       {unknown: item.ErrUnknownOperation},
		"has a progress":          {want: "Progress of an operation that was never started"},
		"another error":           {unknown: other, want: "returned the error cannot say, which does not match item.ErrUnknownOperation"},
		"another error of Cancel": {unknown: item.ErrUnknownOperation, cancel: other, want: "Cancel of an operation that was never started"},
		"a panic":                 {unknown: item.ErrUnknownOperation, cancel: crashed, want: "plugin panicked", wantV2: "Cancel: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			faulty := &faultyOperations{unknown: tc.unknown, unknownCancel: tc.cancel}
			wantProblem(t, unknownOperationProblems(t.Context(), faultyAsync{faulty}), tc.want)
			wantProblem(t, unknownOperationProblems(t.Context(), faulty), tc.wantV2)
		})
	}
}
