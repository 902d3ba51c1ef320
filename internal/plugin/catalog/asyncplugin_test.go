// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/grapnel-dev/grapnel/sdk"
	asyncbackupitemv1 "github.com/grapnel-dev/grapnel/sdk/asyncbackupitemaction/v1"
	asyncrestoreitemv1 "github.com/grapnel-dev/grapnel/sdk/asyncrestoreitemaction/v1"
	backupitemv2 "github.com/grapnel-dev/grapnel/sdk/backupitemaction/v2"
	"github.com/grapnel-dev/grapnel/sdk/item"
	"github.com/grapnel-dev/grapnel/sdk/serve"
)

// asyncAction is the name of all actions of the plugin that starts operations.
const asyncAction = "example.io/jobs"

// serveAsync makes this program a plugin whose actions start operations, with the complete
// SDK. Operations live as long as the process, except those whose ID begins with "kept".
func serveAsync() {
	all := &jobs{cancelled: map[string]bool{}}
	serve.New().
		RegisterBackupItemActionV2(asyncAction, func() (backupitemv2.BackupItemAction, error) { return jobsV2{all}, nil }).
		RegisterAsyncBackupItemActionV1(asyncAction, func() (asyncbackupitemv1.AsyncBackupItemAction, error) { return jobsOfBackup{all}, nil }).
		RegisterAsyncRestoreItemActionV1(asyncAction, func() (asyncrestoreitemv1.AsyncRestoreItemAction, error) { return jobsOfRestore{all}, nil }).
		Serve()
}

// jobs are the started operations. The name of an object selects their outcome.
type jobs struct {
	mu        sync.Mutex
	cancelled map[string]bool
}

func (*jobs) AppliesTo(context.Context) (item.Selector, error) {
	return item.Selector{LabelSelector: "job"}, nil
}

func (j *jobs) start(ctx context.Context, by, object string) string {
	sdk.Logger(ctx).Info("Starting a job", "size", sdk.Parameters(ctx)["size"])
	id := by + " of " + object
	switch object {
	case "crash":
		os.Exit(4)
	case "nothing":
		return ""
	case "long":
		id = strings.Repeat("x", 1<<20)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.cancelled[id] = false
	return id
}

func (j *jobs) progress(id, run string) (*item.Progress, error) {
	if id == "unreachable" {
		return nil, errors.New("the job server is down")
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	cancelled, ok := j.cancelled[id]
	if !ok && !strings.HasPrefix(id, "kept") {
		return nil, item.ErrUnknownOperation
	}
	return &item.Progress{Completed: cancelled, Cancelled: cancelled, NTotal: 7, Description: "for " + run}, nil
}

func (j *jobs) cancel(id string) error {
	if id == "unreachable" {
		return errors.New("the job server is down")
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, ok := j.cancelled[id]; !ok {
		return item.ErrUnknownOperation
	}
	j.cancelled[id] = true
	return nil
}

type jobsV2 struct{ *jobs }

func (j jobsV2) Execute(ctx context.Context, req *item.BackupRequest) (*backupitemv2.Response, error) {
	return &backupitemv2.Response{OperationID: j.start(ctx, "v2", req.Item.GetName())}, nil
}

func (j jobsV2) Progress(_ context.Context, req *backupitemv2.OperationRequest) (*item.Progress, error) {
	return j.progress(req.OperationID, req.Backup.Name)
}

func (j jobsV2) Cancel(_ context.Context, req *backupitemv2.OperationRequest) error {
	return j.cancel(req.OperationID)
}

type jobsOfBackup struct{ *jobs }

func (j jobsOfBackup) Start(ctx context.Context, req *item.BackupRequest) (*asyncbackupitemv1.Started, error) {
	return &asyncbackupitemv1.Started{
		OperationID: j.start(ctx, "backup", req.Item.GetName()), PollInterval: 3 * time.Second,
		PostOperationItems: []item.Ref{{Resource: "pods", Namespace: "shop", Name: "web"}},
	}, nil
}

func (j jobsOfBackup) Progress(_ context.Context, req *asyncbackupitemv1.OperationRequest) (*item.Progress, error) {
	return j.progress(req.OperationID, req.Backup.Name)
}

func (j jobsOfBackup) Cancel(_ context.Context, req *asyncbackupitemv1.OperationRequest) error {
	return j.cancel(req.OperationID)
}

type jobsOfRestore struct{ *jobs }

func (j jobsOfRestore) Start(ctx context.Context, req *item.RestoreRequest) (*asyncrestoreitemv1.Started, error) {
	return &asyncrestoreitemv1.Started{
		OperationID: j.start(ctx, "restore", req.ItemFromBackup.GetName()), PollInterval: 3 * time.Second,
		WaitForAdditionalItems: true,
	}, nil
}

func (j jobsOfRestore) Progress(_ context.Context, req *asyncrestoreitemv1.OperationRequest) (*item.Progress, error) {
	return j.progress(req.OperationID, req.Restore.Name)
}

func (j jobsOfRestore) Cancel(_ context.Context, req *asyncrestoreitemv1.OperationRequest) error {
	return j.cancel(req.OperationID)
}

func (jobsOfRestore) AreAdditionalItemsReady(_ context.Context, req *asyncrestoreitemv1.ReadyRequest) (bool, error) {
	return len(req.AdditionalItems) == 1, nil
}
