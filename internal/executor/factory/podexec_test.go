// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package factory_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/executor"
)

// ran returns the pods in which commands ran.
func (w *world) ran() []string {
	var pods []string
	for _, c := range w.commands {
		pods = append(pods, c.pod)
	}
	slices.Sort(pods)
	return pods
}

func TestNewPodExecExecutor_IncludedNamespaces(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		point, subject string
		want           []string
	}{
		"a Backup":              {executor.PointPreBackup, aBackup, []string{"shop/db-0", "shop/db-1"}},
		"a Backup of another":   {executor.PointPreBackup, `{"kind":"Backup","spec":{"includedNamespaces":["stall"]}}`, []string{"stall/db-0"}},
		"a Restore":             {executor.PointPreRestore, `{"kind":"Restore","spec":{"includedNamespaces":["stall"]}}`, []string{"stall/db-0"}},
		"a Restore, mapped":     {executor.PointPreRestore, `{"kind":"Restore","spec":{"includedNamespaces":["shop"],"namespaceMapping":{"shop":"stall"}}}`, []string{"stall/db-0"}},
		"a deleted backup":      {executor.PointDelete, `{"kind":"Backup","apiVersion":"velero.io/v1","spec":{"includedNamespaces":["stall"]}}`, []string{"stall/db-0"}},
		"what the labels claim": {executor.PointPreBackup, `{"kind":"Backup","metadata":{"namespace":"stall","labels":{"includedNamespaces":"stall"}},"spec":{"includedNamespaces":["shop"],"excludedNamespaces":["stall"]}}`, []string{"shop/db-0", "shop/db-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects := append(namespaces("shop", "stall", "private"), runningPod("shop", "db-0"), runningPod("shop", "db-1"), runningPod("stall", "db-0"), runningPod("private", "db-0"))
			w := newWorld(t, objects...)
			of := aPodExec()
			of.PodExec.Target = v1alpha1.PodTargetEach
			plugin := pluginOf(of, preBackup, preRestore, deletion)
			call := callFor(tc.point, tc.subject)
			call.Parameters = map[string]string{"namespace": "private", "pod": "db-0"}
			if _, err := w.build(plugin, v1alpha1.ActionKind(call.ActionKind())).Execute(t.Context(), call); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, w.ran()); diff != "" {
				t.Errorf("pods (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNewPodExecExecutor_Command(t *testing.T) {
	t.Parallel()
	w := newWorld(t, append(namespaces("shop"), runningPod("shop", "db-0"), runningPod("shop", "db-1"))...)
	of := aPodExec()
	of.PodExec.Container = "tools"
	plugin := pluginOf(of, preBackup, postBackup)
	plugin.Spec.Actions[1].Command = []string{"/bin/thaw", "--all"}
	call := callFor(executor.PointPreBackup, aBackup)
	call.Parameters = map[string]string{"command": "rm", "mode": "$(reboot)"}
	for _, kind := range []v1alpha1.ActionKind{preBackup, postBackup} {
		call.Point = strings.TrimSuffix(string(kind), "Action")
		if _, err := w.build(plugin, kind).Execute(t.Context(), call); err != nil {
			t.Fatal(err)
		}
	}
	// Any is the default: one pod for each call.
	if len(w.commands) != 2 {
		t.Fatalf("%d commands ran", len(w.commands))
	}
	freeze, thaw := w.commands[0], w.commands[1]
	if diff := cmp.Diff([][]string{{"/bin/freeze"}, {"/bin/thaw", "--all"}}, [][]string{freeze.words, thaw.words}); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
	if freeze.container != "tools" || !strings.Contains(freeze.stdin, `"mode":"$(reboot)"`) {
		t.Errorf("in container %s it read %s", freeze.container, freeze.stdin)
	}
}

// TestNewPodExecExecutor_NoPod: a missing pod is a failure unless the Plugin says otherwise. It is no failure of an
// action that undoes another one: there is nothing to thaw, and owed clean-up would be retried
// forever.
func TestNewPodExecExecutor_NoPod(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		kind    v1alpha1.ActionKind
		missing v1alpha1.WhenMissing
		// pair is the other action of the pair.
		pair  v1alpha1.ActionKind
		fails bool
	}{
		"before":              {kind: preBackup, missing: v1alpha1.WhenMissingFail, fails: true},
		"before, by default":  {kind: preRestore, fails: true},
		"before, skipped":     {kind: preBackup, missing: v1alpha1.WhenMissingSkip},
		"undone":              {kind: postBackup, missing: v1alpha1.WhenMissingFail, pair: preBackup},
		"undone by default":   {kind: postRestore, pair: preRestore},
		"of another point":    {kind: postRestore, pair: preBackup, fails: true},
		"after a Restore":     {kind: postRestore, fails: true},
		"a backup is deleted": {kind: deletion, missing: v1alpha1.WhenMissingFail, fails: true},
		"deleted, skipped":    {kind: deletion, missing: v1alpha1.WhenMissingSkip},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, namespaces("shop")...)
			of := aPodExec()
			of.PodExec.WhenMissing = tc.missing
			kinds := []v1alpha1.ActionKind{tc.kind}
			if tc.pair != "" {
				kinds = append(kinds, tc.pair)
			}
			call := callFor(strings.TrimSuffix(string(tc.kind), "Action"), aBackup)
			answer, err := w.build(pluginOf(of, kinds...), tc.kind).Execute(t.Context(), call)
			if tc.fails {
				wantError(t, err, executor.Unreachable, "no pod that matches \"app=db\" runs in the 1 namespace included")
			} else if err != nil || !strings.Contains(answer.Message, "nothing was done") {
				t.Errorf("got %+v, %v", answer, err)
			}
		})
	}
}

