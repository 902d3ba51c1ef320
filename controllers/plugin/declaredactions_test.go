// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin_test

import (
	"context"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/plugin/catalog"
)

// freezing is a Plugin that runs an image as a Job.
func freezing(image string) func(*v1alpha1.Plugin) {
	return func(p *v1alpha1.Plugin) {
		p.Spec.Executor = v1alpha1.Executor{Job: &v1alpha1.JobExecutor{Image: image}}
		p.Spec.Actions = []v1alpha1.PluginAction{{Name: "example.io/freeze", Kind: v1alpha1.ActionKindPreBackup}}
	}
}

var _ = Describe("A Plugin with declared actions", Label("plugins"), func() {
	It("is loaded without a program", func() {
		t := GinkgoTB()
		env := cluster.NewEnv(t)
		plugins := &loader{load: func(_ context.Context, spec catalog.Spec) (catalog.Info, error) {
			return catalog.Info{Digest: spec.DeclaredActions.Digest, Actions: []catalog.Action{
				{Kind: "PreBackupAction", Version: "v1", Name: "example.io/freeze"},
			}}, nil
		}}
		operator(t, env, plugins)
		p := create(t, env, freezing("good"))
		await(env, p, metav1.ConditionTrue, v1alpha1.ReasonLoaded)
		if p.Status.Digest != "good" || p.Status.SDKVersion != "" || len(p.Status.Actions) != 1 {
			t.Errorf("the status is %+v", p.Status)
		}
		env.WaitForEvent(p, "Normal Loaded: The plugin has what it needs and provides 1 actions")
	})

	It("reports what cannot be built", func() {
		t := GinkgoTB()
		env := cluster.NewEnv(t)
		plugins := &loader{load: well}
		operator(t, env, plugins, retryAfter(time.Hour))
		p := create(t, env, freezing("bad"))
		await(env, p, metav1.ConditionFalse, "InvalidSpec")
		if want := "action PreBackupAction(example.io/freeze): the image is bad"; p.Status.Message != want {
			t.Errorf("the message is %q, want %q", p.Status.Message, want)
		}
		if loads := plugins.loads(); len(loads) > 0 {
			t.Errorf("the Plugin was loaded: %+v", loads)
		}
	})

	It("is loaded from an address", func() {
		t := GinkgoTB()
		env := cluster.NewEnv(t)
		plugins := &loader{load: well}
		operator(t, env, plugins)
		p := create(t, env, func(p *v1alpha1.Plugin) {
			p.Spec.Executor = v1alpha1.Executor{GRPC: &v1alpha1.GRPCExecutor{Address: "unix:///run/plugin.sock"}}
		})
		await(env, p, metav1.ConditionTrue, v1alpha1.ReasonLoaded)
		want := []catalog.Spec{{
			Name: p.Name, UID: string(p.UID), Generation: 1, Created: p.CreationTimestamp.Time,
			Endpoint: &catalog.EndpointSpec{Address: "unix:///run/plugin.sock"},
		}}
		if diff := cmp.Diff(want, plugins.loads()); diff != "" {
			t.Errorf("loads (-want +got):\n%s", diff)
		}
		env.WaitForEvent(p, "Normal Loaded: The plugin answers and provides 3 actions")
	})
})
