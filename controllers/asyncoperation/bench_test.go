// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package asyncoperation

import (
	"context"
	"fmt"
	stdruntime "runtime"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	pluginclient "github.com/grapnel-dev/grapnel/internal/plugin/client"
	"github.com/grapnel-dev/grapnel/internal/plugin/host"
	"github.com/grapnel-dev/grapnel/internal/plugin/plugintesting"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/internal/runlog"
	"github.com/grapnel-dev/grapnel/sdk/item"
)

// cached is a client that reads from memory, like a client with a cache, and accepts every
// write.
type cached struct {
	client.Client
	operations map[string]*v1alpha1.AsyncOperation
	backup     *v1alpha1.Backup
}

// Get implements client.Client.
func (c cached) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	switch object := object.(type) {
	case *v1alpha1.AsyncOperation:
		c.operations[key.Name].DeepCopyInto(object)
	case *v1alpha1.Backup:
		c.backup.DeepCopyInto(object)
	}
	return nil
}

// Status implements client.Client.
func (cached) Status() client.SubResourceWriter { return accepting{} }

type accepting struct{ client.SubResourceWriter }

// Patch implements client.SubResourceWriter.
func (accepting) Patch(context.Context, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
	return nil
}

// ready provides actions that answer at once.
type ready struct{}

func (ready) BackupItemAction(string, string, string) pluginclient.ResolveFunc[pluginclient.BackupItemAction] {
	return func() (pluginclient.Connection, pluginclient.BackupItemAction, error) {
		return near{}, answering{}, nil
	}
}

func (ready) RestoreItemAction(string, string, string) pluginclient.ResolveFunc[pluginclient.RestoreItemAction] {
	return nil
}

func (ready) LoadAttempted(string) <-chan struct{} {
	tried := make(chan struct{})
	close(tried)
	return tried
}

type near struct{}

func (near) Begin(context.Context, host.Call) (host.OpenCall, error) {
	return plugintesting.Call{CallID: "call"}, nil
}

type answering struct{ pluginclient.BackupItemAction }

func (answering) Progress(context.Context, pluginclient.ItemCall, pluginclient.OperationRef) (item.Progress, error) {
	return item.Progress{NCompleted: 1, NTotal: 2, OperationUnits: "bytes", Description: "copying a volume"}, nil
}

// discarding is an event recorder that discards all events.
type discarding struct{}

func (discarding) Eventf(runtime.Object, runtime.Object, string, string, string, string, ...any) {}

// BenchmarkPoll measures one poll of one operation with the reconciles that it takes, among
// ten thousand operations of fifty plugins, each with a hundred post-operation items. The
// plugin itself is not included.
func BenchmarkPoll(b *testing.B) {
	const operations, plugins = 10_000, 50
	at, items := metav1.Now(), make([]v1alpha1.OperationItem, 100)
	world := cached{operations: map[string]*v1alpha1.AsyncOperation{}, backup: &v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Name: "nightly", UID: "u"}}}
	for i := range operations {
		name := fmt.Sprintf("copy-%d", i)
		op := &v1alpha1.AsyncOperation{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: at}}
		op.Spec = v1alpha1.AsyncOperationSpec{
			ParentRef: v1alpha1.ParentReference{Kind: "Backup", Name: "nightly", UID: "u"}, Kind: v1alpha1.ActionKindAsyncBackupItem,
			ActionName: "example.io/copy", PluginRef: v1alpha1.PluginReference{Name: fmt.Sprint(i % plugins)}, OperationID: name,
			Timeout: metav1.Duration{Duration: 1000 * time.Hour}, PollInterval: metav1.Duration{Duration: 10 * time.Second},
			PostOperationItems: items,
		}
		world.operations[name] = op
	}
	metrics, err := NewMetrics(prometheus.NewRegistry())
	if err != nil {
		b.Fatal(err)
	}
	logs, err := runlog.New(b.TempDir(), redact.New(), logr.Discard())
	if err != nil {
		b.Fatal(err)
	}
	now := at.Time
	r := &Reconciler{
		Client: world, Reader: world, Actions: ready{}, Recorder: discarding{}, Redactor: redact.New("hunter22"), Logs: logs, Metrics: metrics,
		Now: func() time.Time { return now },
	}
	woken := make(chan types.NamespacedName, 1)
	r.initializeState(func(owner types.NamespacedName) { woken <- owner })
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = r.calls.Start(ctx)
	}()
	defer func() { cancel(); <-ended }()
	pass := func(name types.NamespacedName) {
		if _, err := r.Reconcile(ctx, ctrl.Request{NamespacedName: name}); err != nil {
			b.Fatal(err)
		}
	}
	for !r.calls.EnsureStarted("started", types.NamespacedName{}, func(context.Context) (callResult, error) { return callResult{}, nil }) {
		stdruntime.Gosched()
	}
	<-woken
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%operations == 0 {
			now = now.Add(time.Hour)
		}
		pass(types.NamespacedName{Name: fmt.Sprintf("copy-%d", i%operations)})
		pass(<-woken)
	}
}
