// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/grapnel-dev/grapnel/internal/testing/program"
)

const (
	// DefaultServiceCIDR has room for 65,000 Services; the default of envtest ends at 254.
	DefaultServiceCIDR = "10.96.0.0/16"

	// The limits are generous because a machine that builds and tests at the same time is
	// slow; only failing tests reach them.
	startTimeout = 90 * time.Second
	stopTimeout  = 60 * time.Second
)

// Options configure Start. The zero value means an API server without CRDs and controllers.
type Options struct {
	// Dir is the directory in which Start creates its own directory for data, certificates
	// and logs. Dir is created if it is missing; empty means the directory for temporary
	// files.
	Dir string
	// CRDPaths are files, or directories of files, with the CRDs to install. Start fails if
	// one is missing, and returns only once all are served.
	CRDPaths []string
	// ServiceCIDR is the range of the addresses of Services. Empty means
	// DefaultServiceCIDR.
	ServiceCIDR string
	// ControllerManager starts kube-controller-manager too.
	ControllerManager bool
	// APIServerArgs are flags of kube-apiserver, without the dashes, that are
	// added to, or replace, those that envtest sets.
	APIServerArgs map[string]string
}

// ControlPlane is a running control plane. Its methods may be called from several
// goroutines.
type ControlPlane struct {
	env               *envtest.Environment
	dir               string
	binaryDir         string
	kubeconfigPath    string
	controllerManager *program.Process
	logs              []*os.File

	userMu sync.Mutex
	// restartRequests requests another API server, and receives the error of its start.
	restartRequests chan chan error
	stopOnce        sync.Once
	stop            chan struct{}
	stopped         chan error
	stopErr         error
}

// Start starts a control plane and waits until it serves. The context limits only the
// start: call Stop to end the control plane. On an error nothing is left behind.
func Start(ctx context.Context, opts Options) (*ControlPlane, error) {
	binaries, err := FindBinaryDir()
	if err != nil {
		return nil, err
	}
	if opts.Dir != "" {
		if err := os.MkdirAll(opts.Dir, 0o755); err != nil {
			return nil, fmt.Errorf("creating the directory of the control plane: %w", err)
		}
	}
	dir, err := os.MkdirTemp(opts.Dir, "grapnel-controlplane-")
	if err != nil {
		return nil, fmt.Errorf("creating the directory of the control plane: %w", err)
	}
	c := &ControlPlane{
		dir:             dir,
		binaryDir:       binaries,
		restartRequests: make(chan chan error),
		stop:            make(chan struct{}),
		stopped:         make(chan error, 1),
	}
	started := make(chan error, 1)
	go c.runOnLockedThread(ctx, opts, started)
	if err := <-started; err != nil {
		return nil, err
	}
	return c, nil
}

// runOnLockedThread starts everything, waits for Stop, and stops everything, all on one OS
// thread: a program asks to be killed when its parent ends, and for Linux the parent is the
// thread, which must therefore live as long.
func (c *ControlPlane) runOnLockedThread(ctx context.Context, opts Options, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := c.startComponents(ctx, opts)
	if err != nil {
		err = fmt.Errorf("starting the control plane: %w%s", err, readLogTails(c.dir))
		started <- errors.Join(err, c.stopComponents())
		return
	}
	started <- nil
	for {
		select {
		case done := <-c.restartRequests:
			done <- c.env.ControlPlane.APIServer.Start()
		case <-c.stop:
			c.stopped <- c.stopComponents()
			return
		}
	}
}

