// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	protobuf "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/grapnel-dev/grapnel/internal/executor"
	hookpb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/hook/v1"
	pluginpb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/plugin/v1"
	velerov1 "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/velero/v1"
)

func TestListActions(t *testing.T) {
	t.Parallel()
	const pre, post, bia = "PreBackupAction", "PostBackupAction", "BackupItemAction"
	for name, tc := range map[string]struct {
		in         []ListedAction
		want       []ListedAction
		ignored    []string
		wantErr    string
		wantReason string
	}{
		"sorted": {
			in:   []ListedAction{{pre, "v1", "b"}, {post, "v1", "b"}, {pre, "v1", "a"}},
			want: []ListedAction{{post, "v1", "b"}, {pre, "v1", "a"}, {pre, "v1", "b"}},
		},
		"newer kind besides": {
			in:   []ListedAction{{"MoonAction", "v1", "b"}, {pre, "v1", "b"}},
			want: []ListedAction{{pre, "v1", "b"}}, ignored: []string{"MoonAction b"},
		},
		"newer version besides": {in: []ListedAction{{pre, "v2", "b"}, {pre, "v1", "b"}}, want: []ListedAction{{pre, "v1", "b"}}},
		"only newer": {
			in:         []ListedAction{{bia, "v9", "x.io/b"}, {pre, "v1", "a"}},
			wantReason: ReasonNotAdaptable, wantErr: "BackupItemAction x.io/b is offered in v9 only, this Grapnel calls v2 or v1: upgrade Grapnel",
		},
		"two only newer": {
			in:         []ListedAction{{pre, "v9", "b"}, {pre, "v8", "a"}, {pre, "v9", "a"}},
			wantReason: ReasonNotAdaptable, wantErr: "PreBackupAction a is offered in v8 and v9 only, this Grapnel calls v1 (the same goes for 1 more of its actions)",
		},
		"only newer kinds": {in: []ListedAction{{"MoonAction", "v1", "b"}}, wantErr: "all it provides is MoonAction b"},
		"none":             {wantErr: "provides no actions"},
		"twice":            {in: []ListedAction{{pre, "v1", "b"}, {pre, "v1", "b"}}, wantErr: "twice"},
		"no name":          {in: []ListedAction{{pre, "v1", ""}}, wantErr: "empty"},
		"too many":         {in: make([]ListedAction, maxActions+1), wantErr: "at most 256"},
		"newer, no name":   {in: []ListedAction{{"MoonAction", "v1", "a b"}}, wantErr: "invalid name"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var response pluginpb.ListPluginsResponse
			for _, a := range tc.in {
				response.Plugins = append(response.Plugins, &pluginpb.PluginIdentifier{Kind: a.Kind, Version: a.Version, Name: a.Name})
			}
			got, err := ListActions(t.Context(), fakeListers{ours: &response}, SupportedKinds())
			expectListing(t, got, err, Listing{Actions: tc.want, Ignored: tc.ignored}, tc.wantReason, tc.wantErr)
		})
	}
}

func TestListVeleroActions(t *testing.T) {
	t.Parallel()
	type plugin = velerov1.PluginIdentifier
	for name, tc := range map[string]struct {
		in         []*plugin
		want       Listing
		wantErr    string
		wantReason string
	}{
		"all kinds": {
			in: []*plugin{
				{Kind: "BackupItemAction", Name: "x.io/a"},
				{Kind: "BackupItemActionV2", Name: "x.io/a"},
				{Kind: "RestoreItemAction", Name: "x.io/a"},
				{Kind: "RestoreItemActionV2", Name: "x.io/b"},
				{Kind: "DeleteItemAction", Name: "x.io/a"},
				{Kind: "ObjectStore", Name: "x.io/a"},
				{Kind: "VolumeSnapshotter", Name: "x.io/a"},
				{Kind: "ItemBlockAction", Name: "x.io/a"},
				// Not kinds of Velero, regardless of their meaning there.
				{Kind: "PreBackupAction", Name: "x.io/a"},
				{Kind: "AsyncBackupItemAction", Name: "x.io/a"},
				{Kind: "DeleteAction", Name: "x.io/a"},
			},
			want: Listing{
				Actions: []ListedAction{
					{"BackupItemAction", "v1", "x.io/a"},
					{"BackupItemAction", "v2", "x.io/a"},
					{"DeleteItemAction", "v1", "x.io/a"},
					{"ItemBlockAction", "v1", "x.io/a"},
					{"ObjectStore", "v1", "x.io/a"},
					{"RestoreItemAction", "v1", "x.io/a"},
					{"RestoreItemAction", "v2", "x.io/b"},
				},
				Ignored:         []string{"AsyncBackupItemAction x.io/a", "DeleteAction x.io/a", "PreBackupAction x.io/a", "VolumeSnapshotter x.io/a"},
				BuiltWithVelero: true,
			},
		},
		"unknown newer version": {
			in:         []*plugin{{Kind: "BackupItemActionV3", Name: "x.io/a"}},
			wantReason: ReasonNotAdaptable, wantErr: "BackupItemAction x.io/a is offered in v3 only",
		},
		"no supported actions": {in: []*plugin{{Kind: "VolumeSnapshotter", Name: "x.io/a"}}, wantErr: "all it provides is VolumeSnapshotter x.io/a"},
		"no slash":             {in: []*plugin{{Kind: "ObjectStore", Name: "aws"}}, wantErr: `the name "aws"`},
		"two slashes":          {in: []*plugin{{Kind: "ObjectStore", Name: "x.io/aws/s3"}}, wantErr: "more than one slash"},
		"twice":                {in: []*plugin{{Kind: "ObjectStore", Name: "x.io/a"}, {Kind: "ObjectStore", Name: "x.io/a"}}, wantErr: "twice"},
		"empty":                {wantErr: "provides no actions"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := ListActions(t.Context(), fakeListers{velero: &velerov1.ListPluginsResponse{Plugins: tc.in}}, SupportedKinds())
			expectListing(t, got, err, tc.want, tc.wantReason, tc.wantErr)
		})
	}
}

