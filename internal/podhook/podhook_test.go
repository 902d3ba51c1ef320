// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package podhook_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/internal/podhook"
)

// annotated returns annotations with a prefix.
func annotated(prefix string, pairs ...string) map[string]string {
	all := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		all[prefix+pairs[i]] = pairs[i+1]
	}
	return all
}

func hook(prefix string, change func(*podhook.Hook)) *podhook.Hook {
	h := &podhook.Hook{Annotation: prefix + "command", Command: []string{"freeze"}, Timeout: 30 * time.Second}
	if change != nil {
		change(h)
	}
	return h
}

// TestBeforeBackup has the rules of Velero's internal/hook and pkg/podexec.
func TestBeforeBackup(t *testing.T) {
	t.Parallel()
	const pre = "pre.hook.backup.velero.io/"
	for name, tc := range map[string]struct {
		annotations map[string]string
		want        *podhook.Hook
	}{
		"nothing":       {nil, nil},
		"no command":    {annotated(pre, "container", "db", "timeout", "3s"), nil},
		"empty command": {annotated(pre, "command", ""), nil},
		"a word":        {annotated(pre, "command", "freeze"), hook(pre, nil)},
		"a line is one word": {annotated(pre, "command", "/bin/sh -c sync"), hook(pre, func(h *podhook.Hook) {
			h.Command = []string{"/bin/sh -c sync"}
		})},
		"an array": {annotated(pre, "command", `["/bin/sh","-c","sync && echo \"ok\""]`), hook(pre, func(h *podhook.Hook) {
			h.Command = []string{"/bin/sh", "-c", `sync && echo "ok"`}
		})},
		"not quite an array": {annotated(pre, "command", `["/bin/sh",`), hook(pre, func(h *podhook.Hook) { h.Command = []string{`["/bin/sh",`} })},
		"an array of numbers": {annotated(pre, "command", `["kill",-9]`), hook(pre, func(h *podhook.Hook) {
			h.Command = []string{`["kill",-9]`}
		})},
		"all fields": {annotated(pre, "command", "freeze", "container", "db", "on-error", "Continue", "timeout", "1m30s"), hook(pre, func(h *podhook.Hook) {
			h.Container, h.Continue, h.Timeout = "db", true, 90*time.Second
		})},
		"fail": {annotated(pre, "command", "freeze", "on-error", "Fail"), hook(pre, nil)},
		"zero": {annotated(pre, "command", "freeze", "timeout", "0s"), hook(pre, nil)},
		"invalid values": {annotated(pre, "command", "freeze", "on-error", "continue", "timeout", "300"), hook(pre, func(h *podhook.Hook) {
			h.Ignored = []string{pre + "timeout", pre + "on-error"}
		})},
		"a negative timeout": {annotated(pre, "command", "freeze", "timeout", "-1s"), hook(pre, func(h *podhook.Hook) { h.Ignored = []string{pre + "timeout"} })},
		"without a phase": {annotated("hook.backup.velero.io/", "command", "freeze", "timeout", "1s"), hook("hook.backup.velero.io/", func(h *podhook.Hook) {
			h.Timeout = time.Second
		})},
		"with and without a phase": {
			func() map[string]string {
				all := annotated("hook.backup.velero.io/", "command", "old", "container", "old")
				maps.Copy(all, annotated(pre, "command", "freeze"))
				return all
			}(), hook(pre, nil),
		},
		"after it": {annotated("post.hook.backup.velero.io/", "command", "freeze"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, podhook.PreBackupHook(tc.annotations)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestAfterBackup(t *testing.T) {
	t.Parallel()
	if got := podhook.PostBackupHook(annotated("hook.backup.velero.io/", "command", "thaw")); got != nil {
		t.Errorf("without a phase it is after the backup: %+v", got)
	}
	got := podhook.PostBackupHook(annotated("post.hook.backup.velero.io/", "command", "freeze", "timeout", "2m"))
	if diff := cmp.Diff(hook("post.hook.backup.velero.io/", func(h *podhook.Hook) { h.Timeout = 2 * time.Minute }), got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestBeforeBackup_Problem: what cannot be run is a failed hook, which on-error decides about.
func TestBeforeBackup_Problem(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ command, want string }{
		"no words":       {"[]", "names no program"},
		"null":           {"[null]", "names no program"},
		"no program":     {`["","x"]`, "names no program"},
		"too many words": {"[" + strings.Repeat(`"a",`, 256) + `"a"]`, "has 257 words and 257 bytes; at most 256 and 65536 can be run"},
		"too long":       {strings.Repeat("x", 65537), "has 1 words and 65537 bytes"},
		"a NUL":          {`["sh","a\u0000b"]`, "NUL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := podhook.PreBackupHook(annotated("pre.hook.backup.velero.io/", "command", tc.command, "on-error", "Continue"))
			if got == nil || !strings.Contains(got.Problem, tc.want) || !got.Continue {
				t.Errorf("got %+v, want %q", got, tc.want)
			}
		})
	}
}

func TestAfterRestore(t *testing.T) {
	t.Parallel()
	const post = "post.hook.restore.velero.io/"
	for name, tc := range map[string]struct {
		annotations map[string]string
		want        *podhook.RestoreHook
	}{
		"nothing":    {annotated("post.hook.backup.velero.io/", "command", "x"), nil},
		"no command": {annotated(post, "wait-timeout", "3s"), nil},
		"a command": {annotated(post, "command", "freeze"), &podhook.RestoreHook{
			Hook: *hook(post, func(h *podhook.Hook) { h.Continue = true }),
		}},
		"all fields": {
			annotated(post, "command", `["freeze"]`, "container", "db", "on-error", "Fail", "exec-timeout", "3m", "wait-timeout", "4m", "wait-for-ready", "true"),
			&podhook.RestoreHook{
				Hook:        *hook(post, func(h *podhook.Hook) { h.Container, h.Timeout = "db", 3*time.Minute }),
				WaitTimeout: 4 * time.Minute, WaitForReady: true,
			},
		},
		"invalid values": {
			annotated(post, "command", "freeze", "on-error", "Retry", "exec-timeout", "x", "wait-timeout", "-1s", "wait-for-ready", "yes"),
			&podhook.RestoreHook{Hook: *hook(post, func(h *podhook.Hook) {
				h.Continue = true
				h.Ignored = []string{post + "exec-timeout", post + "on-error", post + "wait-timeout", post + "wait-for-ready"}
			})},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, podhook.PostRestoreHook(tc.annotations)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestInitBeforeStart(t *testing.T) {
	t.Parallel()
	const init = "init.hook.restore.velero.io/"
	for name, tc := range map[string]struct {
		annotations map[string]string
		want        *podhook.InitContainer
	}{
		"no image":   {annotated(init, "container-name", "prepare", "command", "x"), nil},
		"an image":   {annotated(init, "container-image", "busybox"), &podhook.InitContainer{Name: "velero-restore-init", Image: "busybox"}},
		"all fields": {annotated(init, "container-image", "busybox", "container-name", "prepare", "command", `["sh","-c","x"]`), &podhook.InitContainer{Name: "prepare", Image: "busybox", Command: []string{"sh", "-c", "x"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, podhook.RestoreInitContainer(tc.annotations)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestHasHook(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		annotations     map[string]string
		backup, restore bool
	}{
		"none":          {annotated("velero.io/", "command", "x"), false, false},
		"before":        {annotated("pre.hook.backup.velero.io/", "command", "x"), true, false},
		"no phase":      {annotated("hook.backup.velero.io/", "command", "x"), true, false},
		"after":         {annotated("post.hook.backup.velero.io/", "command", "x"), true, false},
		"only settings": {annotated("post.hook.backup.velero.io/", "timeout", "1s"), false, false},
		"restored":      {annotated("post.hook.restore.velero.io/", "command", "x"), false, true},
		"an image":      {annotated("init.hook.restore.velero.io/", "container-image", "x"), false, true},
	} {
		if backup, restore := podhook.HasBackupHook(tc.annotations), podhook.HasRestoreHook(tc.annotations); backup != tc.backup || restore != tc.restore {
			t.Errorf("%s: %t %t", name, backup, restore)
		}
	}
}

func TestInitContainer_Prepend(t *testing.T) {
	t.Parallel()
	named := func(names ...any) (containers []any) {
		for _, name := range names {
			containers = append(containers, map[string]any{"name": name, "image": "x"})
		}
		return containers
	}
	for name, tc := range map[string]struct{ had, want []any }{
		"none":                {nil, named("prepare")},
		"another":             {named("other"), named("prepare", "other")},
		"one that waits":      {named("restore-wait", "other"), named("restore-wait", "prepare", "other")},
		"the old one":         {named("restic-wait"), named("restic-wait", "prepare")},
		"one that waits late": {named("other", "restore-wait"), named("prepare", "other", "restore-wait")},
		"the same":            {named("other", "prepare"), named("prepare", "other")},
		"what is none":        {[]any{"x", nil, map[string]any{"name": map[string]any{}}}, append(named("prepare"), "x", nil, map[string]any{"name": map[string]any{}})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			had := slices.Clone(tc.had)
			if diff := cmp.Diff(tc.want, (&podhook.InitContainer{Name: "prepare", Image: "x"}).Prepend(tc.had)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if diff := cmp.Diff(had, tc.had); diff != "" {
				t.Errorf("the argument changed:\n%s", diff)
			}
		})
	}
	got := (&podhook.InitContainer{Name: "a", Image: "b", Command: []string{"c", "d"}}).Prepend(nil)
	if diff := cmp.Diff([]any{map[string]any{"name": "a", "image": "b", "command": []any{"c", "d"}}}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
