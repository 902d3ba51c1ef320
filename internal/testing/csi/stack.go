// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package csi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/internal/testing/controlplane"
	"github.com/grapnel-dev/grapnel/internal/testing/csi/driverdir"
	"github.com/grapnel-dev/grapnel/internal/testing/program"
)

// Program is the name of a program of the stack.
type Program string

// The programs of the stack, in the order in which they are started.
const (
	Driver             Program = "csidriver"
	SnapshotController Program = "snapshot-controller"
	Snapshotter        Program = "csi-snapshotter"
	Provisioner        Program = "csi-provisioner"
)

// SnapshotterReplica is a second csi-snapshotter, which only StartReplicas starts.
const SnapshotterReplica Program = "csi-snapshotter-replica"

// startTimeout is generous, for a machine that builds and tests at the same time.
const startTimeout = time.Minute

// Options configure Start. The zero value means a driver that is as fast as the disk.
type Options struct {
	// SnapshotDelay is how much longer the driver takes to create a snapshot. A call takes at
	// most a minute; then csi-snapshotter tries again.
	SnapshotDelay time.Duration
	// ReadyDelay is the time after which a snapshot becomes ready to use.
	ReadyDelay time.Duration
	// MaxConcurrent is how many calls that create or delete may be at work at once; 0 means no limit.
	MaxConcurrent int
	// ClockSkew is how far the clock of the storage is ahead.
	ClockSkew time.Duration
	// Without lists the capabilities that the driver does not have.
	Without []Capability
	// Dir is the directory of the driver of another stack, whose storage this one shares from Start to Stop, as two
	// clusters may. StartDriver ignores it.
	Dir driverdir.Dir
}

// Capability is something that not all drivers can do.
type Capability string

// The capabilities.
const (
	Snapshots      Capability = "snapshots"
	ListSnapshots  Capability = "list-snapshots"
	GroupSnapshots Capability = "group-snapshots"
)

// Stack is a running driver with its sidecars. Its methods may be called from several
// goroutines.
type Stack struct {
	dir        string
	driverDir  driverdir.Dir
	kubeconfig string
	paths      map[Program]string
	programs   map[Program]*supervisor
}

// Start starts the driver and the sidecars for a control plane with the CRDs of FindCRDs and with the
// controller manager, creates the classes, and returns when the driver serves. The context limits
// only the start: call Stop to end the programs.
func Start(ctx context.Context, plane *controlplane.ControlPlane, opts Options) (*Stack, error) {
	paths, err := findPrograms(ctx)
	if err != nil {
		return nil, err
	}
	admin, err := client.New(plane.Config(), client.Options{})
	if err == nil {
		err = createClasses(ctx, admin)
	}
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "grapnel-csi-")
	if err != nil {
		return nil, fmt.Errorf("creating the directory of the driver: %w", err)
	}
	s := &Stack{dir: dir, driverDir: opts.Dir, kubeconfig: plane.KubeconfigPath(), paths: paths, programs: map[Program]*supervisor{}}
	if s.driverDir == "" {
		s.driverDir = driverdir.Dir(filepath.Join(dir, "data"))
	}
	for name := range paths {
		s.programs[name] = &supervisor{log: filepath.Join(dir, string(name)+".log")}
	}
	err = s.StartDriver(ctx, opts)
	for _, name := range []Program{SnapshotController, Snapshotter, Provisioner} {
		if err == nil {
			err = s.StartSidecar(name)
		}
	}
	if err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// findPrograms returns the paths of the programs, and builds the driver.
func findPrograms(ctx context.Context) (map[Program]string, error) {
	root, err := program.ModuleRoot()
	if err != nil {
		return nil, err
	}
	paths := map[Program]string{Driver: filepath.Join(root, "bin", "test", "programs", string(Driver))}
	if err := program.Build(ctx, filepath.Join(root, "test", "csidriver"), paths[Driver]); err != nil {
		return nil, err
	}
	for _, name := range []Program{SnapshotController, Snapshotter, Provisioner} {
		paths[name] = filepath.Join(root, "bin", "csi", string(name))
		if _, err := os.Stat(paths[name]); err != nil {
			return nil, fmt.Errorf("the sidecars are not built: run `make csi-programs` (%w)", err)
		}
	}
	paths[SnapshotterReplica] = paths[Snapshotter]
	return paths, nil
}

