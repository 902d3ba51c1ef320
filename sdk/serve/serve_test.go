// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/sdk"
	"github.com/grapnel-dev/grapnel/sdk/hook"
	postbackupv1 "github.com/grapnel-dev/grapnel/sdk/postbackupaction/v1"
	postrestorev1 "github.com/grapnel-dev/grapnel/sdk/postrestoreaction/v1"
	prebackupv1 "github.com/grapnel-dev/grapnel/sdk/prebackupaction/v1"
	prerestorev1 "github.com/grapnel-dev/grapnel/sdk/prerestoreaction/v1"
	"github.com/grapnel-dev/grapnel/sdk/proto"
)

type nothing struct{}

func (nothing) Execute(context.Context, *hook.Request) (*hook.Response, error) {
	return hook.Done(), nil
}

func newPre() (prebackupv1.PreBackupAction, error) { return nothing{}, nil }

func newPost() (postbackupv1.PostBackupAction, error) { return nothing{}, nil }

func TestServe_Errors(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		server *Server
		cookie string
		want   []string
	}{
		"nothing registered": {server: New(), cookie: proto.HandshakeCookieValue, want: []string{"nothing is registered"}},
		"every problem": {
			server: New().RegisterPreBackupActionV1("a/b/c", newPre).RegisterPreBackupActionV1("a", newPre).
				RegisterPreBackupActionV1("a", newPre).RegisterPostBackupActionV1("", newPost),
			cookie: proto.HandshakeCookieValue,
			want:   []string{`"a/b/c" has more than one slash`, `PreBackupAction v1 "a": it is already registered`, "the name is empty"},
		},
		"started manually": {
			server: New().RegisterPreBackupActionV1("a", newPre).RegisterPostBackupActionV1("a", newPost),
			want:   []string{"The operator starts it", "PreBackupAction v1 a", "PostBackupAction v1 a"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := tc.server.servePluginProcess(nil, tc.cookie)
			if err == nil {
				t.Fatal("the plugin was served")
			}
			for _, part := range tc.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q lacks %q", err, part)
				}
			}
		})
	}
}

func TestParseFlags(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args  []string
		level slog.Level
		want  string
	}{
		"none":           {},
		"as the host":    {args: []string{"--log-level", "debug", "--features", "A,B"}, level: slog.LevelDebug, want: "A B"},
		"with equals":    {args: []string{"--log-level=warning", "-features=A"}, level: slog.LevelWarn, want: "A"},
		"unknown flags":  {args: []string{"server", "--uploader-type", "kopia", "--x=y", "--log-level", "error"}, level: slog.LevelError},
		"cut off":        {args: []string{"--features", "A", "--log-level"}, want: "A"},
		"odd level":      {args: []string{"--log-level", "shout"}},
		"empty features": {args: []string{"--features", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := New()
			s.parseFlags(tc.args)
			if got := strings.Join(s.features, " "); s.level.Level() != tc.level || got != tc.want {
				t.Errorf("level %s, features %q; want %s, %q", s.level.Level(), got, tc.level, tc.want)
			}
		})
	}
}

func TestRegistration_GetOrCreateAction(t *testing.T) {
	t.Parallel()
	created := 0
	results := []error{errors.New("no config yet"), nil}
	e := &registration{create: func() (any, error) {
		created++
		if created == 1 {
			panic("too early")
		}
		return nothing{}, results[created-2]
	}}
	for i, want := range []string{"plugin panicked: too early", "no config yet", "", ""} {
		_, err := e.getOrCreateAction()
		if got := fmt.Sprint(err); (want == "") != (err == nil) || !strings.Contains(got, want) {
			t.Errorf("attempt %d: %v, want %q", i, err, want)
		}
	}
	if created != 3 {
		t.Errorf("created %d times, want 3", created)
	}
}

func TestKeyedMutex(t *testing.T) {
	t.Parallel()
	var k keyedMutex
	unlock, err := k.waitAndLockKey(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if other, err := k.waitAndLockKey(t.Context(), "b"); err != nil {
		t.Errorf("another key: %v", err)
	} else {
		other()
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := k.waitAndLockKey(ended, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("a locked key: %v", err)
	}
	got := make(chan error, 1)
	go func() {
		again, err := k.waitAndLockKey(t.Context(), "a")
		if err == nil {
			again()
		}
		got <- err
	}()
	unlock()
	if err := <-got; err != nil {
		t.Errorf("an unlocked key: %v", err)
	}
	if len(k.held) != 0 {
		t.Errorf("%d keys are still locked", len(k.held))
	}
}

func TestValidateRegistrations(t *testing.T) {
	t.Parallel()
	s := New().RegisterPreBackupActionV1("x.io/a", newPre).RegisterPostBackupActionV1("x.io/a", newPost).
		RegisterPreRestoreActionV1("x.io/a", func() (prerestorev1.PreRestoreAction, error) { return nothing{}, nil }).
		RegisterPostRestoreActionV1("x.io/a", func() (postrestorev1.PostRestoreAction, error) { return nothing{}, nil })
	if err := s.registry.validateRegistrations(); err != nil {
		t.Errorf("one name cannot be registered for all kinds: %v", err)
	}
	for _, kind := range []sdk.Kind{
		sdk.KindPreBackupAction, sdk.KindPostBackupAction, sdk.KindPreRestoreAction, sdk.KindPostRestoreAction,
	} {
		e := s.registry.entries[actionID{kind: kind, version: sdk.V1, name: "x.io/a"}]
		if e == nil {
			t.Errorf("the %s is missing", kind)
			continue
		}
		if _, err := e.getOrCreateAction(); err != nil {
			t.Errorf("the %s cannot be created: %v", kind, err)
		}
	}
}

func TestRegistration_NilAction(t *testing.T) {
	t.Parallel()
	s := New().RegisterPreRestoreActionV1("a", func() (prerestorev1.PreRestoreAction, error) { return nil, nil }) //nolint:nilnil // the mistake to detect
	_, err := s.registry.order[0].getOrCreateAction()
	if !errors.Is(err, errNilAction) {
		t.Errorf("error is %v, want one that says that there is no action", err)
	}
}
