// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package plugins

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/plugin/catalog"
	pluginclient "github.com/grapnel-dev/grapnel/internal/plugin/client"
	"github.com/grapnel-dev/grapnel/internal/plugin/plugintesting"
	"github.com/grapnel-dev/grapnel/test/interop/plugins/actions"
)

// every makes the same call to an action of every kind and version.
func (h *host) every(ctx context.Context, what string) map[string]error {
	object := do(what)
	return map[string]error{
		actions.BackupV1:  second(h.archive(ctx, actions.BackupV1, object)),
		actions.BackupV2:  second(h.archive(ctx, actions.BackupV2, object)),
		actions.RestoreV1: second(h.bring(ctx, actions.RestoreV1, object)),
		actions.RestoreV2: second(h.bring(ctx, actions.RestoreV2, object)),
		actions.Delete:    h.remove(ctx, actions.Delete, object),
	}
}

// mustBeTheSame checks that the process is the one that it was: it knows the operation that
// was started before, and nothing has ended.
func (h *host) mustBeTheSame(operation func() error) {
	h.t.Helper()
	if err := operation(); err != nil {
		h.t.Errorf("the process forgot what it did before: %v", err)
	}
	if n := h.exits.Load(); n > 0 {
		h.t.Errorf("%d processes have ended", n)
	}
}

func TestItemActions_Errors(t *testing.T) {
	forReleases(t, func(t *testing.T, release string) {
		h := loaded(t, release)
		for what, want := range map[string]string{
			actions.DoFail: "freezing the volume: the volume is busy", actions.DoFailPlainly: "settings is not to be touched",
		} {
			for name, err := range h.every(t.Context(), what) {
				checkFailure(t, name+", "+what, err, want)
			}
		}
		// Of an error that knows where it was made, the log says it.
		h.mustTellOrigins(5, regexp.MustCompile(`behaviour\.go:\d+ \S*failure"`))
	})
}

// mustTellOrigins looks for the places of errors in the log of the run.
func (h *host) mustTellOrigins(want int, place *regexp.Regexp) {
	h.t.Helper()
	if text := h.log.Text(); len(place.FindAllString(text, -1)) != want {
		h.t.Errorf("the log does not name %s %d times:\n%s", place, want, text)
	}
}

// checkFailure wants an error that says only what is wrong.
func checkFailure(t *testing.T, what string, err error, want string) {
	t.Helper()
	var failed *pluginclient.CallError
	if !errors.As(err, &failed) {
		t.Errorf("%s: error %v is none of a call", what, err)
		return
	}
	if failed.Kind != executor.Failed || failed.Text != want {
		t.Errorf("%s: %s, %q; want Failed, %q", what, failed.Kind, failed.Text, want)
	}
}

func TestItemActions_Panics(t *testing.T) {
	forReleases(t, func(t *testing.T, release string) {
		h := loaded(t, release)
		op := startOperation(t, h)
		for what, want := range map[string]string{
			actions.DoPanic:      "plugin panicked: the plugin has a bug",
			actions.DoPanicError: "plugin panicked: the plugin has a bug in settings",
		} {
			for name, err := range h.every(t.Context(), what) {
				checkFailure(t, name+", "+what, err, want)
			}
		}
		h.mustTellOrigins(10, regexp.MustCompile(`behaviour\.go:\d+ \S*applyAnnotation"`))
		h.mustBeTheSame(func() error { return second(askProgress(t, h, h.backup(actions.BackupV2), op)) })
	})
}

func TestItemActions_ProcessExit(t *testing.T) {
	forReleases(t, func(t *testing.T, release string) {
		h := loaded(t, release)
		_, err := h.archive(t.Context(), actions.BackupV1, do(actions.DoExit))
		var failed *pluginclient.CallError
		if !errors.As(err, &failed) || failed.Kind != executor.Unreachable || !strings.Contains(failed.Text, "ended with exit code 7") {
			t.Errorf("the call during which the process ended has the error %v", err)
		}
		// The next call finds a process that works.
		if _, err := h.bring(t.Context(), actions.RestoreV2, configMap(nil)); err != nil {
			t.Errorf("the call after it: %v", err)
		}
		if n := h.exits.Load(); n != 1 {
			t.Errorf("%d processes have ended, want 1", n)
		}
	})
}

func TestItemActions_HungCall(t *testing.T) {
	forReleases(t, func(t *testing.T, release string) {
		h := loaded(t, release)
		op := startOperation(t, h)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- second(h.archive(ctx, actions.BackupV2, do(actions.DoHang))) }()
		plugintesting.Eventually(t, "the action has begun", func() bool {
			return strings.Contains(h.log.Text(), actions.LineBeforeHanging)
		})
		// Others continue meanwhile.
		if err := h.remove(t.Context(), actions.Delete, configMap(nil)); err != nil {
			t.Errorf("a call beside the one that hangs: %v", err)
		}
		cancel()
		var failed *pluginclient.CallError
		if err := <-done; !errors.As(err, &failed) || failed.Kind != executor.Interrupted {
			t.Errorf("the call that hangs has the error %v", err)
		}
		h.mustBeTheSame(func() error { return second(askProgress(t, h, h.backup(actions.BackupV2), op)) })
	})
}

// TestLoad_UnusableAction: the plugin is not used, since the plan of a run would
// promise what cannot be done.
func TestLoad_UnusableAction(t *testing.T) {
	forReleases(t, func(t *testing.T, release string) {
		h := newHost(t)
		err := h.load(release, map[string]string{actions.UnusableVariable: "yes"})
		var refused *catalog.LoadError
		if !errors.As(err, &refused) {
			t.Fatalf("error %v, want one of loading", err)
		}
		for _, part := range []string{actions.BackupUnusable, "the licence of this action has expired"} {
			if !strings.Contains(refused.Message, part) {
				t.Errorf("%q does not tell %q", refused.Message, part)
			}
		}
	})
}
