// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/grapnel-dev/grapnel/test/exampleplugin/datamove"
)

// moverTest is a mover with a DataMove of a claim of two files.
type moverTest struct {
	*mover
	t    *testing.T
	move *datamove.DataMove
}

func newMoverTest(t *testing.T) *moverTest {
	t.Helper()
	move := &datamove.DataMove{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "move-1", UID: "uid"},
		Spec:       datamove.Spec{Claim: "data", Operation: "first"},
	}
	c := fake.NewClientBuilder().WithScheme(datamove.NewScheme()).WithStatusSubresource(move).WithObjects(move).Build()
	mt := &moverTest{t: t, move: move, mover: &mover{data: t.TempDir(), store: t.TempDir(), pause: time.Millisecond, client: c}}
	dir := filepath.Join(mt.data, "shop", "data", "sub")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "../b"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return mt
}

// pass reconciles once, and returns the status after it.
func (mt *moverTest) pass() datamove.Status {
	mt.t.Helper()
	key := client.ObjectKeyFromObject(mt.move)
	result, err := mt.Reconcile(mt.t.Context(), ctrl.Request{NamespacedName: key})
	if err != nil {
		mt.t.Fatal(err)
	}
	if err := mt.client.Get(mt.t.Context(), key, mt.move); err != nil {
		mt.t.Fatal(err)
	}
	if goesOn := result.RequeueAfter > 0; goesOn == mt.move.IsFinished() {
		mt.t.Errorf("requeue is %v, the status is %+v", goesOn, mt.move.Status)
	}
	return mt.move.Status
}

// passes reconciles several times and checks the results.
func (mt *moverTest) passes(want ...datamove.Status) {
	mt.t.Helper()
	for i, want := range want {
		got := mt.pass()
		got.Message = ""
		if got != want {
			mt.t.Errorf("after reconciliation %d the status is %+v, want %+v", i+1, got, want)
		}
	}
}

func (mt *moverTest) change(spec datamove.Spec) {
	mt.t.Helper()
	mt.move.Spec = spec
	if err := mt.client.Update(mt.t.Context(), mt.move); err != nil {
		mt.t.Fatal(err)
	}
}

func TestReconcile_MoveFiles(t *testing.T) {
	mt := newMoverTest(t)
	running := datamove.Status{Operation: "first", Phase: datamove.Running}
	one, two := running, running
	one.Files, one.Total, two.Files, two.Total = 1, 2, 2, 2
	done := two
	done.Phase = datamove.Completed
	mt.passes(running, one, two, done)
	for name, want := range map[string]string{"sub/a": "a", "b": "../b"} {
		if got, err := os.ReadFile(filepath.Join(mt.store, "uid", name)); err != nil || string(got) != want {
			t.Errorf("%s is %q, %v", name, got, err)
		}
	}
	// Another operation starts again from the beginning.
	mt.change(datamove.Spec{Claim: "data", Operation: "second"})
	running.Operation, one.Operation = "second", "second"
	mt.passes(running, one)
}

func TestReconcile_Cancel(t *testing.T) {
	mt := newMoverTest(t)
	mt.pass()
	mt.pass()
	mt.change(datamove.Spec{Claim: "data", Operation: "first", Cancel: true})
	mt.passes(datamove.Status{Operation: "first", Phase: datamove.Cancelled})
	if left, err := os.ReadDir(mt.store); err != nil || len(left) > 0 {
		t.Errorf("%v are left, %v", left, err)
	}
}

func TestReconcile_Failures(t *testing.T) {
	for name, claim := range map[string]string{"no data": "other", "a hostile name": "../../etc"} {
		t.Run(name, func(t *testing.T) {
			mt := newMoverTest(t)
			mt.change(datamove.Spec{Claim: claim, Operation: "first"})
			mt.pass()
			if got := mt.pass(); got.Phase != datamove.Failed || got.Message == "" {
				t.Errorf("the status is %+v", got)
			}
		})
	}
}
