// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package storagelocation_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/controllers/plugin"
	"github.com/grapnel-dev/grapnel/controllers/storagelocation"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/executor/factory"
	"github.com/grapnel-dev/grapnel/internal/plugin/catalog"
	"github.com/grapnel-dev/grapnel/internal/plugin/plugintesting"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/internal/storage/location"
	"github.com/grapnel-dev/grapnel/internal/testing/storeplugin"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

// withPlugins starts an operator that also loads Plugins: this program is the binary of all of
// them. It returns the operator's scratch directory and a function that stops the operator.
func withPlugins(t testing.TB, env *suite.Env, options ...func(*storagelocation.Reconciler)) (scratch string, stop func()) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	scratch = t.TempDir()
	redactor := redact.New()
	plugins := catalog.New(catalog.Options{Redactor: redactor, Grace: 100 * time.Millisecond})
	ctx := t.Context()
	closeAll := func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		plugins.Close(ctx)
	}
	t.Cleanup(closeAll)
	stopManager := env.StartManager(func(mgr ctrl.Manager) error {
		loads := &plugin.Reconciler{
			Client: mgr.GetClient(), Catalog: plugins, Builder: &factory.Builder{}, Recorder: mgr.GetEventRecorder("grapnel"),
			Dir: filepath.Dir(self), InitialBackoff: 100 * time.Millisecond,
		}
		if err := loads.SetupWithManager(mgr); err != nil {
			return err
		}
		checks := &storagelocation.Reconciler{
			Client: mgr.GetClient(), Recorder: mgr.GetEventRecorder("grapnel"), Redactor: redactor, Interval: time.Hour,
			Opener: &location.Opener{
				Reader: mgr.GetAPIReader(), Redactor: redactor, Plugins: mgr.GetClient(), Stores: plugins, Scratch: scratch,
			},
		}
		for _, option := range options {
			option(checks)
		}
		return checks.SetupWithManager(mgr)
	})
	return scratch, func() {
		stopManager()
		closeAll()
	}
}

// newPlugin creates a Plugin whose program serves the directory.
func newPlugin(t testing.TB, env *suite.Env, directory *storeplugin.BucketDir) *v1alpha1.Plugin {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	process := &v1alpha1.ProcessExecutor{Command: filepath.Base(self)}
	for name, value := range directory.Env() {
		process.Env = append(process.Env, v1alpha1.EnvVar{Name: name, Value: value})
	}
	return suite.Create(env, &v1alpha1.Plugin{
		ObjectMeta: metav1.ObjectMeta{Name: env.Namespace + "-directories"},
		Spec:       v1alpha1.PluginSpec{Executor: v1alpha1.Executor{Process: process}},
	})
}

func inPlugin(env *suite.Env, bucket string, edits ...func(*v1alpha1.BackupStorageLocation)) *v1alpha1.BackupStorageLocation {
	bsl := &v1alpha1.BackupStorageLocation{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "plugin-"},
		Spec:       v1alpha1.BackupStorageLocationSpec{Plugin: &v1alpha1.PluginLocation{Provider: storeplugin.Provider, Bucket: bucket}},
	}
	for _, edit := range edits {
		edit(bsl)
	}
	return suite.Create(env, bsl)
}

func withCredential(bsl *v1alpha1.BackupStorageLocation) {
	bsl.Spec.Plugin.Credential = &v1alpha1.SecretKeyReference{Name: "cloud", Key: "ini"}
}

