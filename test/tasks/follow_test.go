// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package tasks

import (
	"context"
	"io"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/cli"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

var _ = Describe("A log that is followed", func() {
	It("continues with the next operator", func(ctx context.Context) {
		const action = "example.io/endless"
		t := suite.Spec(GinkgoTB())
		site := world.StartOperator(t)
		env.Create(t, world.Client, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "river"}})
		plugin := env.Create(t, world.Client, world.NewFaultPlugin("river", []v1alpha1.PluginAction{
			{Name: action, Kind: v1alpha1.ActionKindPreBackup, Selector: env.SelectorForAction(action)},
		}, "FAULT_CALL=PreBackup=wait"))
		DeferCleanup(func(ctx context.Context) error { return world.Client.Delete(ctx, plugin) })
		world.WaitForPlugins(t, plugin)
		backup := site.NewBackup("river")
		backup.Labels = env.LabelsForActions(action)
		env.Create(t, world.Client, backup)

		// Everything is of another namespace, where the roles of the users are not bound.
		command := func(args ...string) []string {
			return append([]string{"--kubeconfig", world.ControlPlane.KubeconfigPath(), "--namespace", site.Name}, args...)
		}
		out, errOut := gbytes.NewBuffer(), gbytes.NewBuffer()
		ended := make(chan int, 1)
		go func() {
			ended <- cli.Run(ctx, genericiooptions.IOStreams{In: strings.NewReader(""), Out: out, ErrOut: errOut}, "test", command("logs", backup.Name, "-f"))
		}()
		Eventually(ctx, out).WithTimeout(patience).Should(gbytes.Say("Calling the action.* attempt=1\n"))
		Expect(site.Operator.Kill()).To(Succeed())
		site.RestartOperator(t)
		Eventually(ctx, out).WithTimeout(patience).Should(gbytes.Say("Calling the action.* attempt=2\n"))

		discard := genericiooptions.IOStreams{In: strings.NewReader(""), Out: io.Discard, ErrOut: GinkgoWriter}
		Expect(cli.Run(ctx, discard, "test", command("backup", "cancel", backup.Name))).To(Equal(0))
		Eventually(ctx, ended).WithTimeout(patience).Should(Receive(Equal(0)), "%s", errOut.Contents())
		for _, attempt := range []string{"attempt=1", "attempt=2"} {
			calls := 0
			for line := range strings.Lines(string(out.Contents())) {
				if strings.Contains(line, "Calling the action") && strings.Contains(line, attempt) {
					calls++
				}
			}
			Expect(calls).To(Equal(1), "lines about %s in\n%s", attempt, out.Contents())
		}
	})
})
