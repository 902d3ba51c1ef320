// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel/test/node/host"
	"github.com/grapnel-dev/grapnel/test/node/netpol"
	"github.com/grapnel-dev/grapnel/test/node/proc"
)

// downLimit is how long the way down may take; it takes seconds as a rule.
const downLimit = 2 * time.Minute

// Down takes down the cluster of this machine, wherever it was brought up from and
// however much of it still runs, and puts everything back to what it was before. It is
// no error if there is none. Where something cannot be taken away it continues, says so in
// the error, and keeps the record, so that it can be tried again.
func Down(ctx context.Context, root string, out io.Writer) error {
	unlock, err := lock(lockName)
	if err != nil {
		return err
	}
	defer unlock()
	if os.Geteuid() != 0 {
		return errors.New("only root can take the cluster down")
	}
	return newLayout(root).down(ctx, out)
}

func (l layout) down(ctx context.Context, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, downLimit)
	defer cancel()
	began := time.Now()
	r, there, err := up(l.State)
	if err != nil {
		return fmt.Errorf("%w: if no cluster is up, remove %s", err, l.State)
	}
	if !there {
		_, err := fmt.Fprintln(out, "No cluster is up.")
		return err
	}
	l.Root = r.Root // Its programs, kubeconfig and logs are there.
	boot, err := proc.Boot()
	if err != nil {
		return err
	}
	if boot == r.Boot {
		err = errors.Join(l.endProcesses(ctx, r), l.putBack(ctx, r))
	}
	if err == nil {
		err = l.removeFiles(r)
	}
	if err != nil {
		return fmt.Errorf("taking the cluster down: %w", err)
	}
	_, err = fmt.Fprintf(out, "The cluster is down after %.1f s.\n", time.Since(began).Seconds())
	return err
}

// endProcesses ends pods while the kubelet can do it properly, and then
// everything that is left.
func (l layout) endProcesses(ctx context.Context, r *record) error {
	// These would make pods again.
	errs := []error{r.stop(ctx, append(sidecars(), controllerManager, scheduler)...)}
	if r.alive(apiServer) && r.alive(kubelet) && r.alive(containerd) {
		// What this leaves is ended below.
		_, _ = host.Run(ctx, l.kubectl(), "--kubeconfig="+l.kubeconfig(), "delete", "pods", "--all", "--all-namespaces",
			"--grace-period=1", "--timeout=15s")
	}
	errs = append(errs, r.stop(ctx, kubelet, proxy, networkPolicies), r.stop(ctx, csiDriver),
		l.endContainers(ctx, r), r.stop(ctx, containerd, apiServer, etcd))
	left, err := proc.Marked(l.marker())
	errs = append(errs, err)
	for _, id := range left {
		errs = append(errs, id.Stop(ctx, time.Second))
	}
	return errors.Join(errs...)
}

// stop stops processes at the same time.
func (r *record) stop(ctx context.Context, names ...string) error {
	const grace = 3 * time.Second
	done := make(chan error)
	for _, name := range names {
		go func() {
			if err := r.Processes[name].Stop(ctx, grace); err != nil {
				done <- fmt.Errorf("stopping %s: %w", name, err)
				return
			}
			done <- nil
		}()
	}
	var errs []error
	for range names {
		errs = append(errs, <-done)
	}
	return errors.Join(errs...)
}

func (r *record) alive(name string) bool {
	id, known := r.Processes[name]
	return known && id.Alive()
}

// putBack puts the machine's own settings, mounts and devices back.
func (l layout) putBack(ctx context.Context, r *record) error {
	errs := []error{
		host.UnmountBelow(l.State),
		host.RemoveTables(ctx, "ip kube-proxy", "ip6 kube-proxy", "ip "+netpol.Table),
		host.RemoveBridge(ctx, bridge),
		host.RemoveBridge(ctx, serviceBridge),
		r.Settings.Apply(host.Sys),
	}
	for _, path := range r.Absent {
		if strings.HasPrefix(path, "/sys/") {
			errs = append(errs, host.RemoveCgroup(path))
			continue
		}
		errs = append(errs, host.UnmountBelow(path))
	}
	return errors.Join(errs...)
}

// removeFiles comes last, and only when nothing is mounted any more: it must not remove
// what is not the cluster's. The logs stay until the next time.
func (l layout) removeFiles(r *record) error {
	for _, path := range r.Absent {
		if !strings.HasPrefix(path, "/sys/") {
			if err := os.RemoveAll(path); err != nil {
				return err
			}
		}
	}
	// The record is removed with the last of it.
	for _, path := range []string{l.kubeconfig(), l.State} {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	return nil
}
