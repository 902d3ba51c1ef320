// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	hclog "github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	pluginrunner "github.com/hashicorp/go-plugin/runner"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/grapnel-dev/grapnel/sdk/proto"
)

// pluginName is only the key of go-plugin's maps; it is not sent.
const pluginName = "grapnel"

// instance is one child that is ready for calls.
type instance struct {
	client       *goplugin.Client
	child        *childProcess
	router       *logRouter
	conn         *grpc.ClientConn
	capabilities Capabilities
	socketDir    string
	// stopMu allows one goroutine at a time to stop the client.
	stopMu sync.Mutex
}

// instanceLaunch is an instance that is starting.
type instanceLaunch struct {
	host   Settings
	config ProcessConfig
	instance
	// spawnErr is the error of starting the process.
	spawnErr error
}

// startInstance starts the binary and returns when it is ready for calls. On an error
// nothing is left behind.
func startInstance(ctx context.Context, host Settings, config ProcessConfig) (*instance, error) {
	if err := checkExecutable(config.Path); err != nil {
		return nil, err
	}
	l := &instanceLaunch{host: host, config: config}
	l.router = newLogRouter(host.Logger.WithValues("plugin", config.Name))
	l.child = newChildProcess(host.Spawner, l.newLineHandler())
	l.client = goplugin.NewClient(l.newClientConfig())
	ctx, cancel := context.WithTimeoutCause(ctx, config.StartTimeout, errStartTimeout)
	defer cancel()
	callCtx, cancelCall := withoutDeadline(ctx)
	defer cancelCall()
	done := make(chan error, 1)
	go func() { done <- l.connectAndVerify(callCtx) }()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		l.child.killUnlessExiting()
		err = errors.Join(context.Cause(ctx), <-done)
	}
	if err == nil {
		return &l.instance, nil
	}
	// An exit in progress explains more than the broken connection.
	l.waitForPendingExit(ctx, err)
	explained := l.explainStartFailure(err)
	l.stopInstance(0)
	return nil, explained
}

var errStartTimeout = errors.New("start timeout")

// withoutDeadline returns a ctx that is canceled when ctx ends. gRPC sends a deadline to
// the other side, whose clock may end the call earlier: then a timeout would look like an
// error. The caller must call the returned function.
func withoutDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	bare, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	return bare, func() {
		stop()
		cancel()
	}
}

func (l *instanceLaunch) waitForPendingExit(ctx context.Context, err error) {
	broken := l.child.stdout.hasReachedEOF() || isConnectionLost(err)
	if l.spawnErr != nil || !broken {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, exitTimeout)
	defer cancel()
	select {
	case <-l.child.exited:
	case <-ctx.Done():
	}
}

// newLineHandler returns the function that passes one stream of lines to the router.
func (l *instanceLaunch) newLineHandler() func(line []byte, cut bool) {
	p, r := NewParser(l.host.Redactor), l.router
	return func(line []byte, cut bool) {
		if rec, ok := p.Parse(line, cut); ok {
			r.routeLogRecord(rec)
		}
	}
}

func (l *instanceLaunch) newClientConfig() *goplugin.ClientConfig {
	return &goplugin.ClientConfig{
		HandshakeConfig: goplugin.HandshakeConfig{
			ProtocolVersion:  proto.HandshakeVersion,
			MagicCookieKey:   proto.HandshakeCookieKey,
			MagicCookieValue: proto.HandshakeCookieValue,
		},
		Plugins:          goplugin.PluginSet{pluginName: connPlugin{}},
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		RunnerFunc: func(_ hclog.Logger, spec *exec.Cmd, socketDir string) (pluginrunner.Runner, error) {
			l.socketDir = socketDir
			l.child.cmd = l.newChildCommand(spec.Env)
			return &spawnRecorder{childProcess: l.child, err: &l.spawnErr}, nil
		},
		// Our own timer decides; that of go-plugin only has to be longer.
		StartTimeout:    l.config.StartTimeout + time.Minute,
		Logger:          hclog.NewNullLogger(),
		SyncStdout:      &lineWriter{handle: l.newLineHandler()},
		SyncStderr:      &lineWriter{handle: l.newLineHandler()},
		SkipHostEnv:     true,
		GRPCDialOptions: []grpc.DialOption{grpc.WithStatsHandler(answerMarker{})},
	}
}

// spawnRecorder records the error of Start, which go-plugin returns without its type.
type spawnRecorder struct {
	*childProcess
	err *error
}

// Start starts the child and records the error.
func (s *spawnRecorder) Start(ctx context.Context) error {
	*s.err = s.childProcess.Start(ctx)
	return *s.err
}

