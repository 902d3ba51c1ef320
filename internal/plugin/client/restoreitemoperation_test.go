// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/sdk/item"
)

// TestRestoreItemAction_CancelOperation of an accepted answer: only its own Cancel cancels it.
func TestRestoreItemAction_CancelOperation(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]RestoreItemAnswer{
		"alone":                          {OperationID: "op", PollInterval: time.Minute},
		"of an object that is left out":  {OperationID: "op", Skip: true},
		"of an object that has to wait":  {OperationID: "op", WaitForRelatedItems: true, WaitTimeout: time.Minute},
		"with the longest possible name": {OperationID: strings.Repeat("x", 1024)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fakeRestoreAction{execute: answers(answer, nil)}
			a := f.chosen(t, nil)
			result, err := a.Execute(t.Context(), newRestorePod(t))
			if err != nil || result.Operation == nil || result.Operation.ID != answer.OperationID {
				t.Fatalf("operation %+v, error %v", result.Operation, err)
			}
			if (result.Skip != "") != answer.Skip || result.WaitForRelatedItems != answer.WaitForRelatedItems || result.ReadyTimeout != answer.WaitTimeout ||
				result.Operation.PollInterval != answer.PollInterval {
				t.Errorf("result %+v", result)
			}
			if len(f.cancelled) > 0 {
				t.Errorf("canceled %q", f.cancelled)
			}
			// The run may have ended before the operation is canceled.
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := cancelRestoreOperation(ctx, t, a, answer.OperationID); err != nil {
				t.Error(err)
			}
			if want := []string{answer.OperationID + ` of {"kind":"Restore"}`}; !slices.Equal(f.cancelled, want) {
				t.Errorf("canceled %q, want %q", f.cancelled, want)
			}
			f.cancel = func(context.Context) error { return errors.New("too late for " + secret) }
			wantRestoreError(t, cancelRestoreOperation(ctx, t, a, answer.OperationID), "too late for")
		})
	}
}

func cancelRestoreOperation(ctx context.Context, t *testing.T, a itemaction.RestoreAction, id string) error {
	t.Helper()
	return a.(itemaction.OperationStarter[*itemaction.RestoreItem]).CancelOperation(ctx, newRestorePod(t), id)
}

func TestRestoreItemAction_NoOperation(t *testing.T) {
	t.Parallel()
	f := &fakeRestoreAction{execute: answers(RestoreItemAnswer{}, nil)}
	result, err := f.chosen(t, nil).Execute(t.Context(), newRestorePod(t))
	if err != nil || result.Operation != nil {
		t.Errorf("operation %+v, error %v", result.Operation, err)
	}
}

// TestRestoreItemAction_CancelRejectedOperation is canceled: no run would wait for it.
func TestRestoreItemAction_CancelRejectedOperation(t *testing.T) {
	t.Parallel()
	refs := func(ref item.Ref, n int) []item.Ref { return slices.Repeat([]item.Ref{ref}, n) }
	for name, tc := range map[string]struct {
		answer RestoreItemAnswer
		fails  error
		want   string
	}{
		"its ID has 1 MiB":       {RestoreItemAnswer{OperationID: strings.Repeat("x", 1<<20)}, nil, "returned an operation ID of 1048576 bytes; at most 1024"},
		"an endless list":        {RestoreItemAnswer{OperationID: "op", RelatedItems: refs(item.Ref{Resource: "po", Name: "a"}, item.MaxRefs+1)}, nil, "named 10001 additional items"},
		"an item without name":   {RestoreItemAnswer{OperationID: "op", RelatedItems: refs(item.Ref{Resource: "po"}, 1)}, nil, "it has no name"},
		"another object":         {RestoreItemAnswer{OperationID: "op", Item: []byte(`{"metadata":{"name":"db","namespace":"shop"}}`)}, nil, "returned another object"},
		"no object":              {RestoreItemAnswer{OperationID: "op", Item: []byte(`{"apiVersion":"v1","kind":"Pod","metadata":"x"}`)}, nil, "not a Kubernetes object"},
		"it breaks the contract": {RestoreItemAnswer{OperationID: "op"}, &ContractError{Message: "answered nonsense"}, "answered nonsense"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, refuses := range []bool{false, true} {
				f := &fakeRestoreAction{execute: answers(tc.answer, tc.fails)}
				said := "which was canceled"
				if refuses {
					f.cancel = func(context.Context) error { return status.Error(codes.Unknown, "not now, "+secret) }
					said = "which could not be canceled and may still be running: "
				}
				_, err := f.chosen(t, nil).Execute(t.Context(), newRestorePod(t))
				wantRestoreError(t, err, tc.want)
				wantRestoreError(t, err, said)
				if err != nil && (len(err.Error()) > 2000 || strings.Contains(err.Error(), "\n")) {
					t.Errorf("the error is not one line: %q", err)
				}
				if want := []string{tc.answer.OperationID + ` of {"kind":"Restore"}`}; !slices.Equal(f.cancelled, want) {
					t.Errorf("canceled %.200q", f.cancelled)
				}
			}
		})
	}
}

// TestRestoreItemAction_CancelAfterRunEnded is canceled although the context of the run has ended.
func TestRestoreItemAction_CancelAfterRunEnded(t *testing.T) {
	t.Parallel()
	for _, ignored := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		f := &fakeRestoreAction{execute: func(context.Context, RestoreItem) (RestoreItemAnswer, error) {
			cancel()
			return RestoreItemAnswer{OperationID: "op"}, nil
		}}
		_, err := f.chosen(t, func(s *RestoreItemActionSpec) { s.IgnoreFailure = ignored }).Execute(ctx, newRestorePod(t))
		if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "which was canceled") || len(f.cancelled) != 1 {
			t.Errorf("canceled %q, error %v", f.cancelled, err)
		}
	}
}

// TestRestoreItemAction_CancelLateOperation of an optional action.
func TestRestoreItemAction_CancelLateOperation(t *testing.T) {
	t.Parallel()
	f := &fakeRestoreAction{execute: answers(RestoreItemAnswer{OperationID: "op"}, context.DeadlineExceeded)}
	a := f.chosen(t, func(s *RestoreItemActionSpec) { s.IgnoreFailure = true })
	result, err := a.Execute(t.Context(), newRestorePod(t))
	if err != nil || result.Operation != nil || len(f.cancelled) != 1 {
		t.Errorf("operation %+v, canceled %q, error %v", result.Operation, f.cancelled, err)
	}
	if len(result.Warnings) != 1 || !strings.Contains(result.Warnings[0], "which was canceled") {
		t.Errorf("warnings %q", result.Warnings)
	}
}

func TestRestoreItemAction_Kind(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"", "RestoreItemAction", "AsyncRestoreItemAction"} {
		a := NewRestoreItemAction(RestoreItemActionSpec{Kind: kind, Resolve: func() (Connection, RestoreItemAction, error) { return nil, nil, nil }}, RestoreRun{}, redact.New())
		if a.Kind() != kind {
			t.Errorf("kind %q, want %q", a.Kind(), kind)
		}
	}
}
