// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	asyncbackupitemv1 "github.com/grapnel-dev/grapnel/sdk/asyncbackupitemaction/v1"
	asyncrestoreitemv1 "github.com/grapnel-dev/grapnel/sdk/asyncrestoreitemaction/v1"
	"github.com/grapnel-dev/grapnel/sdk/item"
	"github.com/grapnel-dev/grapnel/sdk/plugintest"
)

// copyTest is a plugin with the data of the claim shop/data-web-0: three files of 100
// bytes each.
type copyTest struct {
	*plugintest.Plugin
	*copies
	t     *testing.T
	claim *unstructured.Unstructured
}

func newCopyTest(t *testing.T) *copyTest {
	t.Helper()
	c := newCopies(t.TempDir())
	_, claim := samples()
	write(t, c.data, "shop/data-web-0/a", "shop/data-web-0/b", "shop/data-web-0/c/d")
	return (&copyTest{t: t, claim: claim}).in(c)
}

// in starts a plugin with the directories of another one.
func (ct *copyTest) in(c *copies) *copyTest {
	server := newServerWithDeps(ct.t.TempDir(), c, newAPIServerClient)
	// Copies in the directory must end before it is removed.
	ct.t.Cleanup(c.transfers.Wait)
	ct.t.Cleanup(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, t := range c.running {
			t.stop()
		}
	})
	return &copyTest{Plugin: plugintest.Start(ct.t, server), copies: c, t: ct.t, claim: ct.claim}
}