// newChildCommand returns the child's command. handshakeEnv comes last because it must take
// precedence.
func (l *instanceLaunch) newChildCommand(handshakeEnv []string) *exec.Cmd {
	args := []string{l.config.Path, "--log-level", l.host.LogLevel}
	if len(l.host.Features) > 0 {
		args = append(args, "--features", strings.Join(l.host.Features, ","))
	}
	return &exec.Cmd{
		Path: l.config.Path,
		Args: append(args, l.config.Args...),
		Env:  append(buildEnvironment(l.host.LookupEnv, l.host.Env, l.config.Env), handshakeEnv...),
		Dir:  "/",
	}
}

// connectAndVerify starts the child, connects to it and verifies it.
func (l *instanceLaunch) connectAndVerify(ctx context.Context) error {
	protocol, err := l.client.Client()
	if err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	conn, err := protocol.Dispense(pluginName)
	if err != nil {
		return fmt.Errorf("dispensing: %w", err)
	}
	l.conn, _ = conn.(*grpc.ClientConn)
	if l.capabilities, err = l.config.Verify(ctx, newCallConn(l.conn)); err != nil {
		return &verifyError{err: err}
	}
	return nil
}

// verifyError marks the error of ProcessConfig.Verify.
type verifyError struct{ err error }

func (v *verifyError) Error() string { return v.err.Error() }

func (v *verifyError) Unwrap() error { return v.err }

// isConnectionLost reports whether a call failed because of its connection.
func isConnectionLost(err error) bool {
	return err != nil && status.Code(err) == codes.Unavailable
}

// explainStartFailure returns the StartError for the failure of a start.
func (l *instanceLaunch) explainStartFailure(err error) error {
	name := filepath.Base(l.config.Path)
	switch {
	case errors.Is(err, errStartTimeout):
		return &StartError{Reason: ReasonStartTimeout, Err: err, Message: fmt.Sprintf(
			"%s was not ready for calls within %s and was ended; %s: check why it hangs or raise its start timeout",
			name, l.config.StartTimeout, lastLogLines(l.router.lastMessages()))}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return &StartError{Reason: ReasonInterrupted, Err: err, Message: fmt.Sprintf("the start of %s was interrupted", name)}
	case l.spawnErr != nil:
		return toSpawnError(l.config.Path, l.spawnErr)
	case l.child.ID() == "":
		return &StartError{Reason: ReasonStartFailed, Err: err, Message: fmt.Sprintf(
			"%s could not be started: check that the operator's directory for temporary files is writable", name)}
	}
	line, printed := l.child.stdout.firstLine()
	if printed {
		if problem := checkHandshake(line, l.host.Redactor); problem != "" {
			return &StartError{Reason: ReasonHandshakeFailed, Err: err, Message: name + " was started, but " + problem}
		}
	}
	if l.child.hasExitedByItself() {
		return &StartError{Reason: ReasonExitedAtOnce, Err: err, Message: fmt.Sprintf(
			"%s %s before it was ready for calls; %s", name, describeExit(l.child.state), lastLogLines(l.router.lastMessages()))}
	}
	if v := new(verifyError); errors.As(err, &v) && !isConnectionLost(err) {
		return v.err
	}
	return &StartError{Reason: ReasonHandshakeFailed, Err: err, Message: fmt.Sprintf(
		"%s was started, but there was no connection to it; %s", name, lastLogLines(l.router.lastMessages()))}
}

// stopInstance stops the child: it requests the end, and kills the child after the grace
// period. All goroutines and files of the instance have ended or are removed when
// stopInstance returns.
func (i *instance) stopInstance(grace time.Duration) {
	i.stopMu.Lock()
	defer i.stopMu.Unlock()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		i.client.Kill()
	}()
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-stopped:
	case <-timer.C:
		i.child.killUnlessExiting()
		<-stopped
	}
	if i.socketDir != "" {
		_ = os.RemoveAll(i.socketDir)
	}
}

// hasExited reports whether the child has ended, although it may not be cleaned up yet.
func (i *instance) hasExited() bool {
	select {
	case <-i.child.dead:
		return true
	default:
		return false
	}
}

// connPlugin makes go-plugin return the plain connection.
type connPlugin struct {
	goplugin.NetRPCUnsupportedPlugin
}

// GRPCServer is not used: this is the client side.
func (connPlugin) GRPCServer(*goplugin.GRPCBroker, *grpc.Server) error { return nil }

// GRPCClient returns the connection.
func (connPlugin) GRPCClient(_ context.Context, _ *goplugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return conn, nil
}
