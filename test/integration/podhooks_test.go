// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/results"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

// annotatePod adds annotations of Velero to a pod, such as "pre.hook.backup/command=freeze".
func annotatePod(t testing.TB, namespace, name string, annotations ...string) {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	before := pod.DeepCopy()
	pod.Annotations = map[string]string{}
	for _, annotation := range annotations {
		key, value, _ := strings.Cut(annotation, "=")
		pod.Annotations[strings.Replace(key, "/", ".velero.io/", 1)] = value
	}
	Expect(world.Client.Patch(t.Context(), pod, client.MergeFrom(before))).To(Succeed())
}

// newVeleroHooks installs a Plugin for the Backups and Restores with the labels of the action that is
// returned.
func newVeleroHooks(t testing.TB) (action string) {
	t.Helper()
	action = own(t, "velero-hooks")
	plugin := &v1alpha1.Plugin{ObjectMeta: metav1.ObjectMeta{Name: path.Base(action)}}
	plugin.Spec.Executor.Builtin = &v1alpha1.BuiltinExecutor{VeleroHooks: &v1alpha1.VeleroHooksExecutor{}}
	restoring := v1alpha1.PluginAction{Name: action, Kind: v1alpha1.ActionKindPostRestore, Selector: env.SelectorForAction(action)}
	plugin.Spec.Actions = append(slices.Concat(pre(v1alpha1.PluginAction{Name: action}), post(v1alpha1.PluginAction{Name: action})), restoring)
	install(t, plugin)
	return action
}

// veleroHooksProblems returns the problems that name pods whose commands did not run.
func veleroHooksProblems(problems []v1alpha1.Problem) (messages []string) {
	for _, problem := range problems {
		if problem.Reason == results.ReasonVeleroHooksNotRun {
			messages = append(messages, problem.Message)
		}
	}
	return messages
}

var _ = Describe("Velero's annotations of pods", Label("hooks"), func() {
	It("names the pods whose commands do not run", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		node, app := newKubelet(t), world.CreateApp(t, 1)
		pod := node.runs(t, app, nil)
		annotatePod(t, app, pod, "pre.hook.backup/command=freeze", "post.hook.restore/command=load")

		b := s.NewBackup(app)
		b.Spec.IncludedResources = patterns("configmaps", "pods")
		b = outcome(t, s.apply(t, b), v1alpha1.RunPhaseCompleted, "1 warning")
		Expect(veleroHooksProblems(b.Status.Problems)).To(ConsistOf(HaveSuffix("config/components/velero-hooks: " + app + "/" + pod)))
		r := restored(t, env.Create(t, world.Client, restoreOf(b, app)), v1alpha1.RunPhaseCompleted)
		Expect(veleroHooksProblems(r.Status.Problems)).To(ConsistOf(HaveSuffix(": " + app + "-again/" + pod)))
		Expect(node.take()).To(BeEmpty())
	})

	It("runs them where an administrator has a Plugin for that", func() {
		t := suite.Spec(GinkgoTB())
		s := site{world.SharedOperator(t)}
		action := newVeleroHooks(t)
		node, app, other := newKubelet(t), world.CreateApp(t, 1), world.CreateApp(t, 1)
		// The node runs nothing: what failed is not undone, and not owed.
		frozen, thawed := node.runs(t, app, nil), node.runs(t, app, nil)
		annotatePod(t, app, frozen, `pre.hook.backup/command=["freeze","--now"]`, "pre.hook.backup/container=other",
			"pre.hook.backup/on-error=Continue", "post.hook.backup/command=thaw")
		annotatePod(t, app, thawed, "post.hook.backup/command=thaw", "post.hook.backup/on-error=Continue",
			"init.hook.restore/container-image=busybox", "init.hook.restore/container-name=prepare", `init.hook.restore/command=["sh","-c","load"]`,
			"post.hook.restore/command=load", "post.hook.restore/wait-timeout=1s")
		for _, elsewhere := range []string{other, s.Name} {
			annotatePod(t, elsewhere, node.runs(t, elsewhere, nil), "pre.hook.backup/command=freeze")
		}

		b := s.NewBackup(app, s.Name)
		b.Labels = env.LabelsForActions(action)
		b.Spec.IncludedResources = patterns("configmaps", "pods")
		b = outcome(t, s.apply(t, b), v1alpha1.RunPhaseCompleted, "1 warning")
		Expect(veleroHooksProblems(b.Status.Problems)).To(BeEmpty())
		Expect(b.Status.Problems[0].Message).To(ContainSubstring("failed and ignored (%s/%s: ", app, frozen))
		Eventually(node.take).Should(ConsistOf(
			fmt.Sprintf("/exec/%s/%s/other freeze --now", app, frozen), fmt.Sprintf("/exec/%s/%s/main thaw", app, thawed)))

		r := restoreOf(b, app, action)
		r.Spec.IncludedNamespaces = patterns(app)
		r = restored(t, env.Create(t, world.Client, r), v1alpha1.RunPhaseCompleted)
		Expect(veleroHooksProblems(r.Status.Problems)).To(BeEmpty())
		var pod corev1.Pod
		Expect(world.Client.Get(t.Context(), client.ObjectKey{Namespace: app + "-again", Name: thawed}, &pod)).To(Succeed())
		Expect(pod.Spec.InitContainers).To(HaveLen(1))
		Expect(pod.Spec.InitContainers[0].Name).To(Equal("prepare"))
		Expect(pod.Spec.InitContainers[0].Command).To(Equal([]string{"sh", "-c", "load"}))
		// No node runs the restored pod.
		await(t, r, "the commands of restored pods are done", func(r *v1alpha1.Restore) bool {
			post := r.Status.PostRestoreActionsStatuses
			return post != nil && (*post)[0].Phase == v1alpha1.ActionPhaseCompleted && strings.Contains((*post)[0].Message, thawed+": its container main does not run after 1s")
		})
	})
})