func (c *ControlPlane) startComponents(ctx context.Context, opts Options) error {
	if err := c.configureEnvtest(opts); err != nil {
		return err
	}
	if _, err := c.env.Start(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	c.kubeconfigPath = filepath.Join(c.dir, "kubeconfig")
	if err := os.WriteFile(c.kubeconfigPath, c.env.KubeConfig, 0o600); err != nil {
		return fmt.Errorf("writing the kubeconfig: %w", err)
	}
	if !opts.ControllerManager {
		return nil
	}
	return c.startControllerManager(ctx)
}

// Config returns a copy of the administrator's configuration, with rate limits that do not
// slow down tests.
func (c *ControlPlane) Config() *rest.Config {
	return rest.CopyConfig(c.env.Config)
}

// KubeconfigPath returns the path of a file with the administrator's credentials. It
// exists until Stop.
func (c *ControlPlane) KubeconfigPath() string {
	return c.kubeconfigPath
}

// KubectlPath returns the path of a kubectl of the API server's version.
func (c *ControlPlane) KubectlPath() string {
	return filepath.Join(c.binaryDir, "kubectl")
}

// IsAtLeast compares the version of the API server with one such as "1.31".
func (c *ControlPlane) IsAtLeast(wanted string) (bool, error) {
	client, err := discovery.NewDiscoveryClientForConfig(c.Config())
	if err != nil {
		return false, fmt.Errorf("creating a client: %w", err)
	}
	served, err := client.ServerVersion()
	if err != nil {
		return false, fmt.Errorf("requesting the version of the API server: %w", err)
	}
	parsed, err := version.ParseGeneric(served.GitVersion)
	if err != nil {
		return false, fmt.Errorf("parsing the version of the API server: %w", err)
	}
	return parsed.AtLeast(version.MustParseGeneric(wanted)), nil
}

// AddUser creates a user with a client certificate and returns its configuration. Only RBAC
// decides what the user may do.
func (c *ControlPlane) AddUser(name string, groups ...string) (*rest.Config, error) {
	user, err := c.addEnvtestUser(name, groups)
	if err != nil {
		return nil, err
	}
	return user.Config(), nil
}

func (c *ControlPlane) addEnvtestUser(name string, groups []string) (*envtest.AuthenticatedUser, error) {
	c.userMu.Lock()
	defer c.userMu.Unlock()
	base := &rest.Config{QPS: c.env.Config.QPS, Burst: c.env.Config.Burst}
	user, err := c.env.AddUser(envtest.User{Name: name, Groups: groups}, base)
	if err != nil {
		return nil, fmt.Errorf("adding user %s: %w", name, err)
	}
	return user, nil
}

// KillAPIServer kills the API server with SIGKILL. Call StartAPIServer before Stop.
func (c *ControlPlane) KillAPIServer() error {
	pid, err := readWrappedPID(c.dir, "kube-apiserver")
	if err != nil {
		return err
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return fmt.Errorf("killing the API server: %w", err)
	}
	return nil
}

// StartAPIServer restarts the killed API server with its address, certificates and data,
// and returns when it serves.
func (c *ControlPlane) StartAPIServer() error {
	done := make(chan error, 1)
	select {
	case c.restartRequests <- done:
	case <-c.stop:
		return errors.New("starting the API server: the control plane was stopped")
	}
	if err := <-done; err != nil {
		return fmt.Errorf("starting the API server: %w%s", err, readLogTails(c.dir))
	}
	return nil
}

// Stop stops all programs of the control plane, waits for them, and removes their files.
// Calling it again does nothing and returns the same error.
func (c *ControlPlane) Stop() error {
	c.stopOnce.Do(func() {
		close(c.stop)
		c.stopErr = <-c.stopped
	})
	return c.stopErr
}

// stopComponents stops the programs in reverse order, so that none fails because another is
// missing.
func (c *ControlPlane) stopComponents() error {
	var errs []error
	if c.controllerManager != nil {
		errs = append(errs, c.controllerManager.Stop(stopTimeout))
	}
	if c.env != nil {
		errs = append(errs, c.env.Stop())
	}
	for _, log := range c.logs {
		errs = append(errs, log.Close())
	}
	errs = append(errs, os.RemoveAll(c.dir))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("stopping the control plane: %w", err)
	}
	return nil
}
