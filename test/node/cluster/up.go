// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/grapnel-dev/grapnel/internal/testing/csi"
	"github.com/grapnel-dev/grapnel/internal/testing/program"
	"github.com/grapnel-dev/grapnel/test/node/host"
)

// upLimit is how long the way up may take on a busy machine; it takes seconds on others.
const upLimit = 10 * time.Minute

// Up brings up a cluster with what is built below root, the repository, and says on out
// how to use it. It fails if one is running already, and takes down what is left of one that
// was killed. If it fails otherwise, or ctx ends, it takes down what it has brought up, and
// the error has the end of the log of what failed.
func Up(ctx context.Context, root string, out io.Writer) error {
	unlock, err := lock(lockName)
	if err != nil {
		return err
	}
	defer unlock()
	if os.Geteuid() != 0 {
		return errors.New("a node needs root: run this as root")
	}
	l := newLayout(root)
	if err := l.removeRemains(ctx, out); err != nil {
		return err
	}
	if err := l.checkUp(); err != nil {
		return err
	}
	began := time.Now()
	limited, cancel := context.WithTimeout(ctx, upLimit)
	defer cancel()
	node := ""
	if err = l.up(limited); err == nil {
		node, err = host.Run(limited, l.kubectl(), "--kubeconfig="+l.kubeconfig(), "get", "nodes", "--no-headers")
	}
	if err != nil {
		err = fmt.Errorf("bringing the cluster up: %w", err)
		return errors.Join(err, l.down(context.WithoutCancel(ctx), io.Discard))
	}
	_, err = fmt.Fprintf(out, "The cluster is up after %.1f s. Its node:\n  %s"+
		"Use it with:\n  export KUBECONFIG=%s PATH=%s:$PATH\n"+
		"PersistentVolumes e2e-0 to e2e-%d wait for claims; their directories are in %s.\n"+
		"Claims of the StorageClass %s get a volume each, and can be snapshotted.\n"+
		"Images: bin/e2e/e2e load IMAGE.tar. Logs: %s.\n"+
		"Take it down with: make e2e-down\n",
		time.Since(began).Seconds(), node, l.kubeconfig(), l.controlPlane(), volumes-1, l.volumes(), csi.WaitClassName, l.logs())
	return err
}

// removeRemains takes down what is left of a cluster that was killed or whose machine was rebooted. It fails if one is running.
func (l layout) removeRemains(ctx context.Context, out io.Writer) error {
	r, there, err := up(l.State)
	if err != nil || !there {
		return err
	}
	for name := range r.Processes {
		if r.alive(name) {
			return fmt.Errorf("a cluster is up already, since %s, from %s: take it down first, with `make e2e-down`",
				r.Began.Format(time.DateTime), r.Root)
		}
	}
	return l.down(ctx, out)
}

// checkUp fails, before anything is changed, where a cluster cannot be brought up.
func (l layout) checkUp() error {
	if err := l.checkPrograms(); err != nil {
		return err
	}
	return host.CheckFree(netip.MustParsePrefix(podNetwork), netip.MustParsePrefix(serviceNetwork))
}

func (l layout) up(ctx context.Context) error {
	p, err := l.prepare(ctx)
	if err != nil {
		return err
	}
	for _, c := range l.ground() {
		if err := p.start(c); err != nil {
			return err
		}
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.importImages(groupCtx) })
	group.Go(func() error { return p.awaitAPIServer(groupCtx) })
	if err := group.Wait(); err != nil {
		return err
	}
	own, err := os.Executable()
	if err != nil {
		return fmt.Errorf("looking for this program: %w", err)
	}
	for _, c := range l.clients(own) {
		if err := p.start(c); err != nil {
			return err
		}
	}
	group, groupCtx = errgroup.WithContext(ctx)
	group.Go(func() error { return p.applyManifests(groupCtx) })
	group.Go(func() error { return p.startStorage(groupCtx) })
	group.Go(func() error { return p.awaitNode(groupCtx) })
	if err := group.Wait(); err != nil {
		return err
	}
	return p.awaitNames(ctx)
}

// prepare makes everything that no process makes.
func (l layout) prepare(ctx context.Context) (*processes, error) {
	if _, err := os.Stat(filepath.Join(host.Sys, bridgeSetting)); err != nil {
		// Most distributions have it as a module. Where it is missing, setting it fails.
		_ = exec.CommandContext(ctx, "/sbin/modprobe", "br_netfilter").Run()
	}
	r, err := newRecord(l.Root)
	if err != nil {
		return nil, err
	}
	// The record comes first: whatever happens from here on is put right by down.
	if err := errors.Join(os.MkdirAll(l.State, 0o755), r.write(l.State)); err != nil {
		return nil, err
	}
	if err := os.RemoveAll(l.logs()); err != nil {
		return nil, err
	}
	for _, dir := range append(l.directories(), l.logs()) {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, fmt.Errorf("creating directories: %w", err)
		}
	}
	if err := l.configure(); err != nil {
		return nil, err
	}
	if err := program.Build(ctx, filepath.Join(l.Root, "test", "csidriver"), l.csiDriver()); err != nil {
		return nil, err
	}
	if err := required().Apply(host.Sys); err != nil {
		return nil, err
	}
	p := &processes{layout: l, record: r, ended: map[string]error{}}
	return p, addNetwork(ctx)
}

func addNetwork(ctx context.Context) error {
	if err := host.AddBridge(ctx, bridge, bridgePrefix()); err != nil {
		return err
	}
	if err := host.AddBridge(ctx, serviceBridge, netip.Prefix{}); err != nil {
		return err
	}
	return host.AddRoute(ctx, netip.MustParsePrefix(serviceNetwork), serviceBridge, netip.MustParseAddr(bridgeAddress))
}

func (l layout) configure() error {
	cni, err := findCNI()
	if err != nil {
		return err
	}
	snapshots, err := snapshotter(l.State)
	if err != nil {
		return err
	}
	return errors.Join(l.writeConfigs(l.values(cni, snapshots)), l.writeIdentities())
}
