// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"path/filepath"
	"strconv"

	"github.com/grapnel-dev/grapnel/internal/testing/csi"
)

// The names of the processes, which are those of their logs, too.
const (
	containerd        = "containerd"
	etcd              = "etcd"
	apiServer         = "kube-apiserver"
	controllerManager = "kube-controller-manager"
	scheduler         = "kube-scheduler"
	kubelet           = "kubelet"
	proxy             = "kube-proxy"
	networkPolicies   = "network-policies"
	csiDriver         = string(csi.Driver)
)

// csiIdentity is the user of the sidecars of the CSI driver.
const csiIdentity = "csi"

// sidecars are the names of the sidecars of the CSI driver.
func sidecars() []string {
	return []string{string(csi.SnapshotController), string(csi.Snapshotter), string(csi.Provisioner)}
}

// component is a process of the cluster.
type component struct {
	name string
	// program is a path, or a name where the system has it.
	program string
	args    []string
}

// ground is what everything else stands on. The API server waits for etcd itself.
func (l layout) ground() []component {
	return []component{
		l.containerd(),
		{etcd, filepath.Join(l.controlPlane(), etcd), l.etcdArgs()},
		{apiServer, filepath.Join(l.controlPlane(), apiServer), l.apiServerArgs()},
	}
}

// clients are those that need the API server, and in the case of the kubelet containerd.
// own is the path of this program, which is one of them.
func (l layout) clients(own string) []component {
	return []component{
		{controllerManager, filepath.Join(l.controlPlane(), controllerManager), l.controllerManagerArgs()},
		{scheduler, filepath.Join(l.node(), scheduler), []string{
			"--kubeconfig=" + l.kubeconfigOf(scheduler), "--leader-elect=false", "--bind-address=" + bridgeAddress,
		}},
		{kubelet, filepath.Join(l.node(), kubelet), []string{
			"--config=" + filepath.Join(l.State, "kubelet.yaml"), "--kubeconfig=" + l.kubeconfigOf(kubelet),
			"--root-dir=" + filepath.Join(l.State, "kubelet"), "--hostname-override=" + nodeName, "--node-ip=" + bridgeAddress,
		}},
		{proxy, filepath.Join(l.node(), proxy), []string{"--config=" + filepath.Join(l.State, "kube-proxy.yaml")}},
		{networkPolicies, own, []string{EnforceCommand, l.kubeconfigOf(networkPolicies)}},
	}
}

// storage is the CSI driver and its sidecars. These need the CRDs of snapshots.
func (l layout) storage() []component {
	socket := filepath.Join(l.csi(), "csi.sock")
	all := []component{{csiDriver, l.csiDriver(), []string{
		"--endpoint=" + socket, "--dir=" + filepath.Join(l.csi(), "data"), "--node-name=" + nodeName,
		"--registration-socket=" + filepath.Join(l.pluginRegistry(), csiDriver+".sock"),
	}}}
	for _, name := range sidecars() {
		args := []string{
			"--kubeconfig=" + l.kubeconfigOf(csiIdentity), "--kube-api-qps=1000", "--kube-api-burst=2000",
			"--retry-interval-start=100ms", "--retry-interval-max=2s",
		}
		if name != string(csi.SnapshotController) {
			args = append(args, "--csi-address="+socket, "--timeout=1m")
		}
		all = append(all, component{name, filepath.Join(l.csiPrograms(), name), args})
	}
	return all
}

func (l layout) containerd() component {
	return component{containerd, containerd, []string{"--config=" + filepath.Join(l.State, "containerd.toml")}}
}

func (l layout) kubeconfigOf(name string) string {
	return filepath.Join(l.State, name+".kubeconfig")
}

func (l layout) pkiFile(name string) string {
	return filepath.Join(l.pki(), name)
}

func (l layout) etcdArgs() []string {
	const peers = "https://" + bridgeAddress + ":2380"
	args := []string{
		"--name=e2e", "--data-dir=" + filepath.Join(l.State, etcd),
		"--listen-client-urls=" + etcdURL(), "--advertise-client-urls=" + etcdURL(),
		"--listen-peer-urls=" + peers, "--initial-advertise-peer-urls=" + peers, "--initial-cluster=e2e=" + peers,
		// What is lost with the machine was to be thrown away.
		"--unsafe-no-fsync=true", "--log-level=warn",
	}
	for _, prefix := range []string{"--", "--peer-"} {
		args = append(args,
			prefix+"cert-file="+l.pkiFile("etcd.crt"), prefix+"key-file="+l.pkiFile("etcd.key"),
			prefix+"trusted-ca-file="+l.pkiFile("ca.crt"), prefix+"client-cert-auth=true")
	}
	return args
}

func (l layout) apiServerArgs() []string {
	return []string{
		"--bind-address=" + bridgeAddress, "--advertise-address=" + bridgeAddress, "--secure-port=" + strconv.Itoa(apiPort),
		"--etcd-servers=" + etcdURL(), "--etcd-cafile=" + l.pkiFile("ca.crt"),
		"--etcd-certfile=" + l.pkiFile("kube-apiserver.crt"), "--etcd-keyfile=" + l.pkiFile("kube-apiserver.key"),
		"--tls-cert-file=" + l.pkiFile("kube-apiserver.crt"), "--tls-private-key-file=" + l.pkiFile("kube-apiserver.key"),
		"--client-ca-file=" + l.pkiFile("ca.crt"),
		"--service-cluster-ip-range=" + serviceNetwork,
		"--service-account-issuer=https://kubernetes.default.svc." + domain,
		"--service-account-key-file=" + l.pkiFile("service-account.key"),
		"--service-account-signing-key-file=" + l.pkiFile("service-account.key"),
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--allow-privileged=true",
		// The node's name is nowhere but here.
		"--kubelet-preferred-address-types=InternalIP",
		"--kubelet-certificate-authority=" + l.pkiFile("ca.crt"),
		"--kubelet-client-certificate=" + l.pkiFile("kubelet-client.crt"), "--kubelet-client-key=" + l.pkiFile("kubelet-client.key"),
	}
}

func (l layout) controllerManagerArgs() []string {
	return []string{
		"--kubeconfig=" + l.kubeconfigOf(controllerManager), "--leader-elect=false", "--bind-address=" + bridgeAddress,
		// Pods wait for a ConfigMap with this one.
		"--root-ca-file=" + l.pkiFile("ca.crt"),
		"--service-account-private-key-file=" + l.pkiFile("service-account.key"), "--use-service-account-credentials=true",
		"--cluster-signing-cert-file=" + l.pkiFile("ca.crt"), "--cluster-signing-key-file=" + l.pkiFile("ca.key"),
	}
}
