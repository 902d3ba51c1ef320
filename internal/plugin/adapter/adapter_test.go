// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package adapter

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/grapnel-dev/grapnel/internal/executor"
	hookpb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/hook/v1"
	pluginpb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/plugin/v1"
)

func TestCheckActions(t *testing.T) {
	t.Parallel()
	const pre, post = "PreBackupAction", "PostBackupAction"
	for name, tc := range map[string]struct {
		in      []*pluginpb.PluginIdentifier
		want    []Action
		wantErr string
	}{
		"sorted": {
			in:   []*pluginpb.PluginIdentifier{{Kind: pre, Version: "v1", Name: "b"}, {Kind: post, Version: "v1", Name: "b"}, {Kind: pre, Version: "v1", Name: "a"}},
			want: []Action{{post, "v1", "b"}, {pre, "v1", "a"}, {pre, "v1", "b"}},
		},
		"newer kind beside": {
			in:   []*pluginpb.PluginIdentifier{{Kind: "MoonAction", Version: "v1", Name: "b"}, {Kind: pre, Version: "v1", Name: "b"}},
			want: []Action{{pre, "v1", "b"}},
		},
		"newer version beside": {
			in:   []*pluginpb.PluginIdentifier{{Kind: pre, Version: "v2", Name: "b"}, {Kind: pre, Version: "v1", Name: "b"}},
			want: []Action{{pre, "v1", "b"}},
		},
		"only newer":     {in: []*pluginpb.PluginIdentifier{{Kind: pre, Version: "v2", Name: "b"}}, wantErr: "upgrade Grapnel"},
		"none":           {wantErr: "provides no actions"},
		"twice":          {in: []*pluginpb.PluginIdentifier{{Kind: pre, Version: "v1", Name: "b"}, {Kind: pre, Version: "v1", Name: "b"}}, wantErr: "twice"},
		"no name":        {in: []*pluginpb.PluginIdentifier{{Kind: pre, Version: "v1"}}, wantErr: "empty"},
		"too many":       {in: make([]*pluginpb.PluginIdentifier, maxActions+1), wantErr: "at most 256"},
		"newer, no name": {in: []*pluginpb.PluginIdentifier{{Kind: "MoonAction", Version: "v1", Name: "a b"}}, wantErr: "not allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := checkActions(tc.in)
			if tc.wantErr != "" {
				var list *ListError
				if !errors.As(err, &list) || list.Reason != ReasonInvalidRegistration || !strings.Contains(err.Error(), tc.wantErr) {
					t.Errorf("error is %v, want InvalidRegistration with %q", err, tc.wantErr)
				}
				return
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || err != nil {
				t.Errorf("error %v, actions (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestHooks(t *testing.T) {
	t.Parallel()
	hooks := Hooks([]Action{
		{"PreBackupAction", "v1", "a"},
		{"PostBackupAction", "v1", "a"},
		{"PreBackupAction", "v9", "b"},
		{"PreRestoreAction", "v1", "a"},
		{"PostRestoreAction", "v1", "a"},
		{"PostRestoreAction", "v9", "b"},
	})
	for id, want := range map[ID]bool{
		{"PreBackupAction", "a"}: true, {"PostBackupAction", "a"}: true, {"PreBackupAction", "b"}: false,
		{"PreRestoreAction", "a"}: true, {"PostRestoreAction", "a"}: true, {"PreRestoreAction", "b"}: false, {"PostRestoreAction", "b"}: false,
	} {
		if got := hooks[id] != nil; got != want {
			t.Errorf("%s can be called: %v, want %v", id, got, want)
		}
	}
}

func TestHookAnswerV1(t *testing.T) {
	t.Parallel()
	const done, again = hookpb.ExecuteResponse_STATUS_DONE, hookpb.ExecuteResponse_STATUS_AGAIN
	for name, tc := range map[string]struct {
		in      *hookpb.ExecuteResponse
		want    executor.Answer
		wantErr string
	}{
		"done":               {in: &hookpb.ExecuteResponse{Status: done, Message: "m", Outputs: map[string]string{"a": "b"}}, want: executor.Answer{Message: "m", Outputs: map[string]string{"a": "b"}}},
		"again":              {in: &hookpb.ExecuteResponse{Status: again, CallAgainAfter: durationpb.New(time.Minute)}, want: executor.Answer{Again: time.Minute}},
		"again very soon":    {in: &hookpb.ExecuteResponse{Status: again, CallAgainAfter: durationpb.New(1)}, want: executor.Answer{Again: executor.MinAgain}},
		"again with outputs": {in: &hookpb.ExecuteResponse{Status: again, CallAgainAfter: durationpb.New(time.Minute), Outputs: map[string]string{"a": "b"}}, want: executor.Answer{Again: time.Minute}},
		"again at once":      {in: &hookpb.ExecuteResponse{Status: again, CallAgainAfter: durationpb.New(0)}, wantErr: "not part of the contract"},
		"again in the past":  {in: &hookpb.ExecuteResponse{Status: again, CallAgainAfter: durationpb.New(-1)}, wantErr: "not part of the contract"},
		"again, broken time": {in: &hookpb.ExecuteResponse{Status: again, CallAgainAfter: &durationpb.Duration{Seconds: 1, Nanos: -1}}, wantErr: "without a valid time"},
		"unknown":            {in: &hookpb.ExecuteResponse{Status: 42}, wantErr: "answered status 42, which is not part of the contract"},
		"nothing":            {in: nil, wantErr: "answered status 0"},
		"bad output":         {in: &hookpb.ExecuteResponse{Status: done, Outputs: map[string]string{"a/b": "c"}}, wantErr: `"a/b" is not allowed`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := hookAnswerV1(tc.in)
			if tc.wantErr != "" {
				if !errors.As(err, new(*ContractError)) || !strings.Contains(err.Error(), tc.wantErr) {
					t.Errorf("error is %v, want a ContractError with %q", err, tc.wantErr)
				}
				return
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || err != nil {
				t.Errorf("error %v, answer (-want +got):\n%s", err, diff)
			}
		})
	}
}