// Dir returns the directory of the driver, with its volumes and snapshots. It exists until Stop.
func (s *Stack) Dir() driverdir.Dir {
	return s.driverDir
}

// LogPath returns the path of the log of a program. It exists until Stop.
func (s *Stack) LogPath(name Program) string {
	return s.programs[name].log
}

func (s *Stack) socket() string {
	return filepath.Join(s.dir, "csi.sock")
}

// StartDriver starts the driver after StopProgram, with other options if that is wanted, and returns when it
// serves. All volumes, snapshots and faults are still there.
func (s *Stack) StartDriver(ctx context.Context, opts Options) error {
	err := s.programs[Driver].start(s.paths[Driver],
		"--endpoint="+s.socket(), "--dir="+string(s.Dir()),
		"--snapshot-delay="+opts.SnapshotDelay.String(), "--ready-delay="+opts.ReadyDelay.String(),
		"--max-concurrent="+strconv.Itoa(opts.MaxConcurrent), "--clock-skew="+opts.ClockSkew.String(),
		"--without="+joinCapabilities(opts.Without))
	if err != nil {
		return err
	}
	err = wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, startTimeout, true, func(ctx context.Context) (bool, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", s.socket())
		if err != nil {
			return false, nil //nolint:nilerr // It does not serve yet.
		}
		return true, conn.Close()
	})
	if err != nil {
		return fmt.Errorf("waiting for the driver: %w%s", err, readTail(s.LogPath(Driver)))
	}
	return nil
}

func joinCapabilities(all []Capability) string {
	var names []string
	for _, capability := range all {
		names = append(names, string(capability))
	}
	return strings.Join(names, ",")
}

// StartSidecar starts a sidecar after StopProgram.
func (s *Stack) StartSidecar(name Program) error {
	return s.programs[name].start(s.paths[name], s.sidecarArgs(name)...)
}

func (s *Stack) sidecarArgs(name Program) []string {
	args := []string{
		"--kubeconfig=" + s.kubeconfig,
		// Neither the limits of requests nor the delays before another attempt are what is tested.
		"--kube-api-qps=1000", "--kube-api-burst=2000", "--retry-interval-start=100ms", "--retry-interval-max=2s",
	}
	if name != SnapshotController {
		args = append(args, "--csi-address="+s.socket(), "--timeout=1m")
	}
	if name != Provisioner {
		args = append(args, "--worker-threads=50")
	}
	return args
}

// StartReplicas starts Snapshotter and SnapshotterReplica after StopProgram, of which the holder of the Lease leads: it
// is ReplicaLease in the namespace default, and its holder the name of the Program.
func (s *Stack) StartReplicas() error {
	for _, name := range []Program{Snapshotter, SnapshotterReplica} {
		// The holder is the name of the host, which a pod has of its own.
		args := append([]string{
			"--uts", "--map-root-user", "sh", "-c", `hostname "$0" && exec "$@"`, string(name), s.paths[name],
			"--leader-election", "--leader-election-namespace=default", "--leader-election-lease-duration=3s",
			"--leader-election-renew-deadline=2s", "--leader-election-retry-period=500ms",
		}, s.sidecarArgs(name)...)
		if err := s.programs[name].start("unshare", args...); err != nil {
			return err
		}
	}
	return nil
}

// ReplicaLease is the name of the Lease of the replicas of csi-snapshotter.
const ReplicaLease = "external-snapshotter-leader-directory-csi-grapnel-dev"

// KillProgram kills a program, which is then started again. When the driver is killed, the sidecars end,
// and are started again, too.
func (s *Stack) KillProgram(name Program) error {
	return s.programs[name].kill()
}

// StopProgram stops a program until it is started with StartDriver or StartSidecar.
func (s *Stack) StopProgram(name Program) error {
	return s.programs[name].stop()
}

// Stop stops all programs and removes their files. Calling it again does nothing.
func (s *Stack) Stop() error {
	var errs []error
	for _, name := range []Program{Provisioner, SnapshotterReplica, Snapshotter, SnapshotController, Driver} {
		errs = append(errs, s.StopProgram(name))
	}
	errs = append(errs, os.RemoveAll(s.dir))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("stopping the CSI driver: %w", err)
	}
	return nil
}
