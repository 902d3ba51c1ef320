// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"fmt"
	"path"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/grapnel-dev/grapnel/internal/plugin/host"
	"github.com/grapnel-dev/grapnel/internal/plugin/plugintesting"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/sdk"
	asyncpb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/asyncrestoreitemaction/v1"
	itempb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/item/v1"
	restorepb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/restoreitemaction/v2"
)

// wire is the connection to a plugin: it has an answer for each method, and several answers
// for methods that are called again.
type wire struct {
	grpc.ClientConnInterface
	answers map[string][]proto.Message
	asked   []string
}

// Begin implements Connection.
func (w *wire) Begin(context.Context, host.Call) (host.OpenCall, error) {
	return plugintesting.Call{Connection: w, CallID: "call-1"}, nil
}

// Invoke implements grpc.ClientConnInterface.
func (w *wire) Invoke(_ context.Context, method string, _, reply any, _ ...grpc.CallOption) error {
	method = path.Base(method)
	w.asked = append(w.asked, method)
	left := w.answers[method]
	if len(left) == 0 {
		return fmt.Errorf("%s was called once too often", method)
	}
	w.answers[method] = left[1:]
	proto.Merge(reply.(proto.Message), left[0])
	return nil
}

// TestRestoreItemAction_Kinds, as they are called over the wire.
func TestRestoreItemAction_Kinds(t *testing.T) {
	t.Parallel()
	needs := []*itempb.ResourceIdentifier{{Resource: "pods", Namespace: "shop", Name: "db"}}
	for kind, tc := range map[string]struct {
		answers  map[string][]proto.Message
		interval time.Duration
		asked    []string
	}{
		string(sdk.KindAsyncRestoreItemAction): {
			answers: map[string][]proto.Message{
				"AppliesTo": {&itempb.AppliesToResponse{}},
				"Start": {&asyncpb.StartResponse{
					AdditionalItems: needs, OperationId: "op", WaitForAdditionalItems: true,
					AdditionalItemsReadyTimeout: durationpb.New(time.Hour), PollInterval: durationpb.New(time.Second),
				}},
				"AreAdditionalItemsReady": {&asyncpb.AreAdditionalItemsReadyResponse{}, &asyncpb.AreAdditionalItemsReadyResponse{Ready: true}},
				"Cancel":                  {&emptypb.Empty{}},
			},
			interval: time.Second,
			asked:    []string{"AppliesTo", "Start", "AreAdditionalItemsReady", "AreAdditionalItemsReady", "Cancel"},
		},
		string(sdk.KindRestoreItemAction): {
			answers: map[string][]proto.Message{
				"AppliesTo": {&itempb.AppliesToResponse{}},
				"Execute": {&restorepb.ExecuteResponse{
					AdditionalItems: needs, OperationID: "op", WaitForAdditionalItems: true, AdditionalItemsReadyTimeout: durationpb.New(time.Hour),
				}},
				"AreAdditionalItemsReady": {&restorepb.AreAdditionalItemsReadyResponse{}, &restorepb.AreAdditionalItemsReadyResponse{Ready: true}},
				"Cancel":                  {&emptypb.Empty{}},
			},
			asked: []string{"AppliesTo", "Execute", "AreAdditionalItemsReady", "AreAdditionalItemsReady", "Cancel"},
		},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := &wire{answers: tc.answers}
			kinds := SupportedKinds()
			version := kinds[slices.IndexFunc(kinds, func(k ActionKind) bool { return k.Name == kind })].Versions[0].RestoreItem
			a := NewRestoreItemAction(RestoreItemActionSpec{
				Name: "example.io/act", Plugin: "acts", Kind: kind,
				Resolve: func() (Connection, RestoreItemAction, error) { return w, version, nil },
			}, RestoreRun{Key: "uid-1"}, redact.New())
			if err := a.ResolveSelector(t.Context(), restoreNames{}); err != nil {
				t.Fatal(err)
			}
			result, err := a.Execute(t.Context(), newRestorePod(t))
			if err != nil || result.Operation == nil || !result.WaitForRelatedItems || len(result.RelatedItems) != 1 {
				t.Fatalf("result %+v, error %v", result, err)
			}
			if result.Operation.ID != "op" || result.Operation.PollInterval != tc.interval || result.ReadyTimeout != time.Hour {
				t.Errorf("operation %+v, timeout %s", result.Operation, result.ReadyTimeout)
			}
			for _, want := range []bool{false, true} {
				if ready, err := areRelatedItemsReady(t.Context(), t, a, result.RelatedItems); err != nil || ready != want {
					t.Errorf("ready: %t, want %t: %v", ready, want, err)
				}
			}
			if err := cancelRestoreOperation(t.Context(), t, a, result.Operation.ID); err != nil {
				t.Error(err)
			}
			if !slices.Equal(w.asked, tc.asked) {
				t.Errorf("asked %q, want %q", w.asked, tc.asked)
			}
		})
	}
}
