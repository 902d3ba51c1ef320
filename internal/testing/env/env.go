// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/controlplane"
	"github.com/grapnel-dev/grapnel/internal/testing/operator"
	"github.com/grapnel-dev/grapnel/internal/testing/program"
)

// parallelTests is how many tests run concurrently: they mostly wait.
const parallelTests = "12"

// Options configure the Env of a test package.
type Options struct {
	// CRDPaths are files, or directories of files, with CRDs in addition to Grapnel's.
	CRDPaths []string
	// AddToScheme adds kinds to the scheme of the client, in addition to those of
	// Kubernetes and Grapnel.
	AddToScheme []func(*k8sruntime.Scheme) error
	// ControllerManager is for tests in which namespaces are deleted. Without it, a
	// namespace contains only the objects that a test created.
	ControllerManager bool
	// SharedArgs are flags of the shared operator.
	SharedArgs []string
	// NewDefaultLocation returns the default location of a Namespace; nil means one in a
	// directory.
	NewDefaultLocation func(namespace string) *v1alpha1.BackupStorageLocation
	// Plugins returns the Plugins that are installed before the first test, and are loaded
	// when a Namespace is returned.
	Plugins func() []*v1alpha1.Plugin
	// BeforeTests is called before the first test. Its context ends after the last one.
	BeforeTests func(ctx context.Context) error
	// Secrets are secrets that no operator may log, in addition to FaultPluginToken.
	Secrets []string
}

// Env is the environment that all tests of a package share. Its fields are valid during
// Options.BeforeTests and the tests. It is safe for concurrent use.
type Env struct {
	ControlPlane *controlplane.ControlPlane
	Client       client.WithWatch
	Programs     operator.Programs
	// Dir contains the directories of the Namespaces, and files of tests.
	Dir string

	opts       Options
	cancel     context.CancelFunc
	sharedOnce sync.Once
	shared     *Namespace
	sharedErr  error
}

// RunTests runs plain tests between Start and Stop, and returns the exit code.
func (w *Env) RunTests(m *testing.M, opts Options) int {
	flag.Parse()
	code := 1
	err := flag.Set("test.parallel", parallelTests)
	if err == nil {
		err = w.Start(opts)
	}
	if err == nil {
		code = m.Run()
	}
	if err := errors.Join(err, w.Stop()); err != nil {
		return max(code, ReportSetupError(err))
	}
	return code
}

// ReportSetupError prints why no test could run, and returns the exit code.
func ReportSetupError(err error) int {
	_, _ = fmt.Fprintln(os.Stderr, err)
	return 1
}

// Start creates the environment, for BeforeSuite.
func (w *Env) Start(opts Options) error {
	ctrl.SetLogger(logr.Discard())
	w.opts = opts
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
	var err error
	if w.Dir, err = os.MkdirTemp("", "grapnel-stage-"); err != nil {
		return err
	}
	if err := w.startControlPlane(ctx); err != nil {
		return err
	}
	return w.createPluginsAndPrepare(ctx)
}

// Stop stops what Start started, for AfterSuite, and searches the logs of all operators for
// secrets.
func (w *Env) Stop() error {
	var errs []error
	if w.shared != nil {
		errs = append(errs, w.shared.Operator.Stop())
	}
	if w.cancel != nil {
		w.cancel() // The API server waits for its watches to end.
	}
	if w.ControlPlane != nil {
		errs = append(errs, w.CheckLogsForSecrets(), w.ControlPlane.Stop())
	}
	return errors.Join(append(errs, os.RemoveAll(w.Dir))...)
}

func (w *Env) createPluginsAndPrepare(ctx context.Context) error {
	if w.opts.BeforeTests != nil {
		if err := w.opts.BeforeTests(ctx); err != nil {
			return err
		}
	}
	for _, plugin := range w.configuredPlugins() {
		if err := w.Client.Create(ctx, plugin); err != nil {
			return fmt.Errorf("creating Plugin %s: %w", plugin.Name, err)
		}
	}
	return nil
}

// startControlPlane builds the programs while it starts the control plane, and connects to it.
func (w *Env) startControlPlane(ctx context.Context) error {
	root, err := program.ModuleRoot()
	if err != nil {
		return err
	}
	building := make(chan error, 1)
	go func() {
		var err error
		w.Programs, err = operator.BuildPrograms(ctx)
		building <- err
	}()
	w.ControlPlane, err = controlplane.Start(ctx, controlplane.Options{
		Dir: filepath.Join(w.Dir, "plane"), ControllerManager: w.opts.ControllerManager,
		CRDPaths: append([]string{filepath.Join(root, "config", "crd", "bases")}, w.opts.CRDPaths...),
	})
	if err = errors.Join(err, <-building); err != nil {
		return err
	}
	return w.connectClient()
}

func (w *Env) connectClient() error {
	scheme := k8sruntime.NewScheme()
	for _, add := range append([]func(*k8sruntime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme}, w.opts.AddToScheme...) {
		if err := add(scheme); err != nil {
			return err
		}
	}
	var err error
	w.Client, err = client.NewWithWatch(w.ControlPlane.Config(), client.Options{Scheme: scheme})
	return err
}
