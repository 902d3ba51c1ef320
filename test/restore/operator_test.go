// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

var _ = Describe("The queue and the order of Restores", Label("restore"), func() {
	It("restores the newest completed Backup of a Schedule", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		const schedule = "nightly"
		scheduled := func(b *v1alpha1.Backup) { b.Labels = map[string]string{v1alpha1.LabelScheduleName: schedule} }
		app := world.CreateApp(t, 1)
		started := func(b *v1alpha1.Backup, ago time.Duration) {
			at := time.Now().Add(-ago).UTC().Format(time.RFC3339)
			change := fmt.Sprintf(`{"status":{"startTimestamp":%q}}`, at)
			Expect(world.Client.Status().Patch(t.Context(), b, client.RawPatch(types.MergePatchType, []byte(change)))).To(Succeed())
		}
		newest := s.backUp(t, app, scheduled)
		env.Create(t, world.Client, env.NewConfigMap(app, 1))
		older := s.backUp(t, app, scheduled)
		started(newest, time.Hour)
		started(older, 2*time.Hour)
		invalid := s.NewBackup(app)
		invalid.Spec.ExcludedNamespaces = invalid.Spec.IncludedNamespaces
		scheduled(invalid)
		invalid = env.WaitFor(t, world.Client, env.Create(t, world.Client, invalid), "it has failed", func(b *v1alpha1.Backup) bool { return lifecycle.IsFinalized(b) })
		started(invalid, 0)

		r, target := s.restoreOf("", app)
		r.Spec.ScheduleName = schedule
		r = outcome(t, env.Create(t, world.Client, r), v1alpha1.RunPhaseCompleted)
		if r.Status.BackupName != newest.Name {
			t.Errorf("Backup %s was restored, want %s", r.Status.BackupName, newest.Name)
		}
		env.CheckEqual(t, "objects", restored(t, target), []string{"c0=0"})

		r, _ = s.restoreOf("", app)
		r.Spec.ScheduleName = "never"
		outcome(t, env.Create(t, world.Client, r), v1alpha1.RunPhaseFailedValidation, "Schedule never has no Completed Backup")
	})

	It("queues Restores and reports metrics", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.StartOperator(t)}
		app := gatedApp(t, 1)
		b := s.backUp(t, app)
		gate := newGate(t, app)

		running, _ := s.restoreOf(b.Name, app)
		env.Create(t, world.Client, running)
		gate.await(t)
		queued, target := s.restoreOf(b.Name, app)
		env.Create(t, world.Client, queued)
		env.WaitFor(t, world.Client, queued, "it waits", func(r *v1alpha1.Restore) bool {
			return r.Status.Phase == v1alpha1.RunPhaseNew && reasonOf(r, v1alpha1.ConditionSucceeded) == v1alpha1.ReasonQueued &&
				strings.Contains(r.Status.Message, "--max-concurrent-restores")
		})
		untouched(t, target)
		gate.open()
		outcome(t, running, v1alpha1.RunPhaseCompleted, "3 created")
		outcome(t, queued, v1alpha1.RunPhaseCompleted, "3 created")

		failed, _ := s.restoreOf(b.Name, app)
		failed.Labels = env.LabelsForActions(fails)
		outcome(t, env.Create(t, world.Client, failed), v1alpha1.RunPhaseFailedPreRestoreActions)
		stopped, _ := s.restoreOf(b.Name, app)
		stopped.Labels = env.LabelsForActions(holds)
		env.Create(t, world.Client, stopped)
		called(t, stopped, v1alpha1.HookPreRestore, holds)
		cancelRestore(t, stopped)
		outcome(t, stopped, v1alpha1.RunPhaseCancelled)
		unknown, _ := s.restoreOf("nobody-made-it", app)
		outcome(t, env.Create(t, world.Client, unknown), v1alpha1.RunPhaseFailedValidation)

		for name, want := range map[string]float64{
			`grapnel_restore_attempt_total{schedule=""}`:                                                    4,
			`grapnel_restore_success_total{schedule=""}`:                                                    2,
			`grapnel_restore_failed_total{schedule=""}`:                                                     1,
			`grapnel_restore_cancelled_total{schedule=""}`:                                                  1,
			`grapnel_restore_validation_failed_total{schedule=""}`:                                          1,
			`grapnel_restore_items_total{result="created",schedule=""}`:                                     6,
			`grapnel_restore_duration_seconds_count{schedule=""}`:                                           4,
			fmt.Sprintf(`grapnel_hook_runs_total{action=%q,point="PreRestore",result="Failed"}`, fails):     1,
			fmt.Sprintf(`grapnel_hook_runs_total{action=%q,point="PostRestore",result="Completed"}`, holds): 1,
		} {
			s.WaitForMetric(t, name, want)
		}
	})

	// Those of a Restore end it; those of the installation are warnings, and all other lines count.
	It("reports malformed priorities by line", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.StartOperator(t, "--features=EnableAPIGroupVersions")}
		app := world.CreateApp(t, 1)
		b := s.backUp(t, app)
		By("of the Restore", func() {
			r, target := s.restoreOf(b.Name, app)
			r.Spec.APIVersionPriorities = "configmaps=v1\n\ndeployments.apps v1\n=v2\n"
			outcome(t, env.Create(t, world.Client, r), v1alpha1.RunPhaseFailedValidation, "2 problems must be fixed",
				`spec.apiVersionPriorities: line 3, "deployments.apps v1": there is no "="`, "spec.apiVersionPriorities: line 4")
			untouched(t, target)
		})
		By("of the installation", func() {
			config := env.Create(t, world.Client, &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: s.Name, Name: "enableapigroupversions"},
				Data:       map[string]string{"restoreResourcesVersionPriority": "configmaps=v1\r\nconfigmaps\r\nsecrets=v1\r\nsecrets=v1"},
			})
			r, target := s.restoreOf(b.Name, app)
			r = outcome(t, env.Create(t, world.Client, r), v1alpha1.RunPhaseCompleted, "2 created, 2 warnings")
			for _, want := range []string{
				`ConfigMap enableapigroupversions, restoreResourcesVersionPriority: line 2, \"configmaps\": there is no`,
				`ConfigMap enableapigroupversions, restoreResourcesVersionPriority: line 4, \"secrets=v1\": line 3 is about the same resource`,
			} {
				says(t, s.results(t, r), want)
			}
			env.CheckEqual(t, "objects", restored(t, target), []string{"c0=0"})
			world.Patch(t, config, `{"data":{"restoreResourcesVersionPriority":"configmaps=v1"}}`)
			r, target = s.restoreOf(b.Name, app)
			outcome(t, env.Create(t, world.Client, r), v1alpha1.RunPhaseCompleted, "2 created")
			env.CheckEqual(t, "objects", restored(t, target), []string{"c0=0"})
		})
	})

	Context("warns about priorities without effect", func() {
		for name, c := range suite.SortedByName(map[string]struct {
			flags    []string
			priority string
			want     []string
		}{
			"the feature is off": {
				nil, "configmaps=v1", []string{"spec.apiVersionPriorities has no effect: ", "--features=EnableAPIGroupVersions"},
			},
			"the backup has no such thing": {
				[]string{"--features=EnableAPIGroupVersions"}, "deployments=v1", []string{"spec.apiVersionPriorities names ", "for example deployments.apps"},
			},
		}) {
			It(name, func() {
				t := suite.Spec(GinkgoTB())
				s := site{world.StartOperator(t, c.flags...)}
				app := world.CreateApp(t, 1)
				r, target := s.restoreOf(s.backUp(t, app).Name, app)
				r.Spec.APIVersionPriorities = c.priority
				r = outcome(t, env.Create(t, world.Client, r), v1alpha1.RunPhaseCompleted, "2 created")
				env.CheckEqual(t, "objects", restored(t, target), []string{"c0=0"})
				if r.Status.Warnings != 1 {
					t.Errorf("%d warnings, want 1", r.Status.Warnings)
				}
				for _, text := range c.want {
					says(t, s.results(t, r), text)
				}
			})
		}
	})

	It("follows the order of the operator", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.StartOperator(t, "--restore-resource-priorities=configmaps,-,secrets", "--restore-workers=2")}
		app := gatedApp(t, 1)
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: app, Name: "later"}}
		env.Create(t, world.Client, secret)
		b := s.backUp(t, app, func(b *v1alpha1.Backup) { b.Spec.IncludedResources = append(b.Spec.IncludedResources, "secrets") })
		r, target := s.restoreOf(b.Name, app)
		gate := newGate(t, app)
		env.Create(t, world.Client, r)
		gate.await(t)
		secret = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: target, Name: "later"}}
		if world.Exists(t, secret) {
			t.Error("the Secret was restored before the ConfigMap")
		}
		gate.open()
		outcome(t, r, v1alpha1.RunPhaseCompleted, "4 created")
		if !world.Exists(t, secret) {
			t.Error("the Secret was not restored")
		}
	})
})