// TestNewPodExecExecutor_PendingPod: a clean-up action waits for a pod that does not run yet, and then runs its
// command there.
func TestNewPodExecExecutor_PendingPod(t *testing.T) {
	t.Parallel()
	pod := runningPod("shop", "db-0")
	pod.Status.Phase = corev1.PodPending
	w := newWorld(t, append(namespaces("shop"), pod)...)
	run := w.build(pluginOf(aPodExec(), postBackup, preBackup), postBackup)
	call := callFor(executor.PointPostBackup, aBackup)
	_, err := run.Execute(t.Context(), call)
	wantError(t, err, executor.Unreachable, "shop/db-0: it does not run: Pending")
	pod.Status.Phase = corev1.PodRunning
	if err := w.client.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	if answer, err := run.Execute(t.Context(), call); err != nil || strings.Contains(answer.Message, "nothing was done") {
		t.Errorf("got %+v, %v", answer, err)
	}
}

// TestNewPodExecExecutor_RequireAnswer: a command that prints nothing fails only if the Plugin requires an answer.
func TestNewPodExecExecutor_RequireAnswer(t *testing.T) {
	t.Parallel()
	for _, required := range []bool{false, true} {
		w := newWorld(t, append(namespaces("shop"), runningPod("shop", "db-0"))...)
		of := aPodExec()
		of.PodExec.RequireAnswer = required
		_, err := w.build(pluginOf(of, preBackup), preBackup).Execute(t.Context(), callFor(executor.PointPreBackup, aBackup))
		if required {
			wantError(t, err, executor.Failed, "it ended without an answer")
		} else if err != nil {
			t.Error(err)
		}
	}
}

func TestNewPodExecExecutor_NamespaceErrors(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.onList = func(l client.ObjectList) error {
		if _, ok := l.(*metav1.PartialObjectMetadataList); ok {
			return apierrors.NewInternalError(errRefused)
		}
		return nil
	}
	_, err := w.build(pluginOf(aPodExec(), preBackup), preBackup).Execute(t.Context(), callFor(executor.PointPreBackup, aBackup))
	wantError(t, err, executor.Unreachable, "the included namespaces could not be determined")
	_, err = w.build(pluginOf(aPodExec(), preBackup), preBackup).Execute(t.Context(), callFor(executor.PointPreBackup, `{"kind":"Secret"}`))
	if err == nil || len(w.commands) > 0 {
		t.Errorf("error is %v, commands %v", err, w.commands)
	}
}
