// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package raw

import (
	"context"
	"encoding/json"
	"net/http"
	"runtime/debug"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"

	"github.com/grapnel-dev/grapnel/test/perf/memory"
)

// SendRequest says which requests are sent, and by how many workers.
type SendRequest struct {
	Workers int `json:"workers"`
	// Steps follow each other: what is in one needs what is in the one before,
	// as objects need their namespaces.
	Steps [][]Message `json:"steps"`
}

// Message is one request: a GET without a body, a POST with one, a JSON merge patch, or a DELETE.
type Message struct {
	// Path is a URL path: that of a collection for a POST, otherwise of an object.
	Path string `json:"path"`
	// Patch makes it a patch, of which Body is the content.
	Patch bool `json:"patch,omitempty"`
	// Delete makes it a DELETE.
	Delete bool            `json:"delete,omitempty"`
	Body   json.RawMessage `json:"body,omitempty"`
}

// SendTimes is what sending took.
type SendTimes struct {
	// Seconds from the first request to the last answer.
	Seconds float64 `json:"seconds"`
	// Growth of the resident memory in bytes. The requests were in memory before.
	Growth int64 `json:"growth"`
}

// Send sends the requests and reads each answer to its end. The first that is not
// a success ends it.
func Send(ctx context.Context, c *Client, req SendRequest) (SendTimes, error) {
	// What reading the requests left behind would hide what sending them takes.
	debug.FreeOSMemory()
	own := memory.Process(0)
	before, err := own.Resident()
	if err != nil {
		return SendTimes{}, err
	}
	if err := own.ResetPeak(); err != nil {
		return SendTimes{}, err
	}
	start := time.Now()
	for _, step := range req.Steps {
		if err := c.sendAll(ctx, req.Workers, step); err != nil {
			return SendTimes{}, err
		}
	}
	seconds := time.Since(start).Seconds()
	peak, err := own.Peak()
	return SendTimes{Seconds: seconds, Growth: peak - before}, err
}

// sendAll shares messages out among workers.
func (c *Client) sendAll(ctx context.Context, workers int, messages []Message) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(max(workers, 1))
	for _, m := range messages {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error { return c.send(ctx, m) })
	}
	return group.Wait()
}

func (c *Client) send(ctx context.Context, m Message) error {
	method, contentType := http.MethodGet, ""
	switch {
	case m.Delete:
		method = http.MethodDelete
	case m.Patch:
		method, contentType = http.MethodPatch, string(types.MergePatchType)
	case len(m.Body) > 0:
		method, contentType = http.MethodPost, "application/json"
	}
	_, err := c.exchange(ctx, method, m.Path, contentType, m.Body)
	return err
}
