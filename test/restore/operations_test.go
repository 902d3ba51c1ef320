// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

// operates installs a fault plugin that starts operations in Restores with the label of
// its action, which it returns.
func operates(t testing.TB) string {
	t.Helper()
	name := "operates-" + strings.ToLower(rand.Text()[:8])
	plugin := world.NewFaultPlugin(name, []v1alpha1.PluginAction{{
		Name: "own.example.io/" + name, Kind: v1alpha1.ActionKindAsyncRestoreItem, Selector: env.SelectorForAction(name),
		Operation: &v1alpha1.OperationPolicy{PollInterval: &metav1.Duration{Duration: 100 * time.Millisecond}},
	}}, "FAULT_OPERATIONS="+filepath.Join(world.Dir, name))
	env.Create(t, world.Client, plugin)
	t.Cleanup(func() {
		if err := client.IgnoreNotFound(world.Client.Delete(context.WithoutCancel(t.Context()), plugin)); err != nil {
			t.Error(err)
		}
	})
	world.WaitForPlugins(t, plugin)
	return "own.example.io/" + name
}

// operating creates a ConfigMap that asks for an operation, see test/faultplugin.
func operating(t testing.TB, namespace, name, program string) {
	t.Helper()
	env.Create(t, world.Client, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, Annotations: map[string]string{"fault.example.io/operation": program},
	}})
}

// operationsOf returns the operations of a Restore.
func operationsOf(t testing.TB, r *v1alpha1.Restore) []v1alpha1.AsyncOperation {
	t.Helper()
	var list v1alpha1.AsyncOperationList
	err := world.Client.List(t.Context(), &list, client.InNamespace(r.Namespace), client.MatchingLabels{v1alpha1.LabelParentUID: string(r.UID)})
	Expect(err).NotTo(HaveOccurred())
	return list.Items
}

// states returns how the operations of a Restore stand, as "object attempt: phase".
func states(t testing.TB, r *v1alpha1.Restore) []string {
	t.Helper()
	var texts []string
	for _, o := range operationsOf(t, r) {
		texts = append(texts, o.Spec.Item.Namespace+"/"+o.Spec.Item.Name+" "+strings.Repeat("I", int(o.Spec.Attempt))+": "+string(o.Status.Phase))
	}
	slices.Sort(texts)
	return texts
}

