// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// configureEnvtest prepares etcd and the API server; envtest starts them.
func (c *ControlPlane) configureEnvtest(opts Options) error {
	env := &envtest.Environment{
		CRDDirectoryPaths:        opts.CRDPaths,
		ErrorIfCRDPathMissing:    true,
		ControlPlaneStartTimeout: startTimeout,
		ControlPlaneStopTimeout:  stopTimeout,
	}
	notExisting := false
	env.UseExistingCluster = &notExisting // Regardless of the environment.

	certs := filepath.Join(c.dir, "certs")
	data := filepath.Join(c.dir, "etcd")
	for _, dir := range []string{certs, data} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return fmt.Errorf("creating a directory of the control plane: %w", err)
		}
	}
	apiServer := env.ControlPlane.GetAPIServer()
	env.ControlPlane.Etcd = &envtest.Etcd{DataDir: data}
	etcd := env.ControlPlane.Etcd

	var err error
	if apiServer.Path, apiServer.Err, err = c.prepareProgram("kube-apiserver"); err != nil {
		return err
	}
	if etcd.Path, etcd.Err, err = c.prepareProgram("etcd"); err != nil {
		return err
	}

	apiServer.CertDir = certs
	cidr := opts.ServiceCIDR
	if cidr == "" {
		cidr = DefaultServiceCIDR
	}
	apiServer.Configure().Set("service-cluster-ip-range", cidr)
	for name, value := range opts.APIServerArgs {
		apiServer.Configure().Set(name, value)
	}
	// The data is discarded at the end: there is no need to wait for the disk.
	etcd.Configure().Set("unsafe-no-fsync", "true")
	c.env = env
	return nil
}

// prepareProgram creates what envtest needs to run a program: its path and its log.
func (c *ControlPlane) prepareProgram(name string) (path string, log *os.File, err error) {
	if path, err = writeWrapperScript(c.dir, filepath.Join(c.binaryDir, name)); err != nil {
		return "", nil, err
	}
	if log, err = openLogFile(c.dir, name); err != nil {
		return "", nil, err
	}
	c.logs = append(c.logs, log)
	return path, log, nil
}

// startControllerManager starts kube-controller-manager with the identities of a real
// cluster: policies that name them can be tested.
func (c *ControlPlane) startControllerManager(ctx context.Context) error {
	kubeconfig, caFile, err := c.writeControllerManagerFiles()
	if err != nil {
		return err
	}
	c.controllerManager, err = startLoggedProgram(c.dir, filepath.Join(c.binaryDir, "kube-controller-manager"),
		"--kubeconfig="+kubeconfig,
		"--leader-elect=false",
		"--use-service-account-credentials=true",
		"--service-account-private-key-file="+filepath.Join(c.env.ControlPlane.APIServer.CertDir, "sa-signer.key"),
		"--root-ca-file="+caFile,
		"--secure-port=0",
		// At the default of 20 requests a second, removing the namespaces of a
		// suite takes minutes.
		"--kube-api-qps=1000",
		"--kube-api-burst=2000",
		// A quota that is created right after an object may be counted before the
		// controller has seen the object, and is counted again 5 minutes later.
		"--resource-quota-sync-period=2s",
	)
	if err != nil {
		return err
	}
	return c.waitForControllers(ctx)
}

func (c *ControlPlane) writeControllerManagerFiles() (kubeconfig, caFile string, err error) {
	user, err := c.addEnvtestUser("system:kube-controller-manager", nil)
	if err != nil {
		return "", "", err
	}
	content, err := user.KubeConfig()
	if err != nil {
		return "", "", fmt.Errorf("creating the kubeconfig of the controller manager: %w", err)
	}
	kubeconfig = filepath.Join(c.dir, "kube-controller-manager.kubeconfig")
	caFile = filepath.Join(c.dir, "ca.crt")
	err = errors.Join(
		os.WriteFile(kubeconfig, content, 0o600),
		os.WriteFile(caFile, c.env.Config.CAData, 0o600),
	)
	if err != nil {
		return "", "", fmt.Errorf("writing files of the controller manager: %w", err)
	}
	return kubeconfig, caFile, nil
}

// waitForControllers waits for objects that controllers create in every namespace, which
// shows that they have started.
func (c *ControlPlane) waitForControllers(ctx context.Context) error {
	reader, err := client.New(c.env.Config, client.Options{})
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	account := types.NamespacedName{Namespace: "default", Name: "default"}
	certificate := types.NamespacedName{Namespace: "default", Name: "kube-root-ca.crt"}
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, startTimeout, true,
		func(ctx context.Context) (bool, error) {
			select {
			case <-c.controllerManager.Done():
				return false, errors.Join(c.controllerManager.Err(), errors.New("it has ended unexpectedly"))
			default:
			}
			return reader.Get(ctx, account, &corev1.ServiceAccount{}) == nil &&
				reader.Get(ctx, certificate, &corev1.ConfigMap{}) == nil, nil
		})
	if err != nil {
		return fmt.Errorf("waiting for kube-controller-manager: %w", err)
	}
	return nil
}