func write(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(strings.Repeat("x", 100)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// slowly makes a copy take longer than the test.
func slowly(ctx context.Context) context.Context {
	return plugintest.WithParameters(ctx, map[string]string{parameterRate: "1"})
}

// copyOut starts to copy the claim.
func (ct *copyTest) copyOut(ctx context.Context) (*asyncbackupitemv1.Started, *asyncbackupitemv1.OperationRequest) {
	ct.t.Helper()
	req := plugintest.NewBackupItemRequest(ct.claim.DeepCopy())
	started, err := ct.AsyncBackupItemActionV1(nameCopy).Start(ctx, req)
	if err != nil {
		ct.t.Fatal(err)
	}
	return started, &asyncbackupitemv1.OperationRequest{OperationID: started.OperationID, Backup: req.Backup}
}

// until polls the progress of an operation until it is as wanted.
func until(t *testing.T, ask func() (*item.Progress, error), right func(*item.Progress) bool) *item.Progress {
	t.Helper()
	timeout := time.After(10 * time.Second)
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for {
		progress, err := ask()
		if err != nil {
			t.Fatal(err)
		}
		if right(progress) {
			return progress
		}
		select {
		case <-again.C:
		case <-timeout:
			t.Fatalf("the progress stays %+v", progress)
		}
	}
}

func completed(p *item.Progress) bool { return p.Completed }

func (ct *copyTest) ask(op *asyncbackupitemv1.OperationRequest) func() (*item.Progress, error) {
	return func() (*item.Progress, error) {
		return ct.AsyncBackupItemActionV1(nameCopy).Progress(ct.t.Context(), op)
	}
}

// has checks which files are below a directory.
func has(t *testing.T, dir string, want ...string) {
	t.Helper()
	var got []string
	err := filepath.WalkDir(dir, func(name string, entry os.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			name, err = filepath.Rel(dir, name)
			got = append(got, name)
		}
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("%s has %q, want %q", dir, got, want)
	}
}

func TestCopyOut_RoundTrip(t *testing.T) {
	ct := newCopyTest(t)
	started, op := ct.copyOut(t.Context())
	end := until(t, ct.ask(op), completed)
	if end.Err != "" || end.Cancelled || end.NCompleted != 300 || end.NTotal != 300 || end.OperationUnits != "bytes" {
		t.Errorf("the copy ended as %+v", end)
	}
	has(t, filepath.Join(ct.store, op.Backup.UID, "shop", "data-web-0"), "a", "b", "c/d")

	req := plugintest.NewRestoreItemRequest(started.Item)
	back := ct.AsyncRestoreItemActionV1(nameCopy)
	restored, err := back.Start(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if annotations := restored.Item.GetAnnotations(); len(annotations) > 0 {
		t.Errorf("the restored claim has the annotations %v", annotations)
	}
	ask := func() (*item.Progress, error) {
		return back.Progress(t.Context(), &asyncrestoreitemv1.OperationRequest{OperationID: restored.OperationID, Restore: req.Restore})
	}
	if end := until(t, ask, completed); end.Err != "" || end.NCompleted != 300 {
		t.Errorf("the copy back ended as %+v", end)
	}
	// The Restore maps the namespace.
	has(t, filepath.Join(ct.data, "shop-restored", "data-web-0"), "a", "b", "c/d")
	again, err := back.Start(t.Context(), req)
	if err != nil || again.OperationID != "" {
		t.Errorf("a later attempt started %+v, %v; the data is there", again, err)
	}
	for range 2 {
		if err := ct.DeleteItemActionV1(nameCopy).Execute(t.Context(), plugintest.NewDeleteItemRequest(started.Item)); err != nil {
			t.Fatal(err)
		}
	}
	has(t, ct.store)
}

func TestCopyOut_Cancel(t *testing.T) {
	ct := newCopyTest(t)
	_, op := ct.copyOut(slowly(t.Context()))
	until(t, ct.ask(op), func(p *item.Progress) bool { return p.NCompleted > 0 && p.NTotal == 300 })
	for range 2 {
		if err := ct.AsyncBackupItemActionV1(nameCopy).Cancel(t.Context(), op); err != nil {
			t.Fatal(err)
		}
	}
	if end := until(t, ct.ask(op), completed); !end.Cancelled || end.Err != "" {
		t.Errorf("the copy ended as %+v", end)
	}
	has(t, ct.store)
	if err := ct.AsyncBackupItemActionV1(nameCopy).Cancel(t.Context(), op); err != nil {
		t.Errorf("Cancel of an ended operation: %v", err)
	}
}

// TestCopies_PluginRestart checks that a new process knows ended operations, and that
// interrupted ones are lost.
func TestCopies_PluginRestart(t *testing.T) {
	ct := newCopyTest(t)
	_, ended := ct.copyOut(t.Context())
	until(t, ct.ask(ended), completed)
	_, going := ct.copyOut(slowly(t.Context()))
	until(t, ct.ask(going), func(p *item.Progress) bool { return p.NCompleted > 0 })

	later := ct.in(&copies{data: ct.data, store: ct.store, outcomes: ct.outcomes, running: map[string]*transfer{}})
	if progress, err := later.ask(ended)(); err != nil || !progress.Completed || progress.NCompleted != 300 {
		t.Errorf("the progress of an ended operation is %+v, %v", progress, err)
	}
	if err := later.AsyncBackupItemActionV1(nameCopy).Cancel(t.Context(), going); !errors.Is(err, item.ErrUnknownOperation) {
		t.Errorf("Cancel of an interrupted operation: %v", err)
	}
	if _, err := later.ask(going)(); !errors.Is(err, item.ErrUnknownOperation) {
		t.Errorf("Progress of an interrupted operation: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(ct.store, ".part-*")); err != nil || len(left) > 0 {
		t.Errorf("an interrupted operation left %q", left)
	}
}

func TestCopyOut_Failures(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*copyTest)
		want   string
	}{
		"no data":        {change: func(ct *copyTest) { ct.claim.SetName("other") }, want: "no such file"},
		"a hostile name": {change: func(ct *copyTest) { ct.claim.SetNamespace("..") }, want: "looking for the files"},
		"no directory":   {change: func(ct *copyTest) { _ = os.RemoveAll(ct.data) }, want: "opening the directory to copy from"},
	} {
		t.Run(name, func(t *testing.T) {
			ct := newCopyTest(t)
			tc.change(ct)
			_, op := ct.copyOut(t.Context())
			if end := until(t, ct.ask(op), completed); !strings.Contains(end.Err, tc.want) || end.Cancelled {
				t.Errorf("the copy ended as %+v, want an error with %q", end, tc.want)
			}
			has(t, ct.store)
		})
	}
	t.Run("invalid limit", func(t *testing.T) {
		ct := newCopyTest(t)
		ctx := plugintest.WithParameters(t.Context(), map[string]string{parameterRate: "fast"})
		_, err := ct.AsyncBackupItemActionV1(nameCopy).Start(ctx, plugintest.NewBackupItemRequest(ct.claim))
		if err == nil || !strings.Contains(err.Error(), strconv.Quote("fast")) {
			t.Errorf("the error is %v", err)
		}
	})
}

func TestCopyBack_ExistingData(t *testing.T) {
	ct := newCopyTest(t)
	started, op := ct.copyOut(t.Context())
	until(t, ct.ask(op), completed)
	write(t, ct.data, "shop-restored/data-web-0/mine")
	req := plugintest.NewRestoreItemRequest(started.Item)
	back := ct.AsyncRestoreItemActionV1(nameCopy)
	restored, err := back.Start(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	end := until(t, func() (*item.Progress, error) {
		return back.Progress(t.Context(), &asyncrestoreitemv1.OperationRequest{OperationID: restored.OperationID, Restore: req.Restore})
	}, completed)
	if !strings.Contains(end.Err, "there is already data in shop-restored/data-web-0") {
		t.Errorf("the copy ended as %+v", end)
	}
	has(t, filepath.Join(ct.data, "shop-restored"), "data-web-0/mine")
}

// TestCopyBack_InvalidAnnotation checks hostile annotations: any user may have written
// them.
func TestCopyBack_InvalidAnnotation(t *testing.T) {
	ct := newCopyTest(t)
	write(t, ct.store, "backup/bank/money/secret")
	for _, hostile := range []string{"backup/bank/money", "../example-data", "backup", "."} {
		ct.claim.SetAnnotations(map[string]string{annotationCopy: hostile})
		req := plugintest.NewRestoreItemRequest(ct.claim)
		back := ct.AsyncRestoreItemActionV1(nameCopy)
		restored, err := back.Start(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		end := until(t, func() (*item.Progress, error) {
			return back.Progress(t.Context(), &asyncrestoreitemv1.OperationRequest{OperationID: restored.OperationID, Restore: req.Restore})
		}, completed)
		if end.Err == "" {
			t.Errorf("%q was found", hostile)
		}
		if err := ct.DeleteItemActionV1(nameCopy).Execute(t.Context(), plugintest.NewDeleteItemRequest(ct.claim)); err != nil {
			t.Logf("%q: %v", hostile, err)
		}
	}
	has(t, filepath.Join(ct.data, "shop-restored"))
	has(t, ct.store, "backup/bank/money/secret")
	has(t, ct.data, "shop/data-web-0/a", "shop/data-web-0/b", "shop/data-web-0/c/d")
}

func TestPruneOldOutcomes(t *testing.T) {
	ct := newCopyTest(t)
	_, first := ct.copyOut(t.Context())
	until(t, ct.ask(first), completed)
	old := time.Now().Add(-outcomeRetention - time.Hour)
	if err := os.Chtimes(ct.outcomePath(first.OperationID), old, old); err != nil {
		t.Fatal(err)
	}
	_, second := ct.copyOut(t.Context())
	until(t, ct.ask(second), completed)
	if _, err := ct.ask(first)(); !errors.Is(err, item.ErrUnknownOperation) {
		t.Errorf("the old outcome: %v", err)
	}
}
