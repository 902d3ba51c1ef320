// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"encoding/json"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

// ownOperations installs a Plugin like "operates", with the action own.
func ownOperations(t testing.TB, action string, policy v1alpha1.OperationPolicy) {
	t.Helper()
	install(t, operatingPlugin(t, action, policy))
}

func operatingPlugin(t testing.TB, action string, policy v1alpha1.OperationPolicy) *v1alpha1.Plugin {
	t.Helper()
	return world.NewFaultPlugin(path.Base(action), operating(action, policy), "FAULT_OPERATIONS="+t.TempDir())
}

// operate creates a ConfigMap that asks for an operation, see test/faultplugin.
func operate(t testing.TB, namespace, name, program string) *corev1.ConfigMap {
	t.Helper()
	return env.Create(t, world.Client, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, Annotations: map[string]string{"fault.example.io/operation": program},
	}})
}

// operationsOf returns the last versions of the AsyncOperations of a Backup or Restore, by
// the names of their objects.
func operationsOf(subject client.Object) []*v1alpha1.AsyncOperation {
	list := slices.DeleteFunc(all[*v1alpha1.AsyncOperation](world.watched), func(o *v1alpha1.AsyncOperation) bool {
		return o.Spec.ParentRef.UID != string(subject.GetUID())
	})
	slices.SortFunc(list, func(a, b *v1alpha1.AsyncOperation) int {
		return strings.Compare(a.Spec.Item.Name+a.Spec.ActionName, b.Spec.Item.Name+b.Spec.ActionName)
	})
	return list
}

// operationOf waits for the AsyncOperation of an object that is as a test wants it.
func operationOf(t testing.TB, subject client.Object, item, what string, right func(*v1alpha1.AsyncOperation) bool) *v1alpha1.AsyncOperation {
	t.Helper()
	var found *v1alpha1.AsyncOperation
	eventually(t, func() string {
		for _, o := range operationsOf(subject) {
			for _, version := range history(o) {
				if o.Spec.Item.Name == item && right(version) {
					found = version
					return ""
				}
			}
		}
		texts := []string{"no operation of " + item + " was so: " + what, describe(subject)}
		for _, o := range operationsOf(subject) {
			texts = append(texts, describe(o))
		}
		return strings.Join(texts, "\n")
	})
	return found
}

func inPhase(phase v1alpha1.AsyncOperationPhase) func(*v1alpha1.AsyncOperation) bool {
	return func(o *v1alpha1.AsyncOperation) bool { return o.Status.Phase == phase }
}

// operationIn waits until the operation of an object is in a phase.
func operationIn(t testing.TB, subject client.Object, item string, phase v1alpha1.AsyncOperationPhase) *v1alpha1.AsyncOperation {
	t.Helper()
	return operationOf(t, subject, item, string(phase), inPhase(phase))
}

// endedAs checks how operations ended, by the names of their objects.
func endedAs(t testing.TB, subject client.Object, want map[string]string) {
	t.Helper()
	for _, o := range operationsOf(subject) {
		got := string(o.Status.Phase) + " " + reasonOf(o, v1alpha1.ConditionSucceeded)
		if want[o.Spec.Item.Name] != got {
			t.Errorf("the operation of %s ended as %s, want %s: %s", o.Spec.Item.Name, got, want[o.Spec.Item.Name], o.Status.Message)
		}
	}
	if n := len(operationsOf(subject)); n != len(want) {
		t.Errorf("there are %d operations, want %d", n, len(want))
	}
}

// counted checks how many operations a Backup counts.
func counted(t testing.TB, b *v1alpha1.Backup, attempted, completed, failed, cancelled int32) {
	t.Helper()
	if c := b.Status.Operations; c == nil || c.Attempted != attempted || c.Completed != completed || c.Failed != failed || c.Cancelled != cancelled {
		t.Errorf("the Backup counts %+v, want %d attempted, %d completed, %d failed, %d cancelled", c, attempted, completed, failed, cancelled)
	}
}

// cancels returns how many operations of a Backup the fault plugins were asked to cancel.
func cancels(t testing.TB, subject client.Object) int {
	t.Helper()
	n := 0
	for _, call := range world.FaultPluginCalls(t, func(key string) bool { return strings.HasPrefix(key, string(subject.GetUID())+"/") }) {
		if strings.HasPrefix(call, "Cancel ") {
			n++
		}
	}
	return n
}

// signal returns a file that is not there, and what creates it.
func signal(t testing.TB) (file string, give func()) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "go-on")
	return file, func() {
		t.Helper()
		Expect(os.WriteFile(file, nil, 0o600)).To(Succeed())
	}
}

// phasesOf returns the phases that a Backup went through.
func phasesOf(b *v1alpha1.Backup) []string {
	var phases []string
	for _, version := range history(b) {
		if phase := string(version.Status.Phase); phase != "" {
			phases = append(phases, phase)
		}
	}
	return slices.Compact(phases)
}

