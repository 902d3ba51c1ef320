// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/grapnel-dev/grapnel/internal/testing/csi/driverdir"
)

type options struct {
	endpoint           string
	dir                string
	nodeName           string
	registrationSocket string
	snapshotDelay      time.Duration
	readyDelay         time.Duration
	maxConcurrent      int
	clockSkew          time.Duration
	without            string
}

func main() {
	var o options
	flag.StringVar(&o.endpoint, "endpoint", "", "socket to serve, as a path or unix:PATH")
	flag.StringVar(&o.dir, "dir", "", "directory for volumes, snapshots, faults and the log of calls")
	flag.StringVar(&o.nodeName, "node-name", "node", "name of the node that volumes are published on")
	flag.StringVar(&o.registrationSocket, "registration-socket", "", "socket at which the kubelet finds the driver; empty for none")
	flag.DurationVar(&o.snapshotDelay, "snapshot-delay", 0, "how much longer it takes to create a snapshot")
	flag.DurationVar(&o.readyDelay, "ready-delay", 0, "how long after its creation a snapshot becomes ready to use")
	flag.IntVar(&o.maxConcurrent, "max-concurrent", 0, "how many calls that create or delete may be at work at once; 0 for no limit")
	flag.DurationVar(&o.clockSkew, "clock-skew", 0, "how far the clock of the storage is ahead")
	flag.StringVar(&o.without, "without", "", "capabilities that the driver does not have, separated by commas: snapshots, list-snapshots, group-snapshots")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := serve(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "csidriver:", err)
		os.Exit(1)
	}
}

// serve serves until ctx ends. Calls that are at work then are canceled.
func serve(ctx context.Context, o options) error {
	d, err := newDriver(o)
	if err != nil {
		return err
	}
	defer func() { _ = d.calls.Close() }()
	socket := strings.TrimPrefix(strings.TrimPrefix(o.endpoint, "unix:"), "//")
	servers := map[string]*grpc.Server{socket: d.newServer()}
	if o.registrationSocket != "" {
		server := grpc.NewServer()
		registration.RegisterRegistrationServer(server, &registrar{socket: socket})
		servers[o.registrationSocket] = server
	}
	served := make(chan error, len(servers))
	started := 0
	for _, path := range []string{socket, o.registrationSocket} { // The kubelet calls back at once.
		if servers[path] == nil {
			continue
		}
		listener, listenErr := listenUnix(ctx, path)
		if err = listenErr; err != nil {
			break
		}
		started++
		go func() { served <- servers[path].Serve(listener) }()
	}
	if err == nil {
		select {
		case err = <-served:
			started--
		case <-ctx.Done():
		}
	}
	for _, server := range servers {
		server.Stop()
	}
	for range started {
		err = errors.Join(err, <-served)
	}
	return err
}

// listenUnix listens on a socket that an earlier process may have left.
func listenUnix(ctx context.Context, path string) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("removing an old socket: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	return listener, nil
}

// newServer returns a server of all services of the driver.
func (d *driver) newServer() *grpc.Server {
	server := grpc.NewServer(grpc.UnaryInterceptor(d.intercept))
	csi.RegisterIdentityServer(server, d)
	csi.RegisterControllerServer(server, d)
	csi.RegisterGroupControllerServer(server, d)
	csi.RegisterNodeServer(server, d)
	return server
}

// driver implements all services.
type driver struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedControllerServer
	csi.UnimplementedGroupControllerServer
	csi.UnimplementedNodeServer

	options options
	dir     driverdir.Dir
	locks   locks
	slots   chan struct{} // nil without a limit
	calls   *callLog
}

// newDriver opens the directory, and removes what an earlier process has left incomplete.
func newDriver(o options) (*driver, error) {
	if o.dir == "" || o.endpoint == "" {
		return nil, errors.New("--dir and --endpoint are required")
	}
	dir := driverdir.Dir(o.dir)
	if err := dir.Create(); err != nil {
		return nil, err
	}
	if err := removeIncomplete(dir); err != nil {
		return nil, err
	}
	calls, err := openCallLog(dir)
	if err != nil {
		return nil, err
	}
	d := &driver{options: o, dir: dir, locks: locks{users: map[string]int{}}, calls: calls}
	if o.maxConcurrent > 0 {
		d.slots = make(chan struct{}, o.maxConcurrent)
	}
	return d, nil
}
