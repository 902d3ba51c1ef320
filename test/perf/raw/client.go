// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package raw

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// connections is how many connections are kept open.
const connections = 256

// Client sends requests to one API server. It is safe for concurrent use.
type Client struct {
	http *http.Client
	base string
}

// NewClient returns a client with the address and the certificates of a
// kubeconfig. It speaks HTTP/1.1, one request a connection: the bodies of
// several LISTs need not share the flow control of one connection then.
func NewClient(kubeconfig string) (*Client, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	tls, err := rest.TLSConfigFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("reading the certificates: %w", err)
	}
	return newClient(strings.TrimSuffix(cfg.Host, "/"), &http.Transport{
		TLSClientConfig: tls, DisableCompression: true,
		MaxIdleConns: connections, MaxIdleConnsPerHost: connections,
	}), nil
}

func newClient(base string, transport http.RoundTripper) *Client {
	return &Client{http: &http.Client{Transport: transport}, base: base}
}

// do sends a request and returns the open body of a success.
func (c *Client) do(ctx context.Context, method, path, contentType string, body []byte) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("making a request: %w", err)
	}
	req.Header.Set("Accept", "application/json")
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= http.StatusOK && resp.StatusCode < http.StatusMultipleChoices {
		return resp.Body, nil
	}
	defer func() { _ = resp.Body.Close() }()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	return nil, fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, text)
}

// exchange sends a request and reads the whole answer.
func (c *Client) exchange(ctx context.Context, method, path, contentType string, body []byte) ([]byte, error) {
	answer, err := c.do(ctx, method, path, contentType, body)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Close() }()
	content, err := io.ReadAll(answer)
	if err != nil {
		return nil, fmt.Errorf("%s %s: reading the answer: %w", method, path, err)
	}
	return content, nil
}
