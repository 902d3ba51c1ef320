// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package factory_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/exec"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/executor"
	sdkhook "github.com/grapnel-dev/grapnel/sdk/hook"
)

// failing are commands that fail, by namespace, pod and program.
type failing map[string]bool

// Exec implements podexec.CommandRunner.
func (f failing) Exec(_ context.Context, namespace, pod, _ string, words []string, _ io.Reader, _, _ io.Writer) error {
	if f[namespace+"/"+pod+" "+words[0]] {
		return exec.CodeExitError{Err: errors.New("command terminated with exit code 1"), Code: 1}
	}
	return nil
}

func veleroHooks(kinds ...v1alpha1.ActionKind) *v1alpha1.Plugin {
	return pluginOf(v1alpha1.Executor{Builtin: &v1alpha1.BuiltinExecutor{VeleroHooks: &v1alpha1.VeleroHooksExecutor{}}}, kinds...)
}

// hookedPod returns a running pod with commands before and after a backup.
func hookedPod(namespace, name string) *corev1.Pod {
	pod := runningPod(namespace, name)
	pod.Annotations = map[string]string{
		"pre.hook.backup.velero.io/command": `["freeze","` + name + `"]`, "pre.hook.backup.velero.io/container": "tools",
		"post.hook.backup.velero.io/command": "thaw",
		// kubectl exec uses it, and Velero does not.
		"kubectl.kubernetes.io/default-container": "tools",
	}
	return pod
}

// addPod adds a pod with its status.
func (w *world) addPod(pod *corev1.Pod) {
	w.t.Helper()
	status := pod.Status
	err := w.client.Create(w.t.Context(), pod)
	pod.Status = status
	if err = errors.Join(err, w.client.Status().Update(w.t.Context(), pod)); err != nil {
		w.t.Fatal(err)
	}
}

// ranCommands returns the commands that ran, as "pod container command".
func (w *world) ranCommands() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []string
	for _, c := range w.commands {
		all = append(all, c.pod+" "+c.container+" "+strings.Join(c.words, " "))
	}
	w.commands = nil
	return all
}

