// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	asyncbackupitemv1 "github.com/grapnel-dev/grapnel/sdk/asyncbackupitemaction/v1"
	"github.com/grapnel-dev/grapnel/sdk/item"
	"github.com/grapnel-dev/grapnel/sdk/plugintest"
	"github.com/grapnel-dev/grapnel/test/exampleplugin/datamove"
)

// fakeClient returns a client of a fake API server with the kind DataMove.
func fakeClient() client.Client {
	return fake.NewClientBuilder().WithScheme(datamove.NewScheme()).WithStatusSubresource(&datamove.DataMove{}).Build()
}

func clientIs(c client.Client) func() (client.Client, error) {
	return func() (client.Client, error) { return c, nil }
}

// moveTest is the action, and an API server on which the test is the mover.
type moveTest struct {
	asyncbackupitemv1.AsyncBackupItemAction
	client.Client
	t *testing.T
}

func newMoveTest(t *testing.T) *moveTest {
	t.Helper()
	dir, c := t.TempDir(), fakeClient()
	p := plugintest.Start(t, newServerWithDeps(dir, newCopies(dir), clientIs(c)))
	return &moveTest{AsyncBackupItemAction: p.AsyncBackupItemActionV1(nameMove), Client: c, t: t}
}

// start requests moving a claim, and returns the DataMove.
func (mt *moveTest) start() (*asyncbackupitemv1.OperationRequest, *datamove.DataMove) {
	mt.t.Helper()
	_, claim := samples()
	req := plugintest.NewBackupItemRequest(claim)
	started, err := mt.Start(mt.t.Context(), req)
	if err != nil {
		mt.t.Fatal(err)
	}
	var list datamove.DataMoveList
	if err := mt.List(mt.t.Context(), &list); err != nil || len(list.Items) != 1 {
		mt.t.Fatalf("there are %d DataMoves, %v; want one", len(list.Items), err)
	}
	move := &list.Items[0]
	later := []item.Ref{{Group: "example.io", Resource: "datamoves", Namespace: "shop", Name: move.Name}}
	if !reflect.DeepEqual(started.PostOperationItems, later) {
		mt.t.Errorf("post-operation items are %v, want %v", started.PostOperationItems, later)
	}
	return &asyncbackupitemv1.OperationRequest{OperationID: started.OperationID, Backup: req.Backup}, move
}

// says writes a status like the mover.
func (mt *moveTest) says(move *datamove.DataMove, phase string, files, total int64) {
	mt.t.Helper()
	if err := mt.Get(mt.t.Context(), client.ObjectKeyFromObject(move), move); err != nil {
		mt.t.Fatal(err)
	}
	move.Status = datamove.Status{Operation: move.Spec.Operation, Phase: phase, Files: files, Total: total, Message: "of the mover"}
	if err := mt.Status().Update(mt.t.Context(), move); err != nil {
		mt.t.Fatal(err)
	}
}

func TestMoveData_Progress(t *testing.T) {
	mt := newMoveTest(t)
	op, move := mt.start()
	if move.Spec.Claim != "data-web-0" || move.Namespace != "shop" {
		t.Errorf("the DataMove is %+v", move)
	}
	if waiting, err := mt.Progress(t.Context(), op); err != nil || waiting.Completed || waiting.Description != "waiting for the mover" {
		t.Errorf("at first the progress is %+v, %v", waiting, err)
	}
	for phase, want := range map[string]item.Progress{
		datamove.Running:   {},
		datamove.Completed: {Completed: true},
		datamove.Cancelled: {Completed: true, Cancelled: true},
		datamove.Failed:    {Completed: true, Err: "of the mover"},
	} {
		mt.says(move, phase, 2, 5)
		got, err := mt.Progress(t.Context(), op)
		if err != nil {
			t.Fatal(err)
		}
		want.NCompleted, want.NTotal, want.OperationUnits, want.Description = 2, 5, "files", "of the mover"
		got.Started = want.Started
		if !reflect.DeepEqual(*got, want) {
			t.Errorf("%s: the progress is %+v, want %+v", phase, *got, want)
		}
	}
	if err := mt.Delete(t.Context(), move); err != nil {
		t.Fatal(err)
	}
	if _, err := mt.Progress(t.Context(), op); !errors.Is(err, item.ErrUnknownOperation) {
		t.Errorf("a missing DataMove: %v", err)
	}
}

// TestMoveData_Restart checks that the operation of the earlier attempt ends, and its
// Cancel does not affect the later one.
func TestMoveData_Restart(t *testing.T) {
	mt := newMoveTest(t)
	earlier, move := mt.start()
	mt.says(move, datamove.Completed, 5, 5)
	later, move := mt.start()
	if earlier.OperationID == later.OperationID {
		t.Fatal("both have the same ID")
	}
	if err := mt.Cancel(t.Context(), earlier); err != nil {
		t.Fatal(err)
	}
	if progress, err := mt.Progress(t.Context(), earlier); err != nil || !progress.Completed || !progress.Cancelled {
		t.Errorf("the earlier operation: %+v, %v", progress, err)
	}
	if progress, err := mt.Progress(t.Context(), later); err != nil || progress.Completed {
		t.Errorf("the later operation: %+v, %v", progress, err)
	}
	if err := mt.Get(t.Context(), client.ObjectKeyFromObject(move), move); err != nil || move.Spec.Cancel {
		t.Errorf("the later operation is cancelled: %+v, %v", move.Spec, err)
	}
	for range 2 {
		if err := mt.Cancel(t.Context(), later); err != nil {
			t.Fatal(err)
		}
	}
	if err := mt.Get(t.Context(), client.ObjectKeyFromObject(move), move); err != nil || !move.Spec.Cancel {
		t.Errorf("the operation is not cancelled: %+v, %v", move.Spec, err)
	}
}

func TestSkipMoves_Execute(t *testing.T) {
	p := plugintest.Start(t, newServer(t.TempDir()))
	move := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.io/v1", "kind": "DataMove", "metadata": map[string]any{"name": "move-1", "namespace": "shop"},
	}}
	if resp, err := p.RestoreItemActionV1(nameMove).Execute(t.Context(), plugintest.NewRestoreItemRequest(move)); err != nil || !resp.SkipRestore {
		t.Errorf("the response is %+v, %v", resp, err)
	}
}

func TestMoveData_NoAPIServer(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	_, claim := samples()
	p := plugintest.Start(t, newServer(t.TempDir()))
	action := p.AsyncBackupItemActionV1(nameMove)
	if _, err := action.AppliesTo(t.Context()); err != nil {
		t.Errorf("the action affects backups in which nothing is moved: %v", err)
	}
	if _, err := action.Start(t.Context(), plugintest.NewBackupItemRequest(claim)); err == nil || !strings.Contains(err.Error(), "KUBECONFIG") {
		t.Errorf("the error of Start is %v", err)
	}
}