func expectListing(t *testing.T, got Listing, err error, want Listing, wantReason, wantErr string) {
	t.Helper()
	if wantErr == "" {
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("error %v, listing (-want +got):\n%s", err, diff)
		}
		return
	}
	if wantReason == "" {
		wantReason = ReasonInvalidRegistration
	}
	var list *ListError
	if !errors.As(err, &list) || list.Reason != wantReason || !strings.Contains(err.Error(), wantErr) {
		t.Errorf("error is %v, want %s with %q", err, wantReason, wantErr)
	}
}

// fakeListers is a process that serves the listers that are set.
type fakeListers struct {
	grpc.ClientConnInterface
	ours   *pluginpb.ListPluginsResponse
	velero *velerov1.ListPluginsResponse
}

func (f fakeListers) Invoke(_ context.Context, method string, _, reply any, _ ...grpc.CallOption) error {
	switch {
	case method == "/grapnel.plugin.v1.PluginLister/ListPlugins" && f.ours != nil:
		protobuf.Merge(reply.(protobuf.Message), f.ours)
	case method == "/generated.PluginLister/ListPlugins" && f.velero != nil:
		protobuf.Merge(reply.(protobuf.Message), f.velero)
	default:
		return status.Error(codes.Unimplemented, "unknown service")
	}
	return nil
}

func TestSelectVersions(t *testing.T) {
	t.Parallel()
	chosen := SelectVersions(SupportedKinds(), []ListedAction{
		{"PreBackupAction", "v1", "a"},
		{"PostBackupAction", "v1", "a"},
		{"PreBackupAction", "v9", "b"},
		{"PreRestoreAction", "v1", "a"},
		{"PostRestoreAction", "v1", "a"},
		{"PostRestoreAction", "v9", "b"},
	})
	for id, want := range map[ActionID]bool{
		{"PreBackupAction", "a"}: true, {"PostBackupAction", "a"}: true, {"PreBackupAction", "b"}: false,
		{"PreRestoreAction", "a"}: true, {"PostRestoreAction", "a"}: true, {"PreRestoreAction", "b"}: false, {"PostRestoreAction", "b"}: false,
	} {
		if got := chosen[id].Hook != nil; got != want {
			t.Errorf("%s can be called: %v, want %v", id, got, want)
		}
	}
}

func TestToHookAnswerV1(t *testing.T) {
	t.Parallel()
	const done, again = hookpb.ExecuteResponse_STATUS_DONE, hookpb.ExecuteResponse_STATUS_AGAIN
	for name, tc := range map[string]struct {
		in      *hookpb.ExecuteResponse
		want    executor.Answer
		wantErr string
	}{
		"done":                       {in: &hookpb.ExecuteResponse{Status: done, Message: "m", Outputs: map[string]string{"a": "b"}}, want: executor.Answer{Message: "m", Outputs: map[string]string{"a": "b"}}},
		"again":                      {in: &hookpb.ExecuteResponse{Status: again, CallAgainAfter: durationpb.New(time.Minute)}, want: executor.Answer{RetryAfter: time.Minute}},
		"Again very soon":            {in: &hookpb.ExecuteResponse{Status: again, CallAgainAfter: durationpb.New(1)}, want: executor.Answer{RetryAfter: executor.MinRetryAfter}},
		"Again with outputs":         {in: &hookpb.ExecuteResponse{Status: again, CallAgainAfter: durationpb.New(time.Minute), Outputs: map[string]string{"a": "b"}}, want: executor.Answer{RetryAfter: time.Minute}},
		"Again after zero":           {in: &hookpb.ExecuteResponse{Status: again, CallAgainAfter: durationpb.New(0)}, wantErr: "not part of the contract"},
		"negative Again":             {in: &hookpb.ExecuteResponse{Status: again, CallAgainAfter: durationpb.New(-1)}, wantErr: "not part of the contract"},
		"Again without a valid time": {in: &hookpb.ExecuteResponse{Status: again, CallAgainAfter: &durationpb.Duration{Seconds: 1, Nanos: -1}}, wantErr: "without a valid time"},
		"unknown":                    {in: &hookpb.ExecuteResponse{Status: 42}, wantErr: "answered status 42, which is not part of the contract"},
		"nothing":                    {in: nil, wantErr: "answered status 0"},
		"bad output":                 {in: &hookpb.ExecuteResponse{Status: done, Outputs: map[string]string{"a/b": "c"}}, wantErr: `"a/b" is not allowed`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := toHookAnswerV1(tc.in)
			if tc.wantErr != "" {
				if !errors.As(err, new(*ContractError)) || !strings.Contains(err.Error(), tc.wantErr) {
					t.Errorf("error is %v, want a ContractError with %q", err, tc.wantErr)
				}
				return
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || err != nil {
				t.Errorf("error %v, response (-want +got):\n%s", err, diff)
			}
		})
	}
}