var _ = Describe("Operations", Label("operations"), func() {
	It("delays the end of the Backup", func() {
		t := suite.Spec(GinkgoTB())
		s, app := site{world.SharedOperator(t)}, world.CreateApp(t, 1)
		goOn, give := signal(t)
		operate(t, app, "held", "until:"+goOn+";post:settings;additional:wanted")
		operate(t, app, "steps", "steps:4")
		settings := env.Create(t, world.Client, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: app, Name: "settings"}, Data: map[string]string{"state": "before"},
		})
		env.Create(t, world.Client, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: app, Name: "wanted"}})
		b := s.NewBackup(app)
		b.Spec.IncludedResources = append(b.Spec.IncludedResources, "secrets")
		b.Spec.LabelSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "not-there", Operator: metav1.LabelSelectorOpDoesNotExist},
		}}
		b.Labels = env.LabelsForActions(operates, pair)
		s.apply(t, b)

		operationIn(t, b, "steps", v1alpha1.AsyncOperationPhaseCompleted)
		operationOf(t, b, "held", "it tells its progress", func(o *v1alpha1.AsyncOperation) bool {
			return o.Status.Progress != nil && o.Status.Progress.Summary == "1 of 2 steps" && o.Status.Deadline != nil
		})
		waiting := await(t, b, "it waits for one of two", func(b *v1alpha1.Backup) bool {
			return b.Status.Phase == v1alpha1.RunPhase("WaitingForPluginOperations") && b.Status.Operations != nil && b.Status.Operations.Completed == 1
		})
		if c := waiting.Status.Operations; c.Attempted != 2 || conditionOf(waiting, v1alpha1.ConditionOperationsSucceeded) != metav1.ConditionUnknown ||
			!contained(waiting.Status.Message, "Waiting for operations", "1 of 2") {
			t.Errorf("it waits so: %s", describe(waiting))
		}
		if run := runOf(t, b, v1alpha1.HookPostBackup, pair); run.Status.StartTimestamp != nil {
			t.Errorf("the PostBackup action runs before the operations have ended: %s", describe(run))
		}
		shown(t, b)
		world.Patch(t, settings, `{"data":{"state":"after"}}`)
		give()

		b = outcome(t, b, v1alpha1.RunPhaseCompleted, "2 of 2 operations")
		want := []string{"InProgress", "WaitingForPluginOperations", "Finalizing", "Completed"}
		env.CheckEqual(t, "phases", slices.DeleteFunc(phasesOf(b), func(phase string) bool { return !slices.Contains(want, phase) }), want)
		counted(t, b, 2, 2, 0, 0)
		if b.Status.Operations.Percent != 100 || conditionOf(b, v1alpha1.ConditionOperationsSucceeded) != metav1.ConditionTrue {
			t.Errorf("at last it is so: %s", describe(b))
		}
		archived := s.archived(t, b)
		contains(t, archived, configMap(app, "held"), configMap(app, "steps"), configMap(app, "c0"))
		if has(archived, "secrets", app, "wanted") == "" || !strings.Contains(has(archived, "configmaps", app, "settings"), `"after"`) {
			t.Errorf("the archive has the settings %q", has(archived, "configmaps", app, "settings"))
		}
		s.storedOperations(t, b, "Completed")
		if cancels(t, b) != 0 {
			t.Error("something was cancelled")
		}
	})
})

// shown checks what kubectl says of the operations of a Backup that waits.
func shown(t testing.TB, b *v1alpha1.Backup) {
	t.Helper()
	kubectl := func(args ...string) string {
		args = append([]string{"--kubeconfig", world.ControlPlane.KubeconfigPath(), "-n", b.Namespace}, args...)
		out, err := exec.CommandContext(t.Context(), world.ControlPlane.KubectlPath(), args...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	table := kubectl("get", "asyncoperations", "-l", v1alpha1.LabelParentUID+"="+string(b.UID))
	for _, text := range []string{"PLUGIN", "ITEM", "PHASE", "PROGRESS", "AGE", operates, "held", "steps", "InProgress", "1 of 2 steps", b.Name} {
		if !strings.Contains(table, text) {
			t.Errorf("kubectl get does not show %q:\n%s", text, table)
		}
	}
	name := operationOf(t, b, "held", "it is there", func(*v1alpha1.AsyncOperation) bool { return true }).Name
	described := kubectl("describe", "asyncoperation", name) + kubectl("describe", "backup", b.Name)
	for _, text := range []string{"Operation ID", "Deadline", "in step", "Waiting for operations of plugins", "1 of 2 operations done"} {
		if !strings.Contains(described, text) {
			t.Errorf("kubectl describe does not show %q:\n%s", text, described)
		}
	}
}

// storedOperations checks the list of operations that is stored with a Backup.
func (s site) storedOperations(t testing.TB, b *v1alpha1.Backup, phases ...string) {
	t.Helper()
	var list []struct {
		Spec   struct{ BackupName, BackupUID, BackupItemAction, OperationID string }
		Status struct{ Phase, Error string }
	}
	content := s.file(t, b, storage.ItemOperations)
	Expect(json.Unmarshal([]byte(content), &list)).To(Succeed())
	for _, o := range list {
		if o.Spec.BackupName != b.Name || o.Spec.BackupUID != string(b.UID) || o.Spec.BackupItemAction != operates || o.Spec.OperationID == "" ||
			!slices.Contains(phases, o.Status.Phase) {
			t.Errorf("an operation is stored as %+v", o)
		}
	}
	if want := b.Status.Operations.Attempted; len(list) != int(want) {
		t.Errorf("%d operations are stored, want %d: %s", len(list), want, content)
	}
}
