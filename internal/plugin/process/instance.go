// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package process

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

	"github.com/grapnel-dev/grapnel/internal/plugin/logline"
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
	// stopMu lets one goroutine at a time stop the client.
	stopMu sync.Mutex
}

// instanceLaunch is an instance on its way.
type instanceLaunch struct {
	host   Host
	config Config
	instance
	// spawnErr is what starting the process returned.
	spawnErr error
}

// startInstance starts the binary and returns when it is ready for calls or when that
// failed; nothing is left behind then.
func startInstance(ctx context.Context, host Host, config Config) (*instance, error) {
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
	// An exit that is under way explains more than the connection it broke.
	l.waitForPendingExit(ctx, err)
	explained := l.explainStartFailure(err)
	l.stopInstance(0)
	return nil, explained
}

var errStartTimeout = errors.New("start timeout")

// withoutDeadline returns a ctx that is cancelled when ctx ends. gRPC sends a deadline
// to the other side, whose clock may end the call before ours does: then nobody can
// tell a timeout from an error. The caller has to call the function it returns.
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

// newLineHandler returns the way from one stream of lines to the router.
func (l *instanceLaunch) newLineHandler() func(line []byte, cut bool) {
	p, r := logline.NewParser(l.host.Redactor), l.router
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
		// Our own timer decides; go-plugin's only has to be later.
		StartTimeout:    l.config.StartTimeout + time.Minute,
		Logger:          hclog.NewNullLogger(),
		SyncStdout:      &lineWriter{handle: l.newLineHandler()},
		SyncStderr:      &lineWriter{handle: l.newLineHandler()},
		SkipHostEnv:     true,
		GRPCDialOptions: []grpc.DialOption{grpc.WithStatsHandler(answerMarker{})},
	}
}

// spawnRecorder keeps the error of Start, which go-plugin returns without its type.
type spawnRecorder struct {
	*childProcess
	err *error
}

// Start starts the child and records the error.
func (s *spawnRecorder) Start(ctx context.Context) error {
	*s.err = s.childProcess.Start(ctx)
	return *s.err
}

// newChildCommand returns the child's command. handshakeEnv comes last: it must win.
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

// connectAndVerify starts the child, dials it and asks it what it is.
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

// verifyError marks what Config.Verify returned.
type verifyError struct{ err error }

func (v *verifyError) Error() string { return v.err.Error() }

func (v *verifyError) Unwrap() error { return v.err }

// isConnectionLost reports whether a call failed because of its connection.
func isConnectionLost(err error) bool {
	return err != nil && status.Code(err) == codes.Unavailable
}

// explainStartFailure turns the failure of a start into words.
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
			"%s could not be started: check that the folder for temporary files of the operator is writable", name)}
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
		"%s was started, but no connection to it could be made; %s", name, lastLogLines(l.router.lastMessages()))}
}

// stopInstance ends the child: it is asked to, and killed after the grace time. All
// goroutines and files of the instance are gone when stop returns.
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

// hasExited reports whether the child has ended, though something may be left of it.
func (i *instance) hasExited() bool {
	select {
	case <-i.child.dead:
		return true
	default:
		return false
	}
}

// connPlugin makes go-plugin hand out the bare connection.
type connPlugin struct {
	goplugin.NetRPCUnsupportedPlugin
}

// GRPCServer is not used: this is the client side.
func (connPlugin) GRPCServer(*goplugin.GRPCBroker, *grpc.Server) error { return nil }

// GRPCClient returns the connection.
func (connPlugin) GRPCClient(_ context.Context, _ *goplugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return conn, nil
}