func TestPodHookExecutor_Backup(t *testing.T) {
	t.Parallel()
	objects := func() []client.Object {
		excluded, labeled, ended := hookedPod("shop", "excluded"), hookedPod("shop", "web"), hookedPod("shop", "ended")
		excluded.Labels["velero.io/exclude-from-backup"] = "true"
		labeled.Labels = map[string]string{"app": "web"}
		ended.Status.Phase = corev1.PodFailed
		return append(namespaces("shop", "stall", operatorNamespace), hookedPod("shop", "db-0"), runningPod("shop", "none"), ended, excluded, labeled,
			hookedPod("stall", "db-0"), hookedPod(operatorNamespace, "operator"))
	}
	for name, tc := range map[string]struct {
		spec string
		want []string
	}{
		"a namespace":   {`"includedNamespaces":["shop"]`, []string{"shop/db-0 tools freeze db-0", "shop/web tools freeze web"}},
		"labels":        {`"includedNamespaces":["shop"],"labelSelector":{"matchLabels":{"app":"db"}}`, []string{"shop/db-0 tools freeze db-0"}},
		"one of labels": {`"includedNamespaces":["shop"],"orLabelSelectors":[{"matchLabels":{"app":"x"}},{"matchLabels":{"app":"web"}}]`, []string{"shop/web tools freeze web"}},
		"no pods":       {`"includedNamespaces":["shop"],"excludedResources":["po"]`, nil},
		"only claims":   {`"includedNamespaces":["shop"],"includedResources":["persistentvolumeclaims"]`, nil},
		"among others":  {`"includedNamespaces":["stall"],"includedResources":["pvc","Pods"]`, []string{"stall/db-0 tools freeze db-0"}},
		"scoped lists":  {`"includedNamespaces":["stall"],"excludedNamespaceScopedResources":["pods"]`, nil},
		"all":           {``, []string{"shop/db-0 tools freeze db-0", "shop/web tools freeze web", "stall/db-0 tools freeze db-0"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, objects()...)
			call := callFor(executor.PointPreBackup, `{"kind":"Backup","metadata":{"uid":"b-1"},"spec":{`+tc.spec+`}}`)
			if _, err := w.build(veleroHooks(preBackup, postBackup), preBackup).Execute(t.Context(), call); err != nil {
				t.Fatal(err)
			}
			got := w.ranCommands()
			// The pods are called in parallel.
			if diff := cmp.Diff(tc.want, sorted(got)); diff != "" {
				t.Errorf("commands (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPodHookExecutor_Pair: a pod gets the command after the backup if the one before it was started
// there, whatever happened, and once.
func TestPodHookExecutor_Pair(t *testing.T) {
	t.Parallel()
	onlyPost := hookedPod("shop", "only-post")
	delete(onlyPost.Annotations, "pre.hook.backup.velero.io/command")
	crashed := hookedPod("shop", "crashed")
	crashed.Status.ContainerStatuses[1].State = corev1.ContainerState{}
	w := newWorld(t, append(namespaces("shop"), hookedPod("shop", "db-0"), hookedPod("shop", "db-1"), crashed, onlyPost)...)
	plugin := veleroHooks(preBackup, postBackup)
	w.CommandRunner = failing{"shop/db-1 freeze": true}
	call := callFor(executor.PointPreBackup, aBackup)
	_, err := w.build(plugin, preBackup).Execute(t.Context(), call)
	wantError(t, err, executor.Failed, "3 pods: 1 ok, 1 not reached, 1 failed (shop/db-1: exit code 1")
	failed := (*executor.Error)(nil)
	if !errors.As(err, &failed) {
		t.Fatal(err)
	}

	// A repeated attempt leaves out what succeeded.
	w.CommandRunner = w
	call.Attempt, call.Progress = 2, failed.Progress
	_, err = w.build(plugin, preBackup).Execute(t.Context(), call)
	wantError(t, err, executor.Unreachable, "2 pods: 1 ok, 1 not reached (shop/crashed: its container tools does not run")
	if diff := cmp.Diff([]string{"shop/db-1 tools freeze db-1"}, w.ranCommands()); diff != "" || !errors.As(err, &failed) {
		t.Errorf("commands of the second attempt (-want +got):\n%s", diff)
	}

	// The pod that was not reached is up after that, and another one is new.
	crashed.Status.ContainerStatuses[1].State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	if err := w.client.Status().Update(t.Context(), crashed); err != nil {
		t.Fatal(err)
	}
	w.addPod(hookedPod("shop", "late"))
	after := callFor(executor.PointPostBackup, aBackup)
	after.Outputs = map[string]map[string]string{"freeze": failed.Progress}
	w.CommandRunner = failing{"shop/db-0 thaw": true}
	_, err = w.build(plugin, postBackup).Execute(t.Context(), after)
	wantError(t, err, executor.Failed, "3 pods: 2 ok, 1 failed (shop/db-0: exit code 1")
	if !errors.As(err, &failed) {
		t.Fatal(err)
	}
	w.CommandRunner = w
	after.Attempt, after.Progress = 2, failed.Progress
	answer, err := w.build(plugin, postBackup).Execute(t.Context(), after)
	if err != nil || answer.Message != "1 pod: 1 ok (2 in earlier calls)" {
		t.Errorf("got %+v, %v", answer, err)
	}
	if diff := cmp.Diff([]string{"shop/db-0 db thaw"}, w.ranCommands()); diff != "" {
		t.Errorf("commands of the second clean-up (-want +got):\n%s", diff)
	}

	// What an operator that crashed did is unknown: all pods are thawed.
	after.Attempt, after.Progress, after.Outputs = 1, nil, nil
	if _, err := w.build(plugin, postBackup).Execute(t.Context(), after); err != nil {
		t.Fatal(err)
	}
	want := []string{"shop/crashed db thaw", "shop/db-0 db thaw", "shop/db-1 db thaw", "shop/late db thaw", "shop/only-post db thaw"}
	if diff := cmp.Diff(want, sorted(w.ranCommands())); diff != "" {
		t.Errorf("commands after a crash (-want +got):\n%s", diff)
	}
}

// TestPodHookExecutor_Outputs: the action before a backup passes the pods on to the one after it, which
// remembers where it succeeded.
func TestPodHookExecutor_Outputs(t *testing.T) {
	t.Parallel()
	objects := namespaces("shop")
	for i := range 1000 {
		pod := hookedPod("shop", fmt.Sprintf("db-%03d", i))
		pod.Annotations["pre.hook.backup.velero.io/on-error"] = "Continue"
		objects = append(objects, pod)
	}
	w := newWorld(t, objects...)
	plugin := veleroHooks(preBackup, postBackup)
	answer, err := w.build(plugin, preBackup).Execute(t.Context(), callFor(executor.PointPreBackup, aBackup))
	if err = errors.Join(err, sdkhook.ValidateOutputs(answer.Outputs)); err != nil {
		t.Fatal(err)
	}
	w.ranCommands()
	w.addPod(hookedPod("shop", "late"))
	after := callFor(executor.PointPostBackup, aBackup)
	after.Outputs = map[string]map[string]string{"freeze": answer.Outputs}
	w.CommandRunner = failing{"shop/db-007 thaw": true}
	_, err = w.build(plugin, postBackup).Execute(t.Context(), after)
	wantError(t, err, executor.Failed, "1000 pods: 999 ok, 1 failed (shop/db-007: exit code 1")
	failed := (*executor.Error)(nil)
	if !errors.As(err, &failed) || sdkhook.ValidateOutputs(failed.Progress) != nil {
		t.Fatalf("progress %v", failed)
	}
	w.CommandRunner, after.Attempt, after.Progress = w, 2, failed.Progress
	if _, err = w.build(plugin, postBackup).Execute(t.Context(), after); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"shop/db-007 db thaw"}, w.ranCommands()); diff != "" {
		t.Errorf("commands of the second attempt (-want +got):\n%s", diff)
	}
	// With more pods than can be remembered, none is frozen, and none is thawed.
	_, err = w.build(plugin, preBackup).Execute(t.Context(), callFor(executor.PointPreBackup, aBackup))
	wantError(t, err, executor.Invalid, "1001 pods have commands, and at most 1000 can be remembered: include fewer")
	if !errors.As(err, &failed) {
		t.Fatal(err)
	}
	after.Progress, after.Outputs["freeze"] = nil, failed.Progress
	if _, err = w.build(plugin, postBackup).Execute(t.Context(), after); err != nil || len(w.ranCommands()) > 0 {
		t.Error(err)
	}
	// What an operator that crashed did is unknown: no pod stays frozen.
	after.Outputs = nil
	if _, err = w.build(plugin, postBackup).Execute(t.Context(), after); err != nil || len(w.ranCommands()) != 1001 {
		t.Error(err)
	}
	// Without pods that have commands before it, none is thawed.
	none := newWorld(t, namespaces("shop")...)
	if answer, err = none.build(plugin, preBackup).Execute(t.Context(), callFor(executor.PointPreBackup, aBackup)); err != nil {
		t.Fatal(err)
	}
	none.addPod(hookedPod("shop", "late"))
	after.Outputs = map[string]map[string]string{"freeze": answer.Outputs}
	if answer, err = none.build(plugin, postBackup).Execute(t.Context(), after); err != nil || len(none.ranCommands()) > 0 {
		t.Errorf("got %+v, %v", answer, err)
	}
}

// hanging are the pods, by namespace and name, whose commands hang.
type hanging struct {
	*world
	pods map[string]bool
}

// Exec implements podexec.CommandRunner.
func (h hanging) Exec(ctx context.Context, namespace, pod, container string, words []string, in io.Reader, out, errs io.Writer) error {
	if h.pods[namespace+"/"+pod] {
		<-ctx.Done()
		return ctx.Err()
	}
	return h.world.Exec(ctx, namespace, pod, container, words, in, out, errs)
}

// TestPodHookExecutor_HangingCommands: pods whose commands hang as long as they like do not keep the last
// pod frozen.
func TestPodHookExecutor_HangingCommands(t *testing.T) {
	t.Parallel()
	objects, hang := namespaces("shop"), map[string]bool{}
	for i := range 17 {
		pod := hookedPod("shop", fmt.Sprintf("db-%02d", i))
		pod.Annotations["post.hook.backup.velero.io/timeout"] = "24h"
		objects, hang["shop/"+pod.Name] = append(objects, pod), true
	}
	w := newWorld(t, append(objects, hookedPod("shop", "frozen"))...)
	w.CommandRunner = hanging{w, hang}
	plugin := veleroHooks(preBackup, postBackup)
	plugin.Spec.Actions[1].Timeout = &metav1.Duration{Duration: 20 * time.Millisecond}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err := w.build(plugin, postBackup).Execute(ctx, callFor(executor.PointPostBackup, aBackup))
	wantError(t, err, executor.Failed, "18 pods: 1 ok, 17 failed (shop/db-00: the command did not end within 10ms, the most that the action allows")
	if diff := cmp.Diff([]string{"shop/frozen db thaw"}, w.ranCommands()); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
}

// TestPodHookExecutor_NothingToUndo: a pod that does not run keeps the clean-up owed only if a command
// before the backup may have run in it.
func TestPodHookExecutor_NothingToUndo(t *testing.T) {
	t.Parallel()
	owner := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "db", UID: "set", Controller: new(true)}
	for name, change := range map[string]func(*corev1.Pod){
		"waits for a node": func(pod *corev1.Pod) { pod.Status = corev1.PodStatus{Phase: corev1.PodPending} },
		"on a lost node":   func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodUnknown },
		"being deleted": func(pod *corev1.Pod) {
			pod.DeletionTimestamp, pod.Finalizers, pod.OwnerReferences = &metav1.Time{Time: time.Now()}, []string{"a.io/hold"}, []metav1.OwnerReference{owner}
		},
	} {
		for _, frozen := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, frozen: %v", name, frozen), func(t *testing.T) {
				t.Parallel()
				pod := hookedPod("shop", "db-0")
				pod.CreationTimestamp = metav1.Now()
				if !frozen {
					delete(pod.Annotations, "pre.hook.backup.velero.io/command")
				}
				change(pod)
				w := newWorld(t, append(namespaces("shop"), pod, hookedPod("shop", "db-1"))...)
				// Whether the command before the backup ran is unknown.
				_, err := w.build(veleroHooks(preBackup, postBackup), postBackup).Execute(t.Context(), callFor(executor.PointPostBackup, aBackup))
				if frozen {
					wantError(t, err, executor.Unreachable, "1 not reached (shop/db-0: it does not run: ")
				} else if err != nil {
					t.Error(err)
				}
			})
		}
	}
}

