// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package hookrun_test

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/controllers/hookrun"
	"github.com/grapnel-dev/grapnel/internal/lease"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

// heldLock is the lock of a leader election that this operator, "a", won and another one, "b",
// took over.
type heldLock struct{ resourcelock.Interface }

// Identity implements resourcelock.Interface.
func (heldLock) Identity() string { return "a" }

// Update implements resourcelock.Interface.
func (heldLock) Update(context.Context, resourcelock.LeaderElectionRecord) error { return nil }

// Get implements resourcelock.Interface.
func (heldLock) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	return &resourcelock.LeaderElectionRecord{HolderIdentity: "b"}, nil, nil
}

// losing is a reader whose operator loses its lease right after it has read the HookRun that it is
// about to call.
type losing struct {
	client.Reader
	lock resourcelock.Interface
	// begun counts how often the input of a call was read.
	begun atomic.Int32
}

// Get implements client.Reader.
func (l *losing) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	err := l.Reader.Get(ctx, key, object, options...)
	switch object.(type) {
	case *v1alpha1.Backup:
		l.begun.Add(1)
	case *v1alpha1.HookRun:
		_, _, lost := l.lock.Get(ctx)
		err = errors.Join(err, lost)
	}
	return err
}

var _ = Describe("A HookRun of an operator that lost its lease", Label("hooks"), func() {
	It("does not call the action", func() {
		t := GinkgoTB()
		env := cluster.NewEnv(t)
		run := plan(env, createBackup(env))
		fence := lease.New(time.Minute, 50*time.Second)
		reader, actions := &losing{lock: fence.WrapElectionLock(heldLock{})}, working()
		if err := reader.lock.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "a"}); err != nil {
			t.Fatal(err)
		}
		operator(t, env, actions, func(r *hookrun.Reconciler) {
			reader.Reader, r.Reader, r.Fence = r.Reader, reader, fence
		})
		// It tries to call again, because no other operator advances the HookRun here.
		suite.Eventually(t, func() string {
			if suite.GetIfExists(env, run); reader.begun.Load() < 2 && run.Status.CompletionTimestamp == nil {
				return "the operator did not try to call the action again"
			}
			return ""
		})
		if calls := actions.made(); len(calls) > 0 {
			t.Errorf("attempts %v were called without the lease", calls)
		}
	})
})
