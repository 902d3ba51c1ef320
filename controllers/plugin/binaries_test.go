// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/controllers/plugin"
	"github.com/grapnel-dev/grapnel/internal/plugin/catalog"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

// contents is a catalog whose plugins provide the actions that their binary contains.
func contents(_ context.Context, spec catalog.Spec) (catalog.Info, error) {
	text, err := os.ReadFile(spec.Process.Path)
	if err != nil {
		return catalog.Info{}, &catalog.LoadError{Reason: "BinaryNotFound", Message: "there is no such file: copy it into the plugin directory"}
	}
	return catalog.Info{Digest: string(text), Actions: []catalog.Action{{Kind: "PreBackupAction", Version: "v1", Name: "x/a"}}}, nil
}

// install puts a binary in place atomically, as an installer does.
func install(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	next := filepath.Join(t.TempDir(), "next")
	if err := os.WriteFile(next, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, path); err != nil {
		t.Fatal(err)
	}
}

func awaitDigest(env *suite.Env, p *v1alpha1.Plugin, digest string) {
	suite.WaitFor(env, p, func(p *v1alpha1.Plugin) string {
		if p.Status.Digest != digest {
			return "the digest is " + p.Status.Digest + ", want " + digest
		}
		return ""
	})
}

var _ = Describe("A Plugin and its binary", Label("plugins"), func() {
	It("is loaded, reloaded and unloaded as the watch reports its binary", func() {
		t := GinkgoTB()
		env := cluster.NewEnv(t)
		dir := filepath.Join(t.TempDir(), "plugins")
		operator(t, env, &loader{load: contents}, func(r *plugin.Reconciler) {
			r.Dir, r.InitialBackoff, r.DebounceInterval = dir, time.Hour, 50*time.Millisecond
		})
		p, other := create(t, env, command("vendor/one")), create(t, env, command("two"))
		await(env, p, metav1.ConditionFalse, "BinaryNotFound")
		await(env, other, metav1.ConditionFalse, "BinaryNotFound")
		install(t, filepath.Join(dir, "vendor", "one"), "first")
		await(env, p, metav1.ConditionTrue, v1alpha1.ReasonLoaded)
		awaitDigest(env, p, "first")
		install(t, filepath.Join(dir, "vendor", "one"), "second")
		awaitDigest(env, p, "second")
		if err := os.RemoveAll(filepath.Join(dir, "vendor")); err != nil {
			t.Fatal(err)
		}
		await(env, p, metav1.ConditionFalse, "BinaryNotFound")
		install(t, filepath.Join(dir, "vendor", "one"), "third")
		await(env, p, metav1.ConditionTrue, v1alpha1.ReasonLoaded)
		awaitDigest(env, p, "third")
		suite.WaitFor(env, other, func(p *v1alpha1.Plugin) string {
			if p.Status.Digest != "" {
				return "another Plugin was loaded"
			}
			return ""
		})
	})

	It("is loaded again when its binary changes during a load", func() {
		t := GinkgoTB()
		env := cluster.NewEnv(t)
		dir := t.TempDir()
		path := filepath.Join(dir, "slow")
		install(t, path, "first")
		read, goOn := make(chan struct{}, 8), make(chan struct{})
		plugins := &loader{load: func(ctx context.Context, spec catalog.Spec) (catalog.Info, error) {
			info, err := contents(ctx, spec)
			read <- struct{}{}
			<-goOn
			return info, err
		}}
		operator(t, env, plugins, func(r *plugin.Reconciler) {
			r.Dir, r.InitialBackoff, r.DebounceInterval = dir, time.Hour, time.Millisecond
		})
		p := create(t, env, command("slow"))
		<-read
		install(t, path, "second")
		close(goOn)
		awaitDigest(env, p, "second")
	})

	It("keeps its process while an operation is open", func() {
		t := GinkgoTB()
		env := cluster.NewEnv(t)
		dir := t.TempDir()
		path := filepath.Join(dir, "mover")
		install(t, path, "first")
		plugins := &loader{load: func(ctx context.Context, spec catalog.Spec) (catalog.Info, error) {
			info, err := contents(ctx, spec)
			if spec.HasOpenOperations {
				info.Digest, info.ReplacementPostponed = "first", true
			}
			return info, err
		}}
		var cached client.Client
		operator(t, env, plugins, func(r *plugin.Reconciler) {
			r.Dir, r.InitialBackoff, r.DebounceInterval, cached = dir, time.Hour, time.Millisecond, r.Client
		})
		p := create(t, env, command("mover"))
		await(env, p, metav1.ConditionTrue, v1alpha1.ReasonLoaded)
		operation := suite.Create(env, &v1alpha1.AsyncOperation{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "move-"},
			Spec: v1alpha1.AsyncOperationSpec{
				ParentRef: v1alpha1.ParentReference{Kind: "Backup", Name: "nightly", UID: "1"}, Kind: v1alpha1.ActionKindAsyncBackupItem,
				ActionName: "x/move", PluginRef: v1alpha1.PluginReference{Name: p.Name}, OperationID: "op-1", Attempt: 1,
				Item:    v1alpha1.OperationItem{Resource: "configmaps", Name: "data"},
				Timeout: metav1.Duration{Duration: time.Hour}, PollInterval: metav1.Duration{Duration: time.Second},
			},
		})
		suite.Eventually(t, func() string {
			if err := cached.Get(t.Context(), client.ObjectKeyFromObject(operation), &v1alpha1.AsyncOperation{}); err != nil {
				return err.Error()
			}
			return ""
		})
		install(t, path, "second")
		suite.WaitFor(env, p, func(p *v1alpha1.Plugin) string {
			if !strings.Contains(p.Status.Message, "when its operations have ended") || p.Status.Digest != "first" {
				return "the message is " + p.Status.Message
			}
			return ""
		})
		now := v1alpha1.NewMicroTime(time.Now())
		operation.Status.Phase, operation.Status.CompletionTimestamp = v1alpha1.AsyncOperationPhaseCompleted, &now
		if err := env.Client.Status().Update(t.Context(), operation); err != nil {
			t.Fatal(err)
		}
		awaitDigest(env, p, "second")
	})
})
