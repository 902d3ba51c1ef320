// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel/internal/testing/program"
)

const (
	// stopTimeout is longer than the shutdown timeout of the operator.
	stopTimeout = time.Minute
	// startTimeout is long enough for a machine that builds and tests at the same time.
	startTimeout = 90 * time.Second
	// bindAttempts is the number of attempts with different ports.
	bindAttempts = 5
)

// Options configure Start. Programs.Operator, Kubeconfig and Dir are required.
type Options struct {
	// Programs come from BuildPrograms.
	Programs Programs
	// Kubeconfig is a file with the operator's credentials.
	Kubeconfig string
	// Dir contains plugins/, store/ and scratch/, which are created if they are missing,
	// and operator.log, which is appended to. Only one operator may use it at a time.
	Dir string
	// Args are further flags.
	Args []string
	// Env are additional variables, as "name=value". The others are inherited from the
	// caller.
	Env []string
	// Log receives the output of the operator in addition to operator.log; it may be nil.
	// It is not written to after Done is closed.
	Log io.Writer
}

// Operator is a started operator. It is safe for concurrent use.
type Operator struct {
	process    *program.Process
	dataDir    dataDir
	metricsURL string
	// logStart is the offset of its own lines in the log.
	logStart int64
}

var errAddressTaken = errors.New("a port was taken before the operator could listen on it")

// Start starts the operator and returns when it is ready. The context limits only the
// start: call Stop or Kill to end the operator. On an error nothing keeps running, and the
// error contains the last lines of the log.
func Start(ctx context.Context, opts Options) (*Operator, error) {
	f := dataDir(opts.Dir)
	if err := f.createWithPlugins(opts.Programs); err != nil {
		return nil, err
	}
	for attempt := 1; ; attempt++ {
		o, err := startOnFreePorts(ctx, opts, f)
		// A listening socket cannot be passed to the operator, so the free ports that were
		// found may have been taken since.
		if !errors.Is(err, errAddressTaken) || attempt == bindAttempts {
			return o, err
		}
	}
}

func startOnFreePorts(ctx context.Context, opts Options, f dataDir) (*Operator, error) {
	ports, err := findFreeAddresses(3)
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(f.logPath(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the operator's log: %w", err)
	}
	offset, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("reading the operator's log: %w", err), log.Close())
	}
	p, err := program.Start(newOperatorCommand(opts, f, ports, log))
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	go func() {
		<-p.Done()
		_ = log.Close() // Only the operator wrote to it.
	}()
	o := &Operator{process: p, dataDir: f, metricsURL: "http://" + ports[1] + "/metrics", logStart: offset}
	if err := o.waitUntilReady(ctx, "http://"+ports[0]+"/readyz"); err != nil {
		lines := o.LastLogLines()
		if strings.Contains(lines, "address already in use") {
			err = fmt.Errorf("%w: %w", errAddressTaken, err)
		}
		return nil, fmt.Errorf("starting the operator: %w\n--- end of its log\n%s", err, lines)
	}
	return o, nil
}

// newOperatorCommand returns the command of an operator with the addresses for its health, metrics and downloads.
func newOperatorCommand(opts Options, f dataDir, addresses []string, log *os.File) *exec.Cmd {
	cmd := exec.Command(opts.Programs.Operator, append([]string{
		"--kubeconfig=" + opts.Kubeconfig,
		"--plugin-dir=" + f.pluginDir(),
		"--store-root=" + f.storeRoot(),
		"--scratch-dir=" + f.scratchDir(),
		"--health-probe-bind-address=" + addresses[0],
		"--metrics-bind-address=" + addresses[1],
		"--download-bind-address=" + addresses[2],
		"--download-url=https://" + addresses[2],
		"--metrics-secure=false",
		"--admission-grace=5s",
	}, opts.Args...)...)
	cmd.Env = append(os.Environ(), opts.Env...)
	cmd.Dir = opts.Dir
	cmd.Stdout = log
	if opts.Log != nil {
		cmd.Stdout = io.MultiWriter(log, opts.Log)
	}
	cmd.Stderr = cmd.Stdout
	// A plugin that outlives the operator for a moment must not delay Done for long.
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// servingMetricsMessage is logged by the operator when its metrics server listens.
const servingMetricsMessage = "Serving metrics server"

// waitUntilReady kills the operator if it does not become ready. The response may come from
// another operator that took the port first. In this case, this operator exits and never
// logs that it serves.
func (o *Operator) waitUntilReady(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-o.Done():
			return fmt.Errorf("it has ended: %w", errors.Join(o.Err(), errors.New("before it was ready")))
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("it is not ready: %w", context.Cause(ctx)), o.Kill())
		case <-tick.C:
		}
		if o.dataDir.logContains(o.logStart, servingMetricsMessage) && isRespondingOK(ctx, url) {
			return nil
		}
	}
}

func isRespondingOK(ctx context.Context, url string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return false
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	return resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
}

// findFreeAddresses returns different addresses on the loopback interface on which no
// program listened.
func findFreeAddresses(n int) ([]string, error) {
	addresses := make([]string, 0, n)
	for range n {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("looking for a free port: %w", err)
		}
		// Closed at the end, so that the next address is different.
		defer func() { _ = listener.Close() }()
		addresses = append(addresses, listener.Addr().String())
	}
	return addresses, nil
}

// PID returns the process ID. It is invalid once Done is closed.
func (o *Operator) PID() int { return o.process.PID() }

// MetricsURL returns the URL of the metrics, which need no authentication.
func (o *Operator) MetricsURL() string { return o.metricsURL }

// LogPath returns the file with the output of the operator and of earlier operators with
// the same directory.
func (o *Operator) LogPath() string { return o.dataDir.logPath() }

// LastLogLines returns the last lines of this operator's output: they usually contain the
// reason for a failure.
func (o *Operator) LastLogLines() string { return o.dataDir.lastLogLines(o.logStart) }

// Done is closed when the operator has ended.
func (o *Operator) Done() <-chan struct{} { return o.process.Done() }

// Err returns the exit error of the operator: nil while it runs, and if it succeeded.
func (o *Operator) Err() error { return o.process.Err() }

// Kill kills the operator with SIGKILL and returns once it has ended. The kernel kills its
// plugins. It is not an error if the operator has already ended.
func (o *Operator) Kill() error { return o.process.Kill() }

// Stop stops the operator and returns once it has ended. If it needs more than a minute, it
// is killed and Stop returns an error. It is not an error if the operator has already
// ended.
func (o *Operator) Stop() error { return o.process.Stop(stopTimeout) }
