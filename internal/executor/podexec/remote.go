// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package podexec

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync/atomic"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
)

// Remote runs commands through the API server: over WebSocket, or over SPDY where that is not
// possible, which is before Kubernetes 1.30 and behind some proxies. It is the CommandRunner of the
// operator, and safe for concurrent use.
type Remote struct {
	config *rest.Config
	client rest.Interface
}

var _ CommandRunner = (*Remote)(nil)

// NewRemote returns a Remote for the cluster and with the permissions of config, which is not
// modified. The permissions needed are get and create of pods/exec: up to Kubernetes 1.34, a
// WebSocket is opened with get.
func NewRemote(config *rest.Config) (*Remote, error) {
	config = rest.CopyConfig(config)
	config.APIPath, config.GroupVersion = "/api", &corev1.SchemeGroupVersion
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("preparing to run commands in pods: %w", err)
	}
	return &Remote{config: config, client: client}, nil
}

// newExecutorFunc creates the executor of one of the two protocols.
type newExecutorFunc func(config *rest.Config, at *url.URL) (remotecommand.Executor, error)

func newWebSocketExecutor(config *rest.Config, at *url.URL) (remotecommand.Executor, error) {
	return remotecommand.NewWebSocketExecutor(config, http.MethodGet, at.String())
}

func newSPDYExecutor(config *rest.Config, at *url.URL) (remotecommand.Executor, error) {
	return remotecommand.NewSPDYExecutor(config, http.MethodPost, at)
}

// Exec runs a command; see CommandRunner.
func (r *Remote) Exec(ctx context.Context, namespace, pod, container string, command []string,
	stdin io.Reader, stdout, stderr io.Writer,
) error {
	at := r.client.Post().Resource("pods").Namespace(namespace).Name(pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{
			Container: container, Command: command, Stdin: true, Stdout: true, Stderr: true,
		}, scheme.ParameterCodec).URL()
	streams := remotecommand.StreamOptions{Stdin: stdin, Stdout: stdout, Stderr: stderr}
	open, err := r.streamOnce(ctx, newWebSocketExecutor, at, streams)
	if open || err == nil || ctx.Err() != nil {
		return wrapNotStarted(open, err)
	}
	// Without a connection, nothing was started and no stdin was read: a second try is not a second
	// run.
	open, second := r.streamOnce(ctx, newSPDYExecutor, at, streams)
	if open || second == nil {
		return wrapNotStarted(open, second)
	}
	return wrapNotStarted(open, errors.Join(second, fmt.Errorf("over WebSocket: %w", err)))
}

func wrapNotStarted(open bool, err error) error {
	if err == nil || open {
		return err
	}
	return &NotStartedError{Err: err}
}

// streamOnce makes one try, and reports whether the connection was opened. In that case the server
// may have started the command.
func (r *Remote) streamOnce(ctx context.Context, dial newExecutorFunc, at *url.URL, streams remotecommand.StreamOptions) (bool, error) {
	var open atomic.Bool
	config := rest.CopyConfig(r.config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &upgradeObserver{next: next, upgraded: &open} })
	executor, err := dial(config, at)
	if err != nil {
		return false, err
	}
	// The client logs to the logger of ctx, even after it has returned.
	silent := logr.NewContext(ctx, logr.Discard())
	// The SPDY handshake does not end with ctx. This goroutine then outlives the call; it ends with
	// the connection.
	ended := make(chan error, 1)
	go func() { ended <- executor.StreamWithContext(silent, streams) }()
	select {
	case err = <-ended:
	case <-ctx.Done():
		err = ctx.Err()
	}
	return open.Load(), err
}

// upgradeObserver records whether a connection was opened.
type upgradeObserver struct {
	next     http.RoundTripper
	upgraded *atomic.Bool
}

// RoundTrip makes a request.
func (o *upgradeObserver) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := o.next.RoundTrip(request)
	if err == nil && response.StatusCode == http.StatusSwitchingProtocols {
		o.upgraded.Store(true)
	}
	return response, err
}
