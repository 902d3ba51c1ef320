// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/executor/quiesce"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
)

// TestHooksShowTheSamples compares the Plugins in docs/guides/hooks.md with those that users copy
// from the samples: there is one for each executor that needs no program next to the operator.
func TestHooksShowTheSamples(t *testing.T) {
	shown := map[string]*unstructured.Unstructured{}
	for _, block := range blocks(documents(t)[hooksPage], "yaml") {
		for _, object := range objectsOf(t, block) {
			shown[object.GetKind()+" "+object.GetName()] = object
		}
	}
	executors := map[string]bool{}
	for path, text := range pluginSamples(t) {
		for _, object := range objectsOf(t, text) {
			name := object.GetKind() + " " + object.GetName()
			if there := shown[name]; there == nil || !reflect.DeepEqual(there.Object, object.Object) {
				t.Errorf("%s: %s is not in %s as it is here", path, name, hooksPage)
			}
			executor, _, _ := unstructured.NestedMap(object.Object, "spec", "executor")
			for name := range executor {
				executors[name] = true
			}
		}
	}
	env.CheckEqual(t, "executors", slices.Sorted(maps.Keys(executors)), []string{"builtin", "grpc", "job", "podExec", "webhook"})
}

// TestHookMessagesExist looks for the messages and reasons that docs/guides/hooks.md explains in the
// code that says them.
func TestHookMessagesExist(t *testing.T) {
	code, found := codeBelow(t, "../api/v1alpha1", "../internal/executor", "../internal/plugin"), 0
	column := ""
	for line := range strings.Lines(documents(t)[hooksPage]) {
		cells := strings.Split(line, "|")
		if len(cells) < 3 {
			column = ""
			continue
		}
		if column == "" {
			column = strings.TrimSpace(cells[1])
		}
		for _, quoted := range regexp.MustCompile("`[^`]+`").FindAllString(cells[1], -1) {
			for part := range strings.SplitSeq(strings.Trim(quoted, "`"), "…") {
				part = strings.Trim(part, " :\"()")
				if column == "reason" {
					part = `"` + part + `"`
				} else if column != "message" {
					continue
				}
				found++
				if !strings.Contains(code, part) {
					t.Errorf("%s explains %s, which is not in the code: %q", hooksPage, quoted, part)
				}
			}
		}
	}
	if found < 40 {
		t.Fatalf("found only %d texts in the tables", found)
	}
}

// TestHookExamples applies every manifest of docs/guides/hooks.md, and every sample of a Plugin, and
// has a real operator run them: those that need a node as far as that is possible without.
func TestHookExamples(t *testing.T) {
	w := newHookWorld(t)
	w.applyExamples(t)
	w.startOperator(t)
	t.Run("all are loaded that need no program", w.testLoaded)
	t.Run("builtin", w.testQuiesce)
	t.Run("webhook", w.testWebhook)
	t.Run("grpc", w.testGRPC)
	t.Run("job", w.testJob)
	t.Run("podExec", w.testPodExec)
	t.Run("first backup", w.testFirstBackup)
}

func (w *hookWorld) testLoaded(t *testing.T) {
	for _, name := range []string{"maintenance", "postgresql", "quiesce", "window"} {
		w.awaitLoaded(t, name, true)
	}
	if report := w.awaitLoaded(t, "report", false); !strings.Contains(report.Status.Message, "there is no Secret grapnel-client") {
		t.Errorf("a plugin without the Secret that it names says %q", report.Status.Message)
	}
}

// testQuiesce backs an application up that stands still meanwhile, and restores it into another
// namespace, where it is started as it was.
func (w *hookWorld) testQuiesce(t *testing.T) {
	const copied, replicas = "shop-copy", 3
	web := deployment("web", replicas)
	busy := deployment("busy", 2)
	busy.Labels = map[string]string{"keep-running": "yes"}
	env.Create(t, w.client, web)
	env.Create(t, w.client, busy)
	b := w.backup("shop-still", "quiesce")
	w.run(t, b, v1alpha1.RunPhaseCompleted)
	stopped := w.hookRun(t, b.UID, v1alpha1.HookPreBackup, "example.io/quiesce")
	// The Deployment report is of the document.
	if got := string(stopped.Status.Outputs["workloads"]); got != "Deployment/shop/report Deployment/shop/web" {
		t.Errorf("%q was stopped, want report and web", got)
	}
	for name, want := range map[string]int32{"web": 0, "busy": 2} {
		if got := w.archived(t, b.Name, name); got != want {
			t.Errorf("%s has %d replicas in the archive, want %d", name, got, want)
		}
	}
	w.checkRuns(t, web)

	restore := &v1alpha1.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: hookNamespace, Name: "shop-again", Labels: b.Labels}}
	restore.Spec.BackupName, restore.Spec.NamespaceMapping = b.Name, map[string]v1alpha1.NamespaceName{"shop": copied}
	env.Create(t, w.client, restore)
	env.WaitFor(t, w.client, restore, "it has started the application", func(r *v1alpha1.Restore) bool {
		return r.Status.PostRestoreActionsStatuses != nil && (*r.Status.PostRestoreActionsStatuses)[0].Phase == v1alpha1.ActionPhaseCompleted
	})
	web.Namespace = copied
	w.checkRuns(t, web)
}

