// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/grapnel-dev/grapnel/sdk/item"
	"github.com/grapnel-dev/grapnel/sdk/plugintest"
)

// deleteBackup calls the DeleteAction for the Backup that made the copies of these tests.
func (ct *copyTest) deleteBackup(ctx context.Context) error {
	return ct.DeleteActionV1(nameCopy).Execute(ctx, plugintest.NewDeleteRequest())
}

func TestRemoveCopies_Execute(t *testing.T) {
	ct := newCopyTest(t)
	if selector, err := ct.DeleteActionV1(nameCopy).AppliesTo(t.Context()); err != nil || selector.LabelSelector != "" {
		t.Errorf("the selector is %q, %v; any Backup may have copies", selector.LabelSelector, err)
	}
	if err := ct.deleteBackup(t.Context()); err != nil {
		t.Errorf("a plugin that never copied anything: %v", err)
	}
	_, op := ct.copyOut(t.Context())
	until(t, ct.ask(op), completed)
	interrupted := partialDirName(op.Backup.UID+"/claim/1") + "/half"
	write(t, ct.store, interrupted, "another/shop/data-web-0/a", partialDirName("another/claim/1")+"/half")
	for range 2 {
		if err := ct.deleteBackup(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	has(t, ct.store, partialDirName("another/claim/1")+"/half", "another/shop/data-web-0/a")
	if _, err := os.Stat(filepath.Join(ct.store, op.Backup.UID)); !os.IsNotExist(err) {
		t.Errorf("an empty directory is left: %v", err)
	}
	has(t, ct.data, "shop/data-web-0/a", "shop/data-web-0/b", "shop/data-web-0/c/d")
	if lines := strings.Join(ct.LogLines("key"), "\n"); !strings.Contains(lines, `"directories":2`) {
		t.Errorf("the log does not say what was removed: %s", lines)
	}
}

// TestRemoveCopies_RunningCopy checks that a running copy is stopped: it must not reappear
// after its backup was deleted.
func TestRemoveCopies_RunningCopy(t *testing.T) {
	ct := newCopyTest(t)
	_, op := ct.copyOut(slowly(t.Context()))
	until(t, ct.ask(op), func(p *item.Progress) bool { return p.NCompleted > 0 })
	if err := ct.deleteBackup(t.Context()); err != nil {
		t.Fatal(err)
	}
	has(t, ct.store)
	if end, err := ct.ask(op)(); err != nil || !end.Cancelled {
		t.Errorf("the copy ended as %+v, %v", end, err)
	}
	ct.mu.Lock()
	ct.running[op.Backup.UID+"/deaf"] = &transfer{id: "deaf", stop: func() {}, ended: make(chan struct{})}
	ct.mu.Unlock()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := ct.removeCopiesOfBackup(ctx, op.Backup.UID); err == nil || !strings.Contains(err.Error(), "waiting until copy deaf has stopped") {
		t.Errorf("error of a copy that does not stop is %v", err)
	}
}

func TestRemoveCopies_InvalidUID(t *testing.T) {
	ct := newCopyTest(t)
	write(t, ct.store, "backup/shop/data-web-0/a")
	for _, hostile := range []string{"", ".", "..", "../example-data", "backup/shop", `backup\shop`, ".part-x"} {
		req := plugintest.NewDeleteRequest()
		req.Backup.Raw = []byte(`{"kind":"Backup","metadata":{"name":"n","uid":` + strconv.Quote(hostile) + `}}`)
		err := ct.DeleteActionV1(nameCopy).Execute(t.Context(), req)
		if status.Code(err) != codes.Unknown || !strings.Contains(err.Error(), "is not valid as a directory of copies") {
			t.Errorf("%q: error is %v", hostile, err)
		}
	}
	has(t, ct.store, "backup/shop/data-web-0/a")
	has(t, ct.data, "shop/data-web-0/a", "shop/data-web-0/b", "shop/data-web-0/c/d")
}
