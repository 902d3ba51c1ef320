// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/controllers/plugin"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/plugin/catalog"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

func retryAfter(pause time.Duration) func(*plugin.Reconciler) {
	return func(r *plugin.Reconciler) { r.InitialBackoff = pause }
}

func command(name string) func(*v1alpha1.Plugin) {
	return func(p *v1alpha1.Plugin) { p.Spec.Executor.Process.Command = name }
}

var _ = Describe("The load of a Plugin", Label("plugins"), func() {
	It("reconcile load", func() {
		t := GinkgoTB()
		env := cluster.NewEnv(t)
		plugins := &loader{load: well}
		operator(t, env, plugins)
		p := create(t, env, command("sub/example"), func(p *v1alpha1.Plugin) {
			process := p.Spec.Executor.Process
			process.Args = []string{"--fast"}
			process.Env = []v1alpha1.EnvVar{{Name: "MODE", Value: "deep"}}
			process.StartTimeout = &metav1.Duration{Duration: 7 * time.Second}
		})
		await(env, p, metav1.ConditionTrue, v1alpha1.ReasonLoaded)
		want := v1alpha1.PluginStatus{ObservedGeneration: 1, Digest: "d1", SDKVersion: "v0.1.0", Actions: []v1alpha1.ProvidedAction{
			{Name: "example.io/item", Kind: v1alpha1.ActionKindBackupItem, Version: "v1"},
			{Name: "example.io/freeze", Kind: v1alpha1.ActionKindPostBackup, Version: "v1"},
			{Name: "example.io/freeze", Kind: v1alpha1.ActionKindPreBackup, Version: "v2"},
		}}
		got := *p.Status.DeepCopy()
		got.Conditions = nil
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("status (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]catalog.Spec{{
			Name: p.Name, UID: string(p.UID), Generation: 1, Created: p.CreationTimestamp.Time,
			Process: catalog.ProcessSpec{
				Path: "/plugins/sub/example", Args: []string{"--fast"}, Env: map[string]string{"MODE": "deep"}, StartTimeout: 7 * time.Second,
			},
		}}, plugins.loads()); diff != "" {
			t.Errorf("loads (-want +got):\n%s", diff)
		}
		env.WaitForEvent(p, "Normal Loaded: The plugin runs and provides 3 actions")
	})

	It("shows what a plugin for Velero offers, and what Grapnel does not use", func() {
		t := GinkgoTB()
		env := cluster.NewEnv(t)
		operator(t, env, &loader{load: func(context.Context, catalog.Spec) (catalog.Info, error) {
			return catalog.Info{
				Actions: []catalog.Action{{Kind: "ItemBlockAction", Version: "v1", Name: "velero.io/block"}, {Kind: "ObjectStore", Version: "v1", Name: "velero.io/aws"}},
				Ignored: []string{"VolumeSnapshotter velero.io/aws"},
			}, nil
		}})
		p := create(t, env, command("aws"))
		await(env, p, metav1.ConditionTrue, v1alpha1.ReasonLoaded)
		want := "The plugin runs and provides 2 actions; Grapnel does not use VolumeSnapshotter velero.io/aws"
		if ready := conditions.Get(p, v1alpha1.ConditionReady); ready.Message != want || len(p.Status.Actions) != 2 {
			t.Errorf("the condition Ready is %q, and the actions are %v, want %q and two", ready.Message, p.Status.Actions, want)
		}
	})

	It("keeps the actions in its status when it cannot be loaded", func() {
		t := GinkgoTB()
		env := cluster.NewEnv(t)
		plugins := &loader{load: func(ctx context.Context, spec catalog.Spec) (catalog.Info, error) {
			if spec.Process.Path == "/plugins/example" {
				return well(ctx, spec)
			}
			return badly(ctx, spec)
		}}
		operator(t, env, plugins, retryAfter(time.Hour))
		p := create(t, env)
		await(env, p, metav1.ConditionTrue, v1alpha1.ReasonLoaded)
		suite.UpdateWithRetry(env, p, command("missing"))
		await(env, p, metav1.ConditionFalse, "BinaryNotFound")
		const message = "there is no file example: copy it into the plugin directory"
		if p.Status.Message != message || !conditions.IsTrue(p, v1alpha1.ConditionStalled) || len(p.Status.Actions) != 3 {
			t.Errorf("status is %+v", p.Status)
		}
		env.WaitForEvent(p, "Warning LoadFailed: "+message)

		// The back-off would be an hour; a change is loaded immediately.
		suite.UpdateWithRetry(env, p, command("example"))
		await(env, p, metav1.ConditionTrue, v1alpha1.ReasonLoaded)
		if p.Status.Message != "" || conditions.IsTrue(p, v1alpha1.ConditionStalled) {
			t.Errorf("status is %+v", p.Status)
		}
		if got := len(plugins.loads()); got != 3 {
			t.Errorf("there were %d loads, want 3", got)
		}
	})

	It("is retried, with events only for changes", func() {
		t := GinkgoTB()
		env := cluster.NewEnv(t)
		var loads atomic.Int32
		plugins := &loader{load: func(ctx context.Context, spec catalog.Spec) (catalog.Info, error) {
			if loads.Add(1) < 4 {
				return badly(ctx, spec)
			}
			return well(ctx, spec)
		}}
		operator(t, env, plugins, retryAfter(time.Millisecond))
		p := create(t, env)
		await(env, p, metav1.ConditionTrue, v1alpha1.ReasonLoaded)
		env.WaitForEvent(p, "Normal Loaded")
		want := []string{
			"Normal Loaded: The plugin runs and provides 3 actions",
			"Warning LoadFailed: there is no file example: copy it into the plugin directory",
		}
		if diff := cmp.Diff(want, sorted(env.ListEventsFor(p))); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})

	It("delays no other Plugin", func() {
		t := GinkgoTB()
		env := cluster.NewEnv(t)
		plugins := &loader{load: func(ctx context.Context, spec catalog.Spec) (catalog.Info, error) {
			if spec.Process.Path == "/plugins/hangs" {
				<-ctx.Done()
				return catalog.Info{}, &catalog.LoadError{Reason: "Interrupted", Message: context.Cause(ctx).Error()}
			}
			return well(ctx, spec)
		}}
		operator(t, env, plugins)
		hangs := create(t, env, command("hangs"))
		await(env, hangs, metav1.ConditionFalse, v1alpha1.ReasonLoading)
		await(env, create(t, env), metav1.ConditionTrue, v1alpha1.ReasonLoaded)
		suite.UpdateWithRetry(env, hangs, command("hangs-no-more"))
		await(env, hangs, metav1.ConditionTrue, v1alpha1.ReasonLoaded)

		hangs = create(t, env, command("hangs"))
		await(env, hangs, metav1.ConditionFalse, v1alpha1.ReasonLoading)
		env.Delete(hangs)
		env.WaitForDeletion(hangs)
	})

	It("is loaded again when its process ends, but not endlessly", func() {
		t := GinkgoTB()
		env := cluster.NewEnv(t)
		var loads atomic.Int32
		plugins := &loader{load: func(ctx context.Context, spec catalog.Spec) (catalog.Info, error) {
			info, err := well(ctx, spec)
			info.Digest = fmt.Sprintf("d%d", loads.Add(1))
			return info, err
		}}
		exited := make(chan string)
		operator(t, env, plugins, retryAfter(time.Hour), func(r *plugin.Reconciler) { r.ProcessExits = exited })
		p := create(t, env)
		await(env, p, metav1.ConditionTrue, v1alpha1.ReasonLoaded)
		exited <- p.Name
		suite.WaitFor(env, p, func(p *v1alpha1.Plugin) string {
			if p.Status.Digest != "d2" {
				return "it was not loaded again"
			}
			return ""
		})
		exited <- "unknown"
		for range 3 {
			exited <- p.Name
		}
		await(env, p, metav1.ConditionFalse, "CrashLoop")
		if got := len(plugins.loads()); got != 2 || len(p.Status.Actions) != 3 || p.Status.Message == "" {
			t.Errorf("%d loads, want 2; status %+v", got, p.Status)
		}
		env.WaitForEvent(p, "Warning LoadFailed: the process of the plugin ended several times by itself")
	})

	It("does not mention processes when it is served at an address", func() {
		t := GinkgoTB()
		env := cluster.NewEnv(t)
		exited := make(chan string)
		operator(t, env, &loader{load: well}, retryAfter(time.Hour), func(r *plugin.Reconciler) { r.ProcessExits = exited })
		p := create(t, env, func(p *v1alpha1.Plugin) {
			p.Spec.Executor = v1alpha1.Executor{GRPC: &v1alpha1.GRPCExecutor{Address: "report.shop.svc:7443", TLS: &v1alpha1.TLSClient{}}}
		})
		await(env, p, metav1.ConditionTrue, v1alpha1.ReasonLoaded)
		for range 5 {
			exited <- p.Name
		}
		await(env, p, metav1.ConditionFalse, "ConnectBackOff")
		env.WaitForEvent(p, "Warning LoadFailed: the connection to report.shop.svc:7443 was established and lost several times")
	})
})
