// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin_test

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/controllers/plugin"
	"github.com/grapnel-dev/grapnel/internal/plugin/catalog"
	"github.com/grapnel-dev/grapnel/internal/plugin/plugintesting"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

var _ = Describe("A Plugin with a real process", Label("plugins"), func() {
	It("follows the binary, the process and the object", func() {
		t := GinkgoTB()
		env := cluster.NewEnv(t)
		dir := t.TempDir()
		binary := filepath.Join(dir, "exampleplugin")
		exited := make(chan string, 8)
		plugins := catalog.New(catalog.Options{OnExit: func(name string) { exited <- name }})
		ctx := t.Context()
		t.Cleanup(func() { plugins.Close(ctx) })
		operator(t, env, plugins, retryAfter(10*time.Millisecond), func(r *plugin.Reconciler) { r.Dir, r.ProcessExits = dir, exited })

		p := create(t, env, command("exampleplugin"))
		await(env, p, metav1.ConditionFalse, "BinaryNotFound")
		if !strings.Contains(p.Status.Message, "exampleplugin") {
			t.Errorf("the message does not name the binary: %q", p.Status.Message)
		}
		if err := os.Link(filepath.Join(programDir, "exampleplugin"), binary); err != nil {
			t.Fatal(err)
		}
		await(env, p, metav1.ConditionTrue, v1alpha1.ReasonLoaded)
		want := []v1alpha1.ProvidedAction{
			{Name: "example.io/copy", Kind: v1alpha1.ActionKindAsyncBackupItem, Version: "v1"},
			{Name: "example.io/move", Kind: v1alpha1.ActionKindAsyncBackupItem, Version: "v1"},
			{Name: "example.io/copy", Kind: v1alpha1.ActionKindAsyncRestoreItem, Version: "v1"},
			{Name: "example.io/secrets", Kind: v1alpha1.ActionKindBackupItem, Version: "v1"},
			{Name: "example.io/snapshot", Kind: v1alpha1.ActionKindBackupItem, Version: "v2"},
			{Name: "example.io/copy", Kind: v1alpha1.ActionKindDelete, Version: "v1"},
			{Name: "example.io/copy", Kind: v1alpha1.ActionKindDeleteItem, Version: "v1"},
			{Name: "example.io/snapshot", Kind: v1alpha1.ActionKindDeleteItem, Version: "v1"},
			{Name: "example.io/directory", Kind: v1alpha1.ActionKindObjectStore, Version: "v1"},
			{Name: "example.io/freeze", Kind: v1alpha1.ActionKindPostBackup, Version: "v1"},
			{Name: "example.io/notify", Kind: v1alpha1.ActionKindPostBackup, Version: "v1"},
			{Name: "example.io/freeze", Kind: v1alpha1.ActionKindPostRestore, Version: "v1"},
			{Name: "example.io/freeze", Kind: v1alpha1.ActionKindPreBackup, Version: "v1"},
			{Name: "example.io/freeze", Kind: v1alpha1.ActionKindPreRestore, Version: "v1"},
			{Name: "example.io/claims", Kind: v1alpha1.ActionKindRestoreItem, Version: "v2"},
			{Name: "example.io/move", Kind: v1alpha1.ActionKindRestoreItem, Version: "v1"},
			{Name: "example.io/registry", Kind: v1alpha1.ActionKindRestoreItem, Version: "v1"},
		}
		if diff := cmp.Diff(want, p.Status.Actions); diff != "" || p.Status.Digest == "" {
			t.Errorf("digest %q, actions (-want +got):\n%s", p.Status.Digest, diff)
		}

		before := pids(t, binary)
		if len(before) != 1 {
			t.Fatalf("processes %v, want one", before)
		}
		if err := syscall.Kill(before[0], syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		suite.Eventually(t, func() string {
			if now := pids(t, binary); len(now) != 1 || slices.Contains(now, before[0]) {
				return "the killed plugin was not restarted"
			}
			return ""
		})
		env.Delete(p)
		env.WaitForDeletion(p)
		suite.Eventually(t, func() string {
			if len(pids(t, binary)) > 0 {
				return "the process outlives its Plugin"
			}
			return ""
		})
	})
})

func pids(t testing.TB, binary string) []int {
	t.Helper()
	var found []int
	for _, line := range plugintesting.FindProcesses(binary) {
		pid, err := strconv.Atoi(strings.Fields(line)[0])
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, pid)
	}
	return found
}