func TestPodHookExecutor_Continue(t *testing.T) {
	t.Parallel()
	pod := hookedPod("shop", "db-0")
	pod.Annotations["pre.hook.backup.velero.io/on-error"] = "Continue"
	pod.Annotations["pre.hook.backup.velero.io/timeout"] = "soon"
	w := newWorld(t, append(namespaces("shop"), pod)...)
	w.CommandRunner = failing{"shop/db-0 freeze": true}
	answer, err := w.build(veleroHooks(preBackup, postBackup), preBackup).Execute(t.Context(), callFor(executor.PointPreBackup, aBackup))
	if err != nil || !answer.Ignored || !strings.Contains(answer.Message, "1 failed and ignored (shop/db-0: exit code 1") {
		t.Errorf("got %+v, %v", answer, err)
	}
}

// stampKey proves what Restores created.
func stampKey() *corev1.Secret {
	return secret(operatorNamespace, "grapnel-restore-stamp-key", map[string]string{"key": "key"})
}

// restoredPod returns a running pod with a command, which the Restore with this UID created.
func restoredPod(name, uid string) *corev1.Pod {
	pod := runningPod("shop", name)
	pod.Labels[v1alpha1.LabelRestoreName] = uid
	pod.Annotations = map[string]string{"post.hook.restore.velero.io/command": "load"}
	stampPod(pod, uid, "key")
	return pod
}