// testFirstBackup runs the commands of the guide for the first backup, in its order. What starts pods is not
// among them.
func (w *hookWorld) testFirstBackup(t *testing.T) {
	t.Setenv("PATH", filepath.Dir(w.plane.KubectlPath())+":"+os.Getenv("PATH"))
	said := ""
	for _, block := range blocks(documents(t)["docs/guides/first-backup.md"], "sh") {
		said = run(t, true, "bash", "-euc", "cd .. && "+strings.TrimSpace(block))
	}
	if !strings.HasSuffix(said, "Ada was here.\n") {
		t.Errorf("the last command says:\n%s", said)
	}
}

// checkRuns checks that a workload has its replicas, and nothing that says that it is stopped.
func (w *hookWorld) checkRuns(t *testing.T, d *appsv1.Deployment) {
	t.Helper()
	var now appsv1.Deployment
	if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(d), &now); err != nil {
		t.Fatal(err)
	}
	if _, marked := now.Annotations[quiesce.Annotation]; marked || *now.Spec.Replicas != *d.Spec.Replicas {
		t.Errorf("%s/%s has %d replicas and the annotations %v, want %d", now.Namespace, now.Name, *now.Spec.Replicas, now.Annotations, *d.Spec.Replicas)
	}
}

// testWebhook has the endpoint of the example called before and after a Backup, and when that
// is destroyed.
func (w *hookWorld) testWebhook(t *testing.T) {
	shop := serveShop(t)
	w.change(t, "maintenance", func(executor *v1alpha1.Executor) {
		executor.Webhook.URL = shop.url
		executor.Webhook.TLS = &v1alpha1.TLSClient{CABundle: shop.authority}
		executor.Webhook.AllowCIDRs = []string{"127.0.0.0/8"}
	})
	b := w.backup("shop-closed", "maintenance")
	w.run(t, b, v1alpha1.RunPhaseCompleted)
	deletion := &v1alpha1.DeletionRun{ObjectMeta: metav1.ObjectMeta{Namespace: hookNamespace, Name: "shop-closed"}}
	deletion.Spec.BackupName = b.Name
	env.Create(t, w.client, deletion)
	env.WaitFor(t, w.client, deletion, "it is done", func(d *v1alpha1.DeletionRun) bool {
		return d.Status.Phase == v1alpha1.RunPhaseCompleted
	})
	env.CheckEqual(t, "requests", shop.heard(), []string{
		"/hooks/begin PreBackup #1", "/hooks/begin PreBackup #1", "/hooks/end PostBackup #1 of ticket 4711", "/hooks/forget Delete #1 of ticket 4711",
	})
}

// testGRPC calls the plugin of the example, with certificates on both sides.
func (w *hookWorld) testGRPC(t *testing.T) {
	report := serveReport(t)
	w.createClientSecret(t, report.certificate)
	w.change(t, "report", func(executor *v1alpha1.Executor) {
		executor.GRPC.Address, executor.GRPC.TLS.CABundle = report.address, report.certificate.cert
	})
	b := w.backup("shop-reported", "report")
	w.run(t, b, v1alpha1.RunPhaseCompleted)
	run := w.hookRun(t, b.UID, v1alpha1.HookPostBackup, "example.io/report")
	if want := "reported " + b.Name; run.Status.Phase != v1alpha1.HookRunPhaseCompleted || run.Status.Message != want {
		t.Errorf("the HookRun is %s: %q, want %q", run.Status.Phase, run.Status.Message, want)
	}
}

// testJob creates the Backup of the document, and runs the scripts of its Jobs as a node would.
func (w *hookWorld) testJob(t *testing.T) {
	b := env.Create(t, w.client, w.documented.DeepCopy())
	pre := w.playNode(t, "example.io/window")
	if !strings.Contains(pre, "The window is open for example.io/window, attempt 1") {
		t.Errorf("the script printed %q", pre)
	}
	w.playNode(t, "example.io/duration")
	w.awaitDone(t, b, v1alpha1.RunPhaseCompleted)
	run := w.hookRun(t, b.UID, v1alpha1.HookPreBackup, "example.io/window")
	if run.Status.Message != "the window is open" || run.Status.Outputs["began"] == "" {
		t.Errorf("the HookRun says %q, with outputs %v", run.Status.Message, run.Status.Outputs)
	}
	run = w.hookRun(t, b.UID, v1alpha1.HookPostBackup, "example.io/duration")
	if !strings.HasPrefix(run.Status.Message, "It took ") {
		t.Errorf("the HookRun says %q", run.Status.Message)
	}
}

// testPodExec has no pods: that fails a Backup, and is no obstacle for its second half.
func (w *hookWorld) testPodExec(t *testing.T) {
	b := w.backup("shop-without-database", "read-only")
	w.run(t, b, v1alpha1.RunPhaseFailedPreBackupActions)
	for point, want := range map[v1alpha1.HookPoint]string{
		v1alpha1.HookPreBackup:  "no pod that matches \"app=postgresql\" runs in the 1 namespace included: check the selector",
		v1alpha1.HookPostBackup: "nothing was done",
	} {
		if run := w.hookRun(t, b.UID, point, "example.io/postgresql"); !strings.Contains(run.Status.Message, want) {
			t.Errorf("the %s action says %q, want %q", point, run.Status.Message, want)
		}
	}
}
