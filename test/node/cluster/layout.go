// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/grapnel-dev/grapnel/test/node/host"
	"github.com/grapnel-dev/grapnel/test/node/images"
)

// There is one cluster on a machine, always at the same place: addresses, names of
// tables of nftables and this directory cannot be had twice.
const (
	// stateDir is short because paths of sockets must be.
	stateDir = "/var/lib/grapnel-e2e"

	nodeName = "e2e"
	domain   = "cluster.local"
	// bridge is the device that is all of the network. Its address is the node's, the
	// pods' gateway, and where every server of the cluster listens.
	bridge = "grapnel-e2e"
	// serviceBridge is where the route to the addresses of Services leads. Nothing is
	// there: kube-proxy replaces these addresses before, or refuses. Over the pods' own
	// bridge the kernel would tell pods of a better way instead, and not that they are
	// refused.
	serviceBridge  = "grapnel-e2e-svc"
	bridgeAddress  = "10.98.0.1"
	podNetwork     = "10.98.0.0/24"
	serviceNetwork = "10.99.0.0/16"
	apiService     = "10.99.0.1"
	dnsService     = "10.99.0.10"
	apiPort        = 6443

	coreDNSImage = "docker.io/local/coredns:1"
	// volumes is how many PersistentVolumes wait for claims.
	volumes = 10
)

// layout says where everything is.
type layout struct {
	// Root is the repository's directory.
	Root string
	// State is what the cluster has while it is up.
	State string
}

// Kubeconfig returns where the kubeconfig of an administrator is while a cluster is up
// that was brought up from the repository at root.
func Kubeconfig(root string) string {
	return newLayout(root).kubeconfig()
}

func newLayout(root string) layout {
	return layout{Root: root, State: stateDir}
}

// marker is in the environment of all of its processes.
func (l layout) marker() string { return "GRAPNEL_E2E_CLUSTER=" + l.State }

func (l layout) output() string       { return filepath.Join(l.Root, "bin", "e2e") }
func (l layout) logs() string         { return filepath.Join(l.output(), "log") }
func (l layout) kubeconfig() string   { return filepath.Join(l.output(), "kubeconfig") }
func (l layout) controlPlane() string { return filepath.Join(l.Root, "bin", "controlplane") }
func (l layout) kubectl() string      { return filepath.Join(l.controlPlane(), "kubectl") }
func (l layout) node() string         { return filepath.Join(l.Root, "bin", "node") }
func (l layout) pki() string          { return filepath.Join(l.State, "pki") }
func (l layout) socket() string       { return filepath.Join(l.State, "containerd.sock") }
func (l layout) volumes() string      { return filepath.Join(l.State, "volumes") }
func (l layout) csi() string          { return filepath.Join(l.State, "csi") }
func (l layout) csiPrograms() string  { return filepath.Join(l.Root, "bin", "csi") }
func (l layout) csiDriver() string    { return filepath.Join(l.output(), csiDriver) }

// pluginRegistry is where the kubelet looks for the sockets of drivers.
func (l layout) pluginRegistry() string {
	return filepath.Join(l.State, "kubelet", "plugins_registry")
}

// directories returns the directories that are created before anything starts.
func (l layout) directories() []string {
	return []string{l.pki(), filepath.Join(l.State, "cni", "conf"), l.volumes(), l.csi(), l.pluginRegistry()}
}

func serverURL() string {
	return "https://" + bridgeAddress + ":" + strconv.Itoa(apiPort)
}

func etcdURL() string {
	return "https://" + bridgeAddress + ":2379"
}

// bridgePrefix is the address of the bridge with its network.
func bridgePrefix() netip.Prefix {
	return netip.PrefixFrom(netip.MustParseAddr(bridgeAddress), netip.MustParsePrefix(podNetwork).Bits())
}

// values are what the files in files/ are rendered with.
type values struct {
	State, Socket, VolumeDir string
	Node, Domain, Address    string
	PodNetwork, DNS          string
	CNIPrograms, Snapshotter string
	PauseImage, CoreDNSImage string
	Volumes                  []string
}

func (l layout) values(cni, snapshotter string) values {
	v := values{
		State: l.State, Socket: l.socket(), VolumeDir: l.volumes(),
		Node: nodeName, Domain: domain, Address: bridgeAddress,
		PodNetwork: podNetwork, DNS: dnsService,
		CNIPrograms: cni, Snapshotter: snapshotter,
		PauseImage: images.PauseName, CoreDNSImage: coreDNSImage,
	}
	for i := range volumes {
		v.Volumes = append(v.Volumes, "e2e-"+strconv.Itoa(i))
	}
	return v
}

// findCNI returns the directory with the network plugins, which is another one in each
// distribution.
func findCNI() (string, error) {
	dirs := []string{"/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"}
	for _, dir := range dirs {
		if len(host.Absent([]string{filepath.Join(dir, "bridge"), filepath.Join(dir, "host-local")})) == 0 {
			return dir, nil
		}
	}
	return "", fmt.Errorf("there are no network plugins in any of %q: run test/node/packages.sh as root", dirs)
}

// snapshotter says how images are unpacked: overlayfs does not lie on overlayfs, which
// the disk of a container is.
func snapshotter(dir string) (string, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return "", fmt.Errorf("looking at the file system of %s: %w", dir, err)
	}
	if fs.Type == unix.OVERLAYFS_SUPER_MAGIC {
		return "native", nil
	}
	return "overlayfs", nil
}

// checkPrograms fails if something is not built or installed.
func (l layout) checkPrograms() error {
	for _, name := range []string{"ip", "nft", "containerd", "ctr", "runc", "containerd-shim-runc-v2"} {
		if _, err := host.Find(name); err != nil {
			return err
		}
	}
	for dir, names := range map[string][]string{
		l.controlPlane(): {"etcd", "kube-apiserver", "kube-controller-manager", "kubectl"},
		l.node():         {"kubelet", "kube-proxy", "kube-scheduler", "coredns"},
		l.csiPrograms():  sidecars(),
	} {
		for _, name := range names {
			if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
				return fmt.Errorf("the programs of the cluster are not built: run `make e2e-programs` (%w)", err)
			}
		}
	}
	return nil
}