// stampPod adds the annotation of docs/adr/0012-restore-stamps.md.
func stampPod(pod *corev1.Pod, uid, key string) {
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write(fmt.Appendf(nil, "%q", []string{"created", uid, "", "pods", pod.Namespace, pod.Name}))
	pod.Annotations["grapnel.dev/restored"] = "created " + uid + " " + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// aRestore returns a Restore that has just completed.
func aRestore(uid string) string {
	return fmt.Sprintf(
		`{"kind":"Restore","metadata":{"name":%q,"uid":%q},"spec":{"includedNamespaces":["shop"]},"status":{"completionTimestamp":%q}}`,
		uid, uid, time.Now().UTC().Format(time.RFC3339))
}

// TestPodHookExecutor_RestoresShareAPod: a Restore with the policy update labels pods that it found. The
// command runs for the Restore that created the pod, and for no other.
func TestPodHookExecutor_RestoresShareAPod(t *testing.T) {
	t.Parallel()
	relabeled, forged, bare := restoredPod("relabeled", "r-1"), restoredPod("forged", "r-1"), restoredPod("bare", "r-1")
	relabeled.Labels[v1alpha1.LabelRestoreName] = "r-2"
	stampPod(forged, "r-1", "another key")
	delete(bare.Annotations, "grapnel.dev/restored")
	w := newWorld(t, append(namespaces("shop"), stampKey(), relabeled, forged, bare)...)
	for uid, want := range map[string][]string{"r-1": {"shop/relabeled db load"}, "r-2": nil} {
		if _, err := w.build(veleroHooks(postRestore), postRestore).Execute(t.Context(), callFor(executor.PointPostRestore, aRestore(uid))); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, w.ranCommands()); diff != "" {
			t.Errorf("commands of %s (-want +got):\n%s", uid, diff)
		}
	}
}

