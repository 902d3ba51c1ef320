// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Command operations is a plugin whose action starts an operation on every ConfigMap of
// one namespace. They continue until they are canceled, and each time the operator asks
// they are a little further. It writes down when it was asked (package polls).
//
// It is started many times, as the plugins of a cluster would be. Variables of its
// environment say which one it is:
//
//	BENCH_ACTION     the name of its action
//	BENCH_NAMESPACE  the namespace whose ConfigMaps concern it
//	BENCH_CALLS      the file for the calls that it gets
//	BENCH_HANGS      "yes": it does not answer how far an operation is until that is canceled
package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	asyncbackupitemv1 "github.com/grapnel-dev/grapnel/sdk/asyncbackupitemaction/v1"
	"github.com/grapnel-dev/grapnel/sdk/item"
	"github.com/grapnel-dev/grapnel/sdk/serve"
	"github.com/grapnel-dev/grapnel/test/perf/polls"
)

const (
	// total bytes of an operation, and how many are done between two questions: one
	// percent, so that nothing ends while it is measured.
	total = 1 << 30
	step  = total / 100
)

// action starts operations. It is safe for concurrent use.
type action struct {
	namespace string
	hangs     bool
	calls     *polls.Log

	started    atomic.Int64
	operations sync.Map // of *operation by ID
}

// operation is one that continues.
type operation struct {
	began     time.Time
	polls     atomic.Int64
	cancel    func()
	cancelled <-chan struct{}
}

func (a *action) AppliesTo(context.Context) (item.Selector, error) {
	return item.Selector{IncludedNamespaces: []string{a.namespace}, IncludedResources: []string{"configmaps"}}, nil
}

func (a *action) Start(_ context.Context, req *item.BackupRequest) (*asyncbackupitemv1.Started, error) {
	now := time.Now()
	id := fmt.Sprintf("%s-%d", req.Item.GetName(), a.started.Add(1))
	cancelled := make(chan struct{})
	a.operations.Store(id, &operation{
		began: now, cancelled: cancelled, cancel: sync.OnceFunc(func() { close(cancelled) }),
	})
	return &asyncbackupitemv1.Started{OperationID: id}, a.calls.Add(polls.Event{Call: polls.Start, Operation: id, At: now})
}

func (a *action) Progress(_ context.Context, req *asyncbackupitemv1.OperationRequest) (*item.Progress, error) {
	now := time.Now()
	o, err := a.called(polls.Progress, req.OperationID, now)
	if err != nil {
		return nil, err
	}
	if a.hangs {
		<-o.cancelled // and not until the end of the call: what hangs does not notice that
	}
	progress := &item.Progress{
		NCompleted: min(o.polls.Add(1)*step, total-1), NTotal: total, OperationUnits: "Bytes",
		Description: "Moving data", Started: o.began, Updated: now,
	}
	select {
	case <-o.cancelled:
		progress.Completed, progress.Cancelled = true, true
	default:
	}
	return progress, nil
}

func (a *action) Cancel(_ context.Context, req *asyncbackupitemv1.OperationRequest) error {
	o, err := a.called(polls.Cancel, req.OperationID, time.Now())
	if err == nil {
		o.cancel()
	}
	return err
}

// called writes down a call and finds its operation.
func (a *action) called(call polls.Call, id string, now time.Time) (*operation, error) {
	found, _ := a.operations.Load(id)
	o, known := found.(*operation)
	if !known {
		return nil, item.ErrUnknownOperation
	}
	return o, a.calls.Add(polls.Event{Call: call, Operation: id, At: now})
}

func main() {
	calls, err := polls.Open(os.Getenv("BENCH_CALLS"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	a := &action{namespace: os.Getenv("BENCH_NAMESPACE"), hangs: os.Getenv("BENCH_HANGS") == "yes", calls: calls}
	serve.New().RegisterAsyncBackupItemActionV1(os.Getenv("BENCH_ACTION"),
		func() (asyncbackupitemv1.AsyncBackupItemAction, error) { return a, nil }).Serve()
}
