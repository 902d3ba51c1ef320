// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package plugins

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	pluginclient "github.com/grapnel-dev/grapnel/internal/plugin/client"
	"github.com/grapnel-dev/grapnel/sdk/item"
	"github.com/grapnel-dev/grapnel/test/interop/plugins/actions"
)

// startOperation has an action of a backup start an operation and returns it.
func startOperation(t *testing.T, h *host) pluginclient.OperationRef {
	t.Helper()
	answer, err := h.archive(t.Context(), actions.BackupV2, do(actions.DoOperation))
	if err != nil {
		t.Fatal(err)
	}
	return pluginclient.OperationRef{OperationID: answer.OperationID, Parent: encode(t, veleroBackup())}
}

func askProgress[A pluginclient.Operations](t *testing.T, h *host, to target[A], op pluginclient.OperationRef) (item.Progress, error) {
	t.Helper()
	return ask(t.Context(), h, to, func(ctx context.Context, action A, on pluginclient.ItemCall) (item.Progress, error) {
		return action.Progress(ctx, on, op)
	})
}

func askCancel[A pluginclient.Operations](t *testing.T, h *host, to target[A], op pluginclient.OperationRef) error {
	t.Helper()
	_, err := ask(t.Context(), h, to, func(ctx context.Context, action A, on pluginclient.ItemCall) (struct{}, error) {
		return struct{}{}, action.Cancel(ctx, on, op)
	})
	return err
}

func TestBackupItemAction_Progress(t *testing.T) {
	forReleases(t, func(t *testing.T, release string) {
		h := loaded(t, release)
		direct := actions.NewBackupV2(actions.BackupV2, silent())
		if _, _, _, _, err := direct.Execute(do(actions.DoOperation), veleroBackup()); err != nil {
			t.Fatal(err)
		}
		op := startOperation(t, h)
		for range 2 {
			want, err := direct.Progress(op.OperationID, veleroBackup())
			if err != nil {
				t.Fatal(err)
			}
			got, err := askProgress(t, h, h.backup(actions.BackupV2), op)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(progress(want), got); diff != "" {
				t.Errorf("progress (-want +got):\n%s", diff)
			}
		}
	})
}

func TestRestoreItemAction_Cancel(t *testing.T) {
	forReleases(t, func(t *testing.T, release string) {
		h := loaded(t, release)
		to := h.restore(actions.RestoreV2)
		answer, err := h.bring(t.Context(), actions.RestoreV2, do(actions.DoOperation))
		if err != nil {
			t.Fatal(err)
		}
		op := pluginclient.OperationRef{OperationID: answer.OperationID, Parent: encode(t, veleroRestore())}
		if err := askCancel(t, h, to, op); err != nil {
			t.Fatal(err)
		}
		got, err := askProgress(t, h, to, op)
		if err != nil || !got.Completed || got.Err != "the operation was cancelled" {
			t.Errorf("after it was cancelled the operation is %+v, error %v", got, err)
		}
		if !strings.Contains(got.Description, actions.DescribeRestore("v2", veleroRestore())) {
			t.Errorf("the action was told about another restore: %s", got.Description)
		}
		op.OperationID = "unknown"
		for what, err := range map[string]error{"cancel": askCancel(t, h, to, op), "progress": second(askProgress(t, h, to, op))} {
			if err == nil || err.Error() != `there is no operation "unknown"` {
				t.Errorf("%s of an unknown operation: %v", what, err)
			}
		}
	})
}

func second[T any](_ T, err error) error { return err }

func TestBackupItemAction_Version1Operations(t *testing.T) {
	forReleases(t, func(t *testing.T, release string) {
		h := loaded(t, release)
		op := pluginclient.OperationRef{OperationID: "any", Parent: encode(t, veleroBackup())}
		if _, err := askProgress(t, h, h.backup(actions.BackupV1), op); err == nil {
			t.Error("a BackupItemAction of version 1 tells the progress of an operation")
		}
		if err := askCancel(t, h, h.backup(actions.BackupV1), op); err != nil {
			t.Errorf("cancelling what cannot be: %v", err)
		}
	})
}

func TestRestoreItemAction_AreAdditionalItemsReady(t *testing.T) {
	forReleases(t, func(t *testing.T, release string) {
		h := loaded(t, release)
		for _, tc := range []struct {
			action, item string
			want         bool
		}{
			{actions.RestoreV2, "quick", true},
			{actions.RestoreV2, "slow-disk", false},
			// Version 1 cannot be asked, and nothing waits for it.
			{actions.RestoreV1, "slow-disk", true},
		} {
			got, err := ask(t.Context(), h, h.restore(tc.action),
				func(ctx context.Context, action pluginclient.RestoreItemAction, on pluginclient.ItemCall) (bool, error) {
					return action.AreAdditionalItemsReady(ctx, on,
						[]item.Ref{{Resource: "persistentvolumes", Name: tc.item}}, encode(t, veleroRestore()))
				})
			if err != nil || got != tc.want {
				t.Errorf("%s says %t of %s, error %v; want %t", tc.action, got, tc.item, err, tc.want)
			}
		}
	})
}
