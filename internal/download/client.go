// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package download downloads the files of Backups and Restores from the operator, by means of
// DownloadRequests.
package download

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

const (
	// TokenHeader is the HTTP header with the token of a DownloadRequest.
	TokenHeader = "Grapnel-Download-Token" //nolint:gosec // the name of a header
	// ServiceName is the Service of the operator's download server.
	ServiceName = "grapnel-downloads"
	servicePort = "https"

	// readyTimeout is how long the operator may take to make a DownloadRequest ready, and to answer.
	readyTimeout = 30 * time.Second
	// retryInterval is the time between two attempts while no leader answers.
	retryInterval = time.Second
	maxErrorBytes = 4096
)

// ErrNoOperator means that no operator took notice of a DownloadRequest.
var ErrNoOperator = errors.New("the operator does not respond; check its Deployment")

// Error is an answer of the operator that is no file.
type Error struct {
	// Code is the HTTP status code; 404 means that there is no such file.
	Code    int
	Message string
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

// Client downloads files with the rights of its user. It is safe for concurrent use.
type Client struct {
	Client    client.WithWatch
	Config    *rest.Config
	Namespace string
}

// Open opens a file, decompressed unless it is an archive. With follow, the log of a run in progress ends
// with the run. The error is an *Error if the operator refuses, for example because there is no such file.
// A file that was not sent to its end ends with an error other than io.EOF. The caller closes the reader,
// which also deletes the DownloadRequest.
func (c *Client) Open(ctx context.Context, target v1alpha1.DownloadTarget, follow bool) (_ io.ReadCloser, err error) {
	token := rand.Text()
	hash := sha256.Sum256([]byte(token))
	request := &v1alpha1.DownloadRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, GenerateName: "download-"},
		Spec:       v1alpha1.DownloadRequestSpec{Target: target, TokenHash: hex.EncodeToString(hash[:])},
	}
	if err := c.Client.Create(ctx, request); err != nil {
		return nil, fmt.Errorf("requesting %s of %s: %w", target.Kind, target.Name, err)
	}
	remove := func() {
		// Best effort: it expires anyway, and the file has been read.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyTimeout)
		defer cancel()
		_ = c.Client.Delete(ctx, request)
	}
	defer func() {
		if err != nil {
			remove()
		}
	}()
	if err := c.waitUntilReady(ctx, request); err != nil {
		return nil, err
	}
	httpClient, address, err := c.newHTTPClient(request)
	if err != nil {
		return nil, err
	}
	if follow {
		address.RawQuery = url.Values{"follow": {"true"}}.Encode()
	}
	opened, err := getWithRetries(ctx, httpClient, address.String(), token)
	if err != nil {
		return nil, err
	}
	opened.remove = remove
	return opened, nil
}

// file is an open file.
type file struct {
	io.Reader
	body io.Closer
	// remove deletes the DownloadRequest.
	remove func()
}

// Close implements io.Closer.
func (f *file) Close() error {
	defer f.remove()
	return f.body.Close()
}

// waitUntilReady waits until the operator has reconciled a DownloadRequest.
func (c *Client) waitUntilReady(ctx context.Context, request *v1alpha1.DownloadRequest) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout, ErrNoOperator)
	defer cancel()
	name := fields.OneTermEqualSelector(metav1.ObjectNameField, request.Name)
	changes, err := c.Client.Watch(ctx, &v1alpha1.DownloadRequestList{}, client.InNamespace(c.Namespace), client.MatchingFieldsSelector{Selector: name})
	if err != nil {
		return fmt.Errorf("waiting for DownloadRequest %s: %w", request.Name, cmp.Or(context.Cause(ctx), err))
	}
	defer changes.Stop()
	for change := range changes.ResultChan() {
		d, ok := change.Object.(*v1alpha1.DownloadRequest)
		switch {
		case !ok || change.Type == watch.Deleted:
			return fmt.Errorf("DownloadRequest %s was deleted", request.Name)
		case d.Status.Phase == v1alpha1.DownloadRequestPhaseFailed:
			return &Error{Code: http.StatusNotFound, Message: d.Status.Message}
		case d.Status.Phase == v1alpha1.DownloadRequestPhaseReady:
			d.DeepCopyInto(request)
			return nil
		}
	}
	return cmp.Or(context.Cause(ctx), errors.New("the API server ended the watch for a DownloadRequest; try again"))
}

// newHTTPClient returns a client for the download server, and the URL of the file: the operator's own, or that
// of the Service below the API server.
func (c *Client) newHTTPClient(request *v1alpha1.DownloadRequest) (*http.Client, *url.URL, error) {
	config := c.Config
	base := request.Status.URL
	if base != "" {
		config = &rest.Config{Host: base, TLSClientConfig: rest.TLSClientConfig{CAData: []byte(request.Status.CABundle)}}
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, nil, fmt.Errorf("connecting to the download server: %w", err)
	}
	address, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, nil, fmt.Errorf("connecting to the download server: %w", err)
	}
	if base == "" {
		address = address.JoinPath("api", "v1", "namespaces", c.Namespace, "services", "https:"+ServiceName+":"+servicePort, "proxy")
	}
	return &http.Client{Transport: transport}, address.JoinPath(request.Status.Path), nil
}

// getWithRetries gets a file. It tries again while the answer comes from an operator that is not the leader, or from
// a proxy that finds no operator.
func getWithRetries(ctx context.Context, c *http.Client, address, token string) (*file, error) {
	deadline := time.Now().Add(readyTimeout)
	for {
		opened, err := get(ctx, c, address, token)
		refused, ok := errors.AsType[*Error](err)
		if !ok || !isRetryable(refused.Code) || time.Now().After(deadline) {
			return opened, err
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), err)
		case <-time.After(retryInterval):
		}
	}
}

// isRetryable reports whether another operator, or the same one a moment later, may answer differently.
func isRetryable(code int) bool {
	return code == http.StatusServiceUnavailable || code == http.StatusTooManyRequests || code == http.StatusGatewayTimeout
}

func get(ctx context.Context, c *http.Client, address, token string) (_ *file, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("downloading: %w", err)
	}
	req.Header.Set(TokenHeader, token)
	req.Header.Set("Accept-Encoding", "gzip") // net/http then leaves decoding to us, whatever the config says
	resp, err := c.Do(req)
	if err != nil {
		return nil, fmt.Errorf("downloading: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, resp.Body.Close())
		}
	}()
	if resp.StatusCode != http.StatusOK {
		text, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBytes))
		if err != nil {
			return nil, fmt.Errorf("downloading: %s: %w", resp.Status, err)
		}
		return nil, &Error{Code: resp.StatusCode, Message: cmp.Or(errorMessage(text), resp.Status)}
	}
	if resp.Header.Get("Content-Encoding") != "gzip" {
		return &file{Reader: resp.Body, body: resp.Body}, nil
	}
	decompressed, err := gzip.NewReader(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("downloading: the file is not compressed as it should be: %w", err)
	}
	return &file{Reader: decompressed, body: resp.Body}, nil
}

// errorMessage returns the message of an answer: a text of the operator, or a Status of the API server.
func errorMessage(answer []byte) string {
	var status metav1.Status
	if err := json.Unmarshal(answer, &status); err == nil && status.Message != "" {
		return status.Message
	}
	return strings.TrimSpace(string(answer))
}