// TestPodHookExecutor_ListsPages: a large namespace is listed in pages, and only restored pods are.
func TestPodHookExecutor_ListsPages(t *testing.T) {
	t.Parallel()
	objects := append(namespaces("shop"), stampKey(), restoredPod("restored", "r-1"))
	for i := range 600 {
		objects = append(objects, hookedPod("shop", fmt.Sprintf("db-%03d", i)))
	}
	w := newWorld(t, objects...)
	if _, err := w.build(veleroHooks(preBackup, postBackup), preBackup).Execute(t.Context(), callFor(executor.PointPreBackup, aBackup)); err != nil {
		t.Fatal(err)
	}
	if ran := w.ranCommands(); len(ran) != 600 {
		t.Errorf("%d commands ran", len(ran))
	}
	for _, list := range w.podLists {
		if list.Limit <= 0 || list.Limit > 500 {
			t.Errorf("a page has %d pods", list.Limit)
		}
	}
	w.podLists = nil
	if _, err := w.build(veleroHooks(postRestore), postRestore).Execute(t.Context(), callFor(executor.PointPostRestore, aRestore("r-1"))); err != nil {
		t.Fatal(err)
	}
	if ran := w.ranCommands(); len(ran) != 1 || len(w.podLists) == 0 {
		t.Errorf("ran %v after %d lists", ran, len(w.podLists))
	}
	for _, list := range w.podLists {
		if got := list.LabelSelector.String(); got != v1alpha1.LabelRestoreName {
			t.Errorf("the selector is %q", got)
		}
	}
}

// TestPodHookExecutor_RestoreWithoutKey: no command is left out in silence.
func TestPodHookExecutor_RestoreWithoutKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t, append(namespaces("shop"), restoredPod("db-0", "r-1"))...)
	_, err := w.build(veleroHooks(postRestore), postRestore).Execute(t.Context(), callFor(executor.PointPostRestore, aRestore("r-1")))
	wantError(t, err, executor.Unreachable, "the Secret grapnel-restore-stamp-key with which Restores prove what they created could not be read")
}

// TestPodHookExecutor_Restore: the commands run in the pods that the Restore created, as soon as their
// containers run, and once in each.
func TestPodHookExecutor_Restore(t *testing.T) {
	t.Parallel()
	restored := func(name string, annotations map[string]string) *corev1.Pod {
		pod := restoredPod(name, "r-1")
		pod.Annotations["post.hook.restore.velero.io/on-error"] = "Fail"
		for key, value := range annotations {
			pod.Annotations["post.hook.restore.velero.io/"+key] = value
		}
		return pod
	}
	pending := restored("pending", map[string]string{"wait-timeout": "1h"})
	pending.Status = corev1.PodStatus{Phase: corev1.PodPending}
	objects := []client.Object{stampKey(), restored("up", nil), pending, restored("ignored", map[string]string{"on-error": "Continue"})}
	w := newWorld(t, append(namespaces("shop"), objects...)...)
	run := w.build(veleroHooks(postRestore), postRestore)
	call := callFor(executor.PointPostRestore, aRestore("r-1"))
	w.CommandRunner = failing{"shop/ignored load": true}
	answer, err := run.Execute(t.Context(), call)
	if err != nil || answer.RetryAfter <= 0 || !strings.Contains(answer.Message, "shop/pending: its container db does not run yet") {
		t.Fatalf("got %+v, %v", answer, err)
	}
	pending.Status = runningPod("shop", "pending").Status
	if err := w.client.Status().Update(t.Context(), pending); err != nil {
		t.Fatal(err)
	}
	w.CommandRunner, call.Progress = w, answer.Progress
	// Another operator may make the next call.
	answer, err = w.build(veleroHooks(postRestore), postRestore).Execute(t.Context(), call)
	if err != nil || !answer.Ignored || answer.Message != "1 pod: 1 ok (2 in earlier calls); failed and ignored: shop/ignored: exit code 1" {
		t.Errorf("got %+v, %v", answer, err)
	}
	if diff := cmp.Diff([]string{"shop/pending db load"}, w.ranCommands()); diff != "" {
		t.Errorf("commands of the second call (-want +got):\n%s", diff)
	}
}

