// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"path"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

var _ = Describe("Operations that fail", Label("operations"), func() {
	// One Backup has an operation for each bad habit of plugins. None hides how another one ended.
	It("reports each outcome", func() {
		t := suite.Spec(GinkgoTB())
		s, app := site{world.SharedOperator(t)}, world.CreateApp(t, 1)
		const completed, failed, lost = "Completed Completed", "Failed OperationFailed", "Failed OperationLost"
		ways := map[string]struct{ program, ends string }{
			"backwards":   {"back", completed},
			"too-much":    {"over", completed},
			"twice":       {"twice", completed},
			"flaky":       {"steps:4;flaky:2", completed},
			"error":       {"steps:2;error:the disk is full, password=hunter2", failed},
			"unknown":     {"unknown", lost},
			"same-a":      {"sameid", completed},
			"same-b":      {"sameid", completed},
			"asks-seldom": {"interval:200ms", completed},
		}
		want := map[string]string{}
		for name, way := range ways {
			operate(t, app, name, way.program)
			want[name] = way.ends
		}
		// These do not start anything that continues.
		operate(t, app, "long-id", "id:2000")
		operate(t, app, "huge-id", "id:1048576")
		operate(t, app, "refused", "refuse:there is no licence")

		b := s.NewBackup(app)
		b.Labels = env.LabelsForActions(operates)
		b = outcome(t, s.apply(t, b), v1alpha1.RunPhasePartiallyFailed, "7 of 9 operations completed", "5 errors")
		endedAs(t, b, want)
		counted(t, b, 9, 7, 2, 0)
		if conditionOf(b, v1alpha1.ConditionOperationsSucceeded) != metav1.ConditionFalse {
			t.Errorf("the condition is %s", describe(b))
		}
		await(t, b, "it tells while it waits that something failed", func(b *v1alpha1.Backup) bool {
			return strings.HasSuffix(string(b.Status.Phase), "PartiallyFailed") && b.Status.CompletionTimestamp == nil
		})
		errs := s.results(t, b).Errors.OfNamespace(app)
		says(t, errs, "error", operates, "the disk is full")
		says(t, errs, "unknown", operates, "no longer knows the operation")
		says(t, errs, "long-id", operates, "2000")
		says(t, errs, "huge-id", operates)
		says(t, errs, "refused", operates, "there is no licence")
		if len(errs) != 5 {
			t.Errorf("the errors are %q", errs)
		}
		s.storedOperations(t, b, "Completed", "Failed")
		contains(t, s.archived(t, b), configMap(app, "error"), configMap(app, "unknown"), configMap(app, "same-a"))
		flaky := operationOf(t, b, "flaky", "it has ended", (*v1alpha1.AsyncOperation).Ended)
		if flaky.Status.TransientErrors == 0 {
			t.Errorf("the failures were not counted: %s", describe(flaky))
		}
		awaitEvent(t, operationOf(t, b, "error", "it has ended", (*v1alpha1.AsyncOperation).Ended), "Warning OperationFailed: the disk is full")
	})

	Context("ends operations after their timeout", func() {
		long := within(8760 * time.Hour)
		for name, c := range suite.SortedByName(map[string]struct {
			plugin         v1alpha1.OperationPolicy
			backup         *metav1.Duration
			program        string
			ends, explains string
		}{
			"the timeout of the Plugin": {
				plugin: v1alpha1.OperationPolicy{Timeout: within(time.Second)}, program: "never", ends: "Failed TimedOut", explains: "longer than 1s",
			},
			"the timeout of the Backup": {
				plugin: v1alpha1.OperationPolicy{Timeout: long}, backup: within(time.Second), program: "never",
				ends: "Failed TimedOut", explains: "longer than 1s",
			},
			"nothing more is done": {
				plugin: v1alpha1.OperationPolicy{StallTimeout: within(time.Second)}, backup: long, program: "never",
				ends: "Failed OperationStalled", explains: "it made no progress for 1s",
			},
			"more is done all the time": {
				plugin: v1alpha1.OperationPolicy{StallTimeout: within(time.Minute)}, backup: long, program: "steps:5", ends: "Completed Completed",
			},
		}) {
			It(name, func() {
				t := suite.Spec(GinkgoTB())
				s := site{world.SharedOperator(t)}
				app, action := world.CreateApp(t, 0), own(t, "long")
				ownOperations(t, action, c.plugin)
				operate(t, app, "slow", c.program)
				b := s.NewBackup(app)
				b.Labels, b.Spec.ItemOperationTimeout = env.LabelsForActions(action), c.backup
				s.apply(t, b)
				if c.explains == "" {
					outcome(t, b, v1alpha1.RunPhaseCompleted)
					endedAs(t, b, map[string]string{"slow": c.ends})
					return
				}
				b = outcome(t, b, v1alpha1.RunPhasePartiallyFailed)
				endedAs(t, b, map[string]string{"slow": c.ends})
				says(t, s.results(t, b).Errors.OfNamespace(app), "slow", action, c.explains)
				if cancels(t, b) != 1 {
					t.Errorf("the plugin was asked %d times to cancel it", cancels(t, b))
				}
			})
		}
		It("no time at all is refused", func() {
			t := suite.Spec(GinkgoTB())
			s := site{world.SharedOperator(t)}
			b := s.NewBackup("any")
			b.Spec.ItemOperationTimeout = within(0)
			if err := world.Client.Create(t.Context(), b); err == nil || !strings.Contains(err.Error(), "must be longer than zero") {
				t.Errorf("the error is %v", err)
			}
		})
	})

	It("continues operations that survive their plugin", func() {
		t := suite.Spec(GinkgoTB())
		s, app, action := site{world.SharedOperator(t)}, world.CreateApp(t, 0), own(t, "ends")
		ownOperations(t, action, v1alpha1.OperationPolicy{})
		operate(t, app, "a-forgotten", "until:/no/such/file;forget")
		operate(t, app, "b-kills", "steps:3;kill:2")
		b := s.NewBackup(app)
		b.Labels = env.LabelsForActions(action)
		b = outcome(t, s.apply(t, b), v1alpha1.RunPhasePartiallyFailed, "1 of 2 operations")
		endedAs(t, b, map[string]string{"a-forgotten": "Failed OperationLost", "b-kills": "Completed Completed"})
	})

	It("does not delay operations of another plugin", func() {
		t := suite.Spec(GinkgoTB())
		s, app, hangs := site{world.SharedOperator(t)}, world.CreateApp(t, 0), own(t, "hangs")
		ownOperations(t, hangs, v1alpha1.OperationPolicy{})
		goOn, give := signal(t)
		operate(t, app, "one", "steps:2;hang:"+goOn)
		held := s.NewBackup(app)
		held.Labels = env.LabelsForActions(hangs)
		s.apply(t, held)
		doing(t, held, v1alpha1.ReasonWaitingForOperations)

		other := world.CreateApp(t, 0)
		operate(t, other, "one", "steps:3")
		b := s.NewBackup(other)
		b.Labels = env.LabelsForActions(operates)
		outcome(t, s.apply(t, b), v1alpha1.RunPhaseCompleted)
		if latest(held).Status.CompletionTimestamp != nil {
			t.Errorf("the other one has ended: %s", describe(held))
		}
		give()
		outcome(t, held, v1alpha1.RunPhaseCompleted)
	})

	It("counts several operations on one object", func() {
		t := suite.Spec(GinkgoTB())
		s, app, marks := site{world.SharedOperator(t)}, world.CreateApp(t, 0), own(t, "marks")
		install(t, world.NewFaultPlugin(path.Base(marks), onItems(marks)))
		one := operate(t, app, "one", "steps:2")
		world.Patch(t, one, `{"metadata":{"annotations":{"fault.example.io/do":"mark"}}}`)
		b := s.NewBackup(app)
		b.Labels = env.LabelsForActions(operates, operatesToo, marks)
		parameter(b, marks, "mark", "seen first")
		b = outcome(t, s.apply(t, b), v1alpha1.RunPhaseCompleted, "2 of 2 operations")
		counted(t, b, 2, 2, 0, 0)
		var actions []string
		for _, o := range operationsOf(b) {
			actions = append(actions, o.Spec.ActionName+" "+o.Spec.PluginRef.Name)
		}
		env.CheckEqual(t, "actions", actions, []string{operates + " operates", operatesToo + " operates"})
		if marked := has(s.archived(t, b), "configmaps", app, "one"); !strings.Contains(marked, "seen first") {
			t.Errorf("the action that changes the object was not asked: %s", marked)
		}
	})
})
