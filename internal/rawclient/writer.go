// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package rawclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

const (
	// metadataOnly requests only the metadata of the written object. An API
	// server that does not support that sends the whole object.
	metadataOnly = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=1,application/json"
	mergePatch   = "application/merge-patch+json"
	// maxInternalErrorAttempts is how often a request that ends in an internal error
	// (500) is sent. Most of these errors come from a webhook that does not answer, and
	// every single object would otherwise wait for it.
	maxInternalErrorAttempts = 3
	// maxAnswerBytes is how much of a response is read.
	maxAnswerBytes = 64 << 20
)

// WriteOptions are the options of a Writer. A zero field means its default.
type WriteOptions struct {
	// FieldManager is the name that the API server records as the writer, by
	// default the name of the program.
	FieldManager string
	// Sleep waits for d, or until ctx is done, and then returns the error of ctx.
	// Tests replace it.
	Sleep func(ctx context.Context, d time.Duration) error
}

// Writer writes objects to one API server. It is safe for concurrent use.
type Writer struct {
	requests *Client
	opts     WriteOptions
}

// NewWriter returns a Writer for the API server of cfg, with its credentials and a
// connection of its own; see NewWriter.
func NewWriter(cfg *rest.Config, opts WriteOptions) (*Writer, error) {
	if opts.Sleep == nil {
		opts.Sleep = Sleep
	}
	requests, err := New(cfg, false)
	if err != nil {
		return nil, err
	}
	return &Writer{requests: requests, opts: opts}, nil
}

// Target names an object in the cluster.
type Target struct {
	// Resource of the object, in the version it is written in.
	Resource schema.GroupVersionResource
	// Namespace of the object, empty for a cluster-scoped one.
	Namespace string
	// Name of the object.
	Name string
}

// String returns "pods \"namespace/name\"", for messages.
func (t Target) String() string {
	key := t.Name
	if t.Namespace != "" {
		key = t.Namespace + "/" + t.Name
	}
	return fmt.Sprintf("%s %q", t.Resource.GroupResource(), key)
}

// Create creates an object from its JSON.
func (c *Writer) Create(ctx context.Context, t Target, object []byte) error {
	collection := t
	collection.Name = ""
	return c.sendWithRetry(ctx, "creating "+t.String(), Request{
		Method: http.MethodPost, URL: c.objectURL(collection), Body: object,
	}, t)
}

// CreateDryRun checks whether an object could be created, from its JSON. The API server
// validates it as for Create, and stores nothing.
func (c *Writer) CreateDryRun(ctx context.Context, t Target, object []byte) error {
	collection := t
	collection.Name = ""
	target := c.objectURL(collection)
	query := target.Query()
	query.Set("dryRun", metav1.DryRunAll)
	target.RawQuery = query.Encode()
	return c.sendWithRetry(ctx, "creating "+t.String()+" (dry run)", Request{Method: http.MethodPost, URL: target, Body: object}, t)
}

// Patch applies a JSON merge patch to an object or, if subresource is not empty,
// to a subresource such as "status".
func (c *Writer) Patch(ctx context.Context, t Target, subresource string, patch []byte) error {
	target := c.objectURL(t)
	if subresource != "" {
		target = target.JoinPath(subresource)
	}
	return c.sendWithRetry(ctx, "patching "+t.String(), Request{
		Method: http.MethodPatch, URL: target, Body: patch, ContentType: mergePatch,
	}, t)
}

// Replace replaces an object. The JSON must contain the resourceVersion that it
// replaces.
func (c *Writer) Replace(ctx context.Context, t Target, object []byte) error {
	return c.sendWithRetry(ctx, "replacing "+t.String(), Request{
		Method: http.MethodPut, URL: c.objectURL(t), Body: object,
	}, t)
}

// Delete deletes an object if it still has the UID. Its dependents are deleted
// afterwards. Delete returns when the API server has accepted the request, not when the
// object no longer exists.
func (c *Writer) Delete(ctx context.Context, t Target, uid string) error {
	body, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background",
		"preconditions": map[string]string{"uid": uid},
	})
	if err != nil {
		return fmt.Errorf("deleting %s: %w", t, err)
	}
	target := c.objectURL(t)
	target.RawQuery = "" // a DELETE has no field manager
	return c.sendWithRetry(ctx, "deleting "+t.String(), Request{
		Method: http.MethodDelete, URL: target, Body: body,
	}, t)
}

func (c *Writer) objectURL(t Target) *url.URL {
	u := c.requests.URL(t.Resource, t.Namespace, t.Name)
	if c.opts.FieldManager != "" {
		u.RawQuery = url.Values{"fieldManager": {c.opts.FieldManager}}.Encode()
	}
	return u
}

// sendWithRetry sends a request until the response is final.
func (c *Writer) sendWithRetry(ctx context.Context, what string, r Request, t Target) error {
	r.Resource, r.Accept = t.Resource.GroupResource(), metadataOnly
	for n := 1; ; n++ {
		err := c.sendOnce(ctx, r)
		if err == nil {
			return nil
		}
		delay, again := writeRetryDelay(err, n)
		if !again || ctx.Err() != nil || c.opts.Sleep(ctx, delay) != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
}

func writeRetryDelay(err error, n int) (time.Duration, bool) {
	limit := MaxAttempts
	if status := apierrors.APIStatus(nil); errors.As(err, &status) && status.Status().Code == http.StatusInternalServerError {
		limit = maxInternalErrorAttempts
	}
	if n >= limit {
		return 0, false
	}
	return RetryDelay(err, n)
}

// errNotJSONObject is the error for a response that no API server sends.
var errNotJSONObject = errors.New("the response is not a JSON object; is there a proxy in front of the API server?")

// sendOnce sends a request once. It reads the response to its end, which detects a truncated
// response, and does not decode it: its content is not needed.
func (c *Writer) sendOnce(ctx context.Context, r Request) error {
	body, err := c.requests.Do(ctx, r)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	var first [1]byte
	if _, err := io.ReadFull(body, first[:]); err != nil {
		return fmt.Errorf("reading the response: %w", err)
	}
	if _, err := io.Copy(io.Discard, body); err != nil {
		return fmt.Errorf("reading the response: %w", err)
	}
	if first[0] != '{' {
		return errNotJSONObject
	}
	return nil
}