// TestPodHookExecutor_FailureWhileOthersWait: a command that fails in one restored pod does not keep that of
// another from being run. It runs once in an attempt, which fails at the end.
func TestPodHookExecutor_FailureWhileOthersWait(t *testing.T) {
	t.Parallel()
	broken, pending := restoredPod("broken", "r-1"), restoredPod("pending", "r-1")
	broken.Annotations["post.hook.restore.velero.io/on-error"] = "Fail"
	pending.Status = corev1.PodStatus{Phase: corev1.PodPending}
	w := newWorld(t, append(namespaces("shop"), stampKey(), broken, pending)...)
	run := w.build(veleroHooks(postRestore), postRestore)
	call := callFor(executor.PointPostRestore, aRestore("r-1"))
	w.CommandRunner = failing{"shop/broken load": true}
	answer, err := run.Execute(t.Context(), call)
	if err = errors.Join(err, sdkhook.ValidateOutputs(answer.Progress)); err != nil || answer.RetryAfter <= 0 {
		t.Fatalf("got %+v, %v", answer, err)
	}

	w.CommandRunner, call.Progress = w, answer.Progress
	answer, err = run.Execute(t.Context(), call)
	if err != nil || answer.RetryAfter <= 0 || !strings.Contains(answer.Message, "; failed earlier: shop/broken: exit code 1") {
		t.Fatalf("got %+v, %v", answer, err)
	}
	if ran := w.ranCommands(); len(ran) > 0 {
		t.Errorf("ran %v", ran)
	}

	pending.Status = runningPod("shop", "pending").Status
	if err := w.client.Status().Update(t.Context(), pending); err != nil {
		t.Fatal(err)
	}
	call.Progress = answer.Progress
	_, err = run.Execute(t.Context(), call)
	wantError(t, err, executor.Failed, "1 pod: 1 ok; failed earlier: shop/broken: exit code 1")
	if diff := cmp.Diff([]string{"shop/pending db load"}, w.ranCommands()); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}

	failed := (*executor.Error)(nil)
	if !errors.As(err, &failed) {
		t.Fatal(err)
	}
	call.Attempt, call.Progress = 2, failed.Progress
	if answer, err = run.Execute(t.Context(), call); err != nil || answer.Message != "1 pod: 1 ok (1 in earlier calls)" {
		t.Errorf("got %+v, %v", answer, err)
	}
	if diff := cmp.Diff([]string{"shop/broken db load"}, w.ranCommands()); diff != "" {
		t.Errorf("commands of the second attempt (-want +got):\n%s", diff)
	}
}

func TestPodHookExecutor_InvalidSubject(t *testing.T) {
	t.Parallel()
	w := newWorld(t, namespaces("shop")...)
	for subject, want := range map[string]string{
		`{"kind":`: "decoding the Backup or Restore",
		`{"kind":"Backup","spec":{"labelSelector":{"matchExpressions":[{"key":"a","operator":"Near"}]}}}`: "determining which pods are included",
	} {
		_, err := w.build(veleroHooks(preBackup, postBackup), preBackup).Execute(t.Context(), callFor(executor.PointPreBackup, subject))
		wantError(t, err, executor.Invalid, want)
	}
}

func sorted(words []string) []string {
	slices.Sort(words)
	return words
}
