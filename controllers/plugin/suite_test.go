// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/controllers/plugin"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/plugin/catalog"
	"github.com/grapnel-dev/grapnel/internal/plugin/plugintesting"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

var (
	cluster suite.Cluster
	// programDir is the directory with the plugins of test/.
	programDir string
)

func TestMain(m *testing.M) {
	os.Exit(plugintesting.RunWithPlugins(context.Background(), func(dir string) int {
		programDir = dir
		return m.Run()
	}, "exampleplugin"))
}

var (
	_ = BeforeSuite(func() { Expect(cluster.Start()).To(Succeed()) })
	_ = AfterSuite(func() { Expect(cluster.Stop()).To(Succeed()) })
)

func TestController(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Plugin controller")
}

// loader is a catalog that records loads and whose loads do what the test sets.
type loader struct {
	load func(ctx context.Context, spec catalog.Spec) (catalog.Info, error)

	mu     sync.Mutex
	loaded []catalog.Spec
	events []string
}

// Load implements plugin.Catalog.
func (l *loader) Load(ctx context.Context, spec catalog.Spec) (catalog.Info, error) {
	l.mu.Lock()
	l.loaded = append(l.loaded, spec)
	l.events = append(l.events, fmt.Sprintf("load %s/%s", spec.UID, spec.Process.Path))
	l.mu.Unlock()
	return l.load(ctx, spec)
}

// Unload implements plugin.Catalog.
func (l *loader) Unload(_ context.Context, name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, "unload "+name)
}

func (l *loader) loads() []catalog.Spec {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.loaded
}

// awaitLoads waits until there were n loads.
func (l *loader) awaitLoads(t testing.TB, n int) {
	t.Helper()
	suite.Eventually(t, func() string {
		if got := len(l.loads()); got < n {
			return fmt.Sprintf("there were %d loads, want %d", got, n)
		}
		return ""
	})
}

// unloaded reports whether the last call was Unload.
func (l *loader) unloaded() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.events) > 0 && strings.HasPrefix(l.events[len(l.events)-1], "unload ")
}

// well is the Info of a working plugin.
func well(context.Context, catalog.Spec) (catalog.Info, error) {
	return catalog.Info{Digest: "d1", SDKVersion: "v0.1.0", Actions: []catalog.Action{
		{Kind: "BackupItemAction", Version: "v1", Name: "example.io/item"},
		{Kind: "PostBackupAction", Version: "v1", Name: "example.io/freeze"},
		{Kind: "PreBackupAction", Version: "v1", Name: "example.io/freeze"},
		{Kind: "PreBackupAction", Version: "v2", Name: "example.io/freeze"},
	}}, nil
}

func badly(context.Context, catalog.Spec) (catalog.Info, error) {
	return catalog.Info{}, &catalog.LoadError{Reason: "BinaryNotFound", Message: "there is no file example: copy it into the plugin directory"}
}

// operator starts an operator with a catalog.
func operator(t testing.TB, env *suite.Env, plugins plugin.Catalog, options ...func(*plugin.Reconciler)) (stop func()) {
	t.Helper()
	return env.StartManager(func(mgr ctrl.Manager) error {
		r := &plugin.Reconciler{
			Client: mgr.GetClient(), Catalog: plugins, Builder: builder{}, Recorder: mgr.GetEventRecorder("grapnel"), Dir: "/plugins",
		}
		for _, option := range options {
			option(r)
		}
		return r.SetupWithManager(mgr)
	})
}

// builder builds Plugins without a program, with the name of their image as digest; the
// image "bad" is invalid.
type builder struct{}

// Build implements plugin.Builder.
func (builder) Build(p *v1alpha1.Plugin) (*catalog.DeclaredActions, error) {
	if p.Spec.Executor.Job.Image == "bad" {
		return nil, errors.New("action PreBackupAction(example.io/freeze): the image is bad")
	}
	return &catalog.DeclaredActions{Digest: p.Spec.Executor.Job.Image}, nil
}

// Endpoint implements plugin.Builder.
func (builder) Endpoint(p *v1alpha1.Plugin) *catalog.EndpointSpec {
	return &catalog.EndpointSpec{Address: p.Spec.Executor.GRPC.Address}
}

// create creates a Plugin; the namespace of the test makes its name unique. When the test
// ends, its operator has stopped and would not remove the finalizer.
func create(t testing.TB, env *suite.Env, edits ...func(*v1alpha1.Plugin)) *v1alpha1.Plugin {
	t.Helper()
	p := &v1alpha1.Plugin{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "example-"},
		Spec:       v1alpha1.PluginSpec{Executor: v1alpha1.Executor{Process: &v1alpha1.ProcessExecutor{Command: "example"}}},
	}
	for _, edit := range edits {
		edit(p)
	}
	return suite.Create(env, p)
}

// await waits until Ready has the given status and reason for the current generation.
func await(env *suite.Env, p *v1alpha1.Plugin, status metav1.ConditionStatus, reason string) {
	suite.WaitFor(env, p, func(p *v1alpha1.Plugin) string {
		ready := conditions.Get(p, v1alpha1.ConditionReady)
		if ready == nil || ready.Status != status || ready.Reason != reason || p.Status.ObservedGeneration != p.Generation {
			return fmt.Sprintf("Ready is %+v at generation %d, want %s because of %s", ready, p.Generation, status, reason)
		}
		return ""
	})
}

// user creates a HookRun that needs a Plugin.
func user(env *suite.Env, p *v1alpha1.Plugin) *v1alpha1.HookRun {
	return suite.Create(env, &v1alpha1.HookRun{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "run-"},
		Spec: v1alpha1.HookRunSpec{
			Hook: v1alpha1.HookPostBackup, ActionName: "example.io/freeze",
			PluginRef: v1alpha1.PluginReference{Name: p.Name},
			ParentRef: v1alpha1.ParentReference{Kind: "Backup", Name: "nightly", UID: "b-1"},
			Timeout:   metav1.Duration{Duration: time.Minute}, FailurePolicy: v1alpha1.FailurePolicyFail,
			OnInterruption: v1alpha1.InterruptionPolicyRetry, Owed: true, DesiredState: v1alpha1.HookDesiredStateWait,
		},
	})
}

// end ends a HookRun.
func end(t testing.TB, env *suite.Env, run *v1alpha1.HookRun) {
	t.Helper()
	now := metav1.Now()
	run.Status.Phase, run.Status.CompletionTimestamp = v1alpha1.HookRunPhaseCompleted, &now
	if err := env.Client.Status().Update(t.Context(), run); err != nil {
		t.Fatal(err)
	}
}
