// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Endpoints is what a Plugin can call that runs elsewhere, for end-to-end tests: an
// endpoint for webhooks on port 8443, and a plugin on port 7443. Both show the certificate
// in /tls and want to see one of the authority there. What they are told is their answer;
// the endpoint must be called twice.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/grapnel-dev/grapnel/sdk"
	"github.com/grapnel-dev/grapnel/sdk/hook"
	postbackupv1 "github.com/grapnel-dev/grapnel/sdk/postbackupaction/v1"
	prebackupv1 "github.com/grapnel-dev/grapnel/sdk/prebackupaction/v1"
	"github.com/grapnel-dev/grapnel/sdk/serve"
)

const (
	certFile, keyFile, authorityFile = "/tls/tls.crt", "/tls/tls.key", "/tls/ca.crt"
	pluginAction                     = "e2e.example.io/elsewhere"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	ended := make(chan error, 2)
	go func() { ended <- listenWebhooks() }()
	go func() { ended <- listenPlugin(ctx) }()
	err := <-ended
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func listenWebhooks() error {
	const timeout = 10 * time.Second
	authority, err := os.ReadFile(authorityFile)
	if err != nil {
		return err
	}
	trusted := x509.NewCertPool()
	if !trusted.AppendCertsFromPEM(authority) {
		return errors.New(authorityFile + " has no certificate")
	}
	server := &http.Server{
		Addr: ":8443", Handler: newEndpoint(), ReadTimeout: timeout, WriteTimeout: timeout,
		TLSConfig: &tls.Config{ClientCAs: trusted, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12},
	}
	return server.ListenAndServeTLS(certFile, keyFile)
}

func listenPlugin(ctx context.Context) error {
	return serve.New().
		RegisterPreBackupActionV1(pluginAction, func() (prebackupv1.PreBackupAction, error) { return elsewhere{}, nil }).
		RegisterPostBackupActionV1(pluginAction, func() (postbackupv1.PostBackupAction, error) { return elsewhere{}, nil }).
		Listen(ctx, serve.ListenOptions{Address: ":7443", CertFile: certFile, KeyFile: keyFile, ClientCAFile: authorityFile})
}

// elsewhere is both halves of the plugin's pair.
type elsewhere struct{}

// Execute returns its input as the answer.
func (elsewhere) Execute(ctx context.Context, req *hook.Request) (*hook.Response, error) {
	sdk.Logger(ctx).Info("The plugin was called", "backup", req.Backup.Name)
	response := hook.Done().WithMessage(fmt.Sprintf("attempt %d for %s, by %s", req.Attempt, req.Backup.Name, req.Parameters["who"]))
	response.Outputs = map[string]string{"host": hostname()}
	return response, nil
}

// hostname is the name of the pod.
func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return err.Error()
	}
	return name
}