var _ = Describe("A location of a plugin", Label("import"), func() {
	It("is checked when its plugin comes and goes", func() {
		t := GinkgoTB()
		env := cluster.NewEnv(t)
		withPlugins(t, env)
		store := storeplugin.NewBucketDir(t, "bucket")
		bsl := inPlugin(env, "bucket")
		await(env, bsl, unavailable(`no Plugin provides the ObjectStore "test.example.io/directory": create the Plugin`))
		if bsl.Status.PutIfAbsent != nil {
			t.Errorf("the location is unavailable, but putIfAbsent is %v", *bsl.Status.PutIfAbsent)
		}
		directories := newPlugin(t, env, store)
		await(env, bsl, available)
		if bsl.Status.PutIfAbsent == nil || *bsl.Status.PutIfAbsent {
			t.Errorf("putIfAbsent is %v", bsl.Status.PutIfAbsent)
		}
		if err := env.Client.Delete(t.Context(), directories); err != nil {
			t.Fatal(err)
		}
		await(env, bsl, unavailable("the Plugin "+directories.Name+", which provided it, was deleted"))
		env.WaitForEvent(bsl, "Warning Unavailable: no Plugin provides")
		newPlugin(t, env, store)
		await(env, bsl, available)
	})

	It("waits for its plugin", func() {
		t := GinkgoTB()
		env := cluster.NewEnv(t)
		_, stop := withPlugins(t, env)
		directories := newPlugin(t, env, storeplugin.NewBucketDir(t, "bucket"))
		bsl := inPlugin(env, "bucket")
		await(env, bsl, available)
		stop()
		command := directories.Spec.Executor.Process.Command
		suite.UpdateWithRetry(env, directories, func(p *v1alpha1.Plugin) { p.Spec.Executor.Process.Command = "missing" })
		withPlugins(t, env)
		await(env, bsl, unavailable("the Plugin "+directories.Name+`, which provides the ObjectStore "test.example.io/directory", is not ready: `))
		suite.WaitFor(env, directories, func(p *v1alpha1.Plugin) string {
			suite.GetIfExists(env, bsl)
			if ready := conditions.Get(p, v1alpha1.ConditionReady); !strings.Contains(bsl.Status.Message, ready.Message) {
				return "the location says " + bsl.Status.Message + ", the Plugin " + ready.Message
			}
			return ""
		})
		suite.UpdateWithRetry(env, directories, func(p *v1alpha1.Plugin) { p.Spec.Executor.Process.Command = command })
		await(env, bsl, available)
	})

	It("reports the errors of the plugin", func() {
		t := GinkgoTB()
		env := cluster.NewEnv(t)
		scratch, _ := withPlugins(t, env, often)
		store := storeplugin.NewBucketDir(t, "bucket")
		newPlugin(t, env, store)

		bucketless := inPlugin(env, "missing")
		await(env, bucketless, unavailable(`the bucket "missing" does not exist`))
		store.CreateBucket("missing")
		await(env, bucketless, available)

		odd := inPlugin(env, "bucket", func(bsl *v1alpha1.BackupStorageLocation) {
			bsl.Spec.Plugin.Config = v1alpha1.ProviderConfig{"regoin": "x"}
		})
		await(env, odd, unavailable("config has invalid key regoin"))
		suite.UpdateWithRetry(env, odd, func(bsl *v1alpha1.BackupStorageLocation) { bsl.Spec.Plugin.Config = nil })
		await(env, odd, available)

		const wrong = "wrong-swordfish"
		bsl := inPlugin(env, "bucket", withCredential)
		await(env, bsl, unavailable("reading the Secret cloud of the location"))
		secret := credentials(env, "cloud", map[string]string{"ini": "password=" + wrong})
		await(env, bsl, unavailable("unknown credentials [REDACTED]"))
		suite.UpdateWithRetry(env, secret, func(secret *corev1.Secret) { secret.StringData = map[string]string{"ini": "password=right"} })
		await(env, bsl, available)
		for _, event := range env.ListEventsFor(bsl) {
			if strings.Contains(event, wrong) {
				t.Errorf("an event contains the password: %s", event)
			}
		}
		if starts := store.AcceptedInits(); starts[len(starts)-1].Credentials != "password=right" {
			t.Errorf("the store was initialized with: %+v", starts[len(starts)-1])
		}

		if err := env.Client.Delete(t.Context(), bsl); err != nil {
			t.Fatal(err)
		}
		plugintesting.Eventually(t, "the credentials were removed", func() bool {
			files, err := filepath.Glob(filepath.Join(scratch, "*", "*"))
			return err == nil && len(files) == 0
		})
	})
})