// awaitStates waits until the operations stand so.
func awaitStates(t testing.TB, r *v1alpha1.Restore, want ...string) {
	t.Helper()
	suite.Eventually(t, func() string {
		if got := states(t, r); !slices.Equal(got, want) {
			return strings.Join(got, ", ") + "; want " + strings.Join(want, ", ")
		}
		return ""
	})
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

func waits(r *v1alpha1.Restore) bool { return r.Status.Phase == "WaitingForPluginOperations" }

var _ = Describe("The operations of a Restore", Label("operations"), func() {
	// The files cannot be stored before the operations have ended. No operation is started again.
	It("stores the outcome of operations when the store is back", func() {
		t := suite.Spec(GinkgoTB())
		s, app, action := site{world.SharedOperator(t)}, world.CreateApp(t, 1), operates(t)
		location := env.Create(t, world.Client, s.NewLocation("sealed-"+strings.ToLower(rand.Text()[:8])))
		goOn, give := signal(t)
		operating(t, app, "fails", "until:"+goOn+";error:the disk is full")
		b := s.backUp(t, app, func(b *v1alpha1.Backup) { b.Spec.StorageLocation = location.Name })
		restores := filepath.Join(s.LocationDir(location.Name), "restores")
		Expect(os.WriteFile(restores, nil, 0o600)).To(Succeed())
		r, _ := s.restoreOf(b.Name, app)
		r.Labels = env.LabelsForActions(action)
		env.Create(t, world.Client, r)
		r = env.WaitFor(t, world.Client, r, "it waits, and says that nothing is stored", func(r *v1alpha1.Restore) bool {
			c := conditions.Get(r, v1alpha1.ConditionResultsStored)
			return waits(r) && lifecycle.HasProcessedItems(r) && c != nil && c.Status == metav1.ConditionUnknown
		})
		Expect(os.Remove(restores)).To(Succeed())
		give()
		r = outcome(t, r, v1alpha1.RunPhasePartiallyFailed, "0 of 1 operation", "1 error", "1 warning")
		if !conditions.IsTrue(r, v1alpha1.ConditionResultsStored) || r.Status.Attempts != 1 {
			t.Fatalf("attempt %d, conditions %+v", r.Status.Attempts, r.Status.Conditions)
		}
		there := filepath.Join("..", location.Name) // seen from the default location
		says(t, s.stored(t, filepath.Join(there, r.Status.Files.Results)), "the disk is full")
		says(t, s.stored(t, filepath.Join(there, r.Status.Files.ResourceList)), "fails(created)")
	})

	It("waits for them before the PostRestore actions", func() {
		t := suite.Spec(GinkgoTB())
		s, app, action := site{world.SharedOperator(t)}, world.CreateApp(t, 1), operates(t)
		goOn, give := signal(t)
		operating(t, app, "fails", "until:"+goOn+";error:the disk is full")
		operating(t, app, "steps", "steps:3")
		r, target := s.restoreOf(s.backUp(t, app).Name, app)
		r.Labels = env.LabelsForActions(action, first)
		env.Create(t, world.Client, r)
		r = env.WaitFor(t, world.Client, r, "it waits for one of two", func(r *v1alpha1.Restore) bool {
			return waits(r) && r.Status.Operations != nil && r.Status.Operations.Completed == 1
		})
		says(t, r.Status.Message, "1 of 2 operations done")
		awaitStates(t, r, target+"/fails I: InProgress", target+"/steps I: Completed")
		for _, run := range runsOf(t, r) {
			if run.Spec.Hook == v1alpha1.HookPostRestore && run.Status.StartTimestamp != nil {
				t.Errorf("the PostRestore action runs before the operations have ended: %+v", run.Status)
			}
		}
		env.CheckEqual(t, "objects", restored(t, target), []string{"c0=0", "fails=", "steps="})
		give()
		r = outcome(t, r, v1alpha1.RunPhasePartiallyFailed, "1 of 2 operations completed", "1 error")
		env.CheckEqual(t, "PostRestore actions", env.FormatActionStatuses(r.Status.PostRestoreActionsStatuses), []string{first + " Completed"})
		says(t, s.results(t, r), "the disk is full")
		var list []struct {
			Spec   struct{ RestoreName, RestoreItemAction string }
			Status struct{ Phase, Error string }
		}
		file := strings.TrimSuffix(r.Status.Files.Results, "-results.gz") + "-itemoperations.json.gz"
		if err := json.Unmarshal([]byte(s.stored(t, file)), &list); err != nil || len(list) != 2 {
			t.Fatalf("%d operations are stored: %v", len(list), err)
		}
		for _, o := range list {
			if o.Spec.RestoreName != r.Name || o.Spec.RestoreItemAction != action || (o.Status.Phase == "Failed") == (o.Status.Error == "") {
				t.Errorf("an operation is stored as %+v", o)
			}
		}
	})

	Context("cancels them when the Restore is canceled or deleted", func() {
		for name, stop := range suite.SortedByName(map[string]func(testing.TB, *v1alpha1.Restore){
			"cancelled": cancelRestore,
			"deleted":   func(t testing.TB, r *v1alpha1.Restore) { t.Helper(); world.Delete(t, r) },
		}) {
			It(name, func() {
				t := suite.Spec(GinkgoTB())
				s, app, action := site{world.SharedOperator(t)}, world.CreateApp(t, 0), operates(t)
				operating(t, app, "a", "never")
				operating(t, app, "b", "never")
				r, target := s.restoreOf(s.backUp(t, app).Name, app)
				r.Labels = env.LabelsForActions(action, first)
				env.Create(t, world.Client, r)
				env.WaitFor(t, world.Client, r, "it waits", waits)
				awaitStates(t, r, target+"/a I: InProgress", target+"/b I: InProgress")
				stop(t, r)
				if name == "deleted" {
					world.WaitForDeletion(t, r)
				} else {
					outcome(t, r, v1alpha1.RunPhaseCancelled, "2 canceled")
				}
				awaitStates(t, r, target+"/a I: Cancelled", target+"/b I: Cancelled")
				for _, o := range operationsOf(t, r) { // nothing keeps them from the garbage collector
					world.Delete(t, &o)
					world.WaitForDeletion(t, &o)
				}
				calls := world.FaultPluginCalls(t, func(key string) bool { return strings.HasPrefix(key, string(r.UID)+"/") })
				if n := len(calls); n != 4 {
					t.Errorf("the plugin got %q, want two calls of Start and two of Cancel", calls)
				}
				env.CheckEqual(t, "objects", restored(t, target), []string{"a=", "b="})
			})
		}
	})

	// One object is restored, and another one is not.
	It("continues one operation and starts the other again", func() {
		t := suite.Spec(GinkgoTB())
		s, app, action := site{world.StartOperator(t)}, world.CreateApp(t, 0), operates(t)
		goOn, give := signal(t)
		operating(t, app, "there", "until:"+goOn)
		env.Create(t, world.Client, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: app, Name: "held", Labels: map[string]string{labelGate: app},
			Annotations: map[string]string{"fault.example.io/operation": "until:" + goOn},
		}})
		r, target := s.restoreOf(s.backUp(t, app).Name, app)
		r.Labels = env.LabelsForActions(action)
		gate := newGate(t, app)
		env.Create(t, world.Client, r)
		gate.await(t)
		awaitObjects(t, target, 1)
		awaitStates(t, r, target+"/held I: InProgress", target+"/there I: InProgress")
		Expect(s.Operator.Kill()).To(Succeed())
		gate.awaitGivenUp(t)
		gate.open()
		s.RestartOperator(t)
		awaitStates(t, r, target+"/held I: Cancelled", target+"/held II: InProgress", target+"/there I: InProgress")
		give()
		r = outcome(t, r, v1alpha1.RunPhaseCompleted, "2 of 2 operations")
		awaitStates(t, r, target+"/held I: Cancelled", target+"/held II: Completed", target+"/there I: Completed")
		if c := r.Status.Operations; c.Attempted != 2 || c.Completed != 2 || c.Cancelled != 0 {
			t.Errorf("the Restore counts %+v", c)
		}
	})
})
