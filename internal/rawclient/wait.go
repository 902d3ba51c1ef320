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

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// errWatchEnded means that a watch ended before the object was ready.
var errWatchEnded = errors.New("the watch ended")

// Wait waits until ready returns true for the JSON of an object, which is nil if the object does
// not exist. It reads the object, and then watches it. It ends with an error of ready, with a
// permanent error of reading the object, and when ctx is done. ctx should have a deadline.
func (c *Writer) Wait(ctx context.Context, t Target, ready func(object []byte) (bool, error)) error {
	for n := 1; ; n++ {
		done, err := c.readAndWatch(ctx, t, ready)
		if done {
			return err
		}
		if ctx.Err() != nil || c.opts.Sleep(ctx, BackoffDelay(n)) != nil {
			return fmt.Errorf("waiting for %s: %w", t, context.Cause(ctx))
		}
	}
}

// readAndWatch reads and watches the object once. It returns false if the object must be read
// again.
func (c *Writer) readAndWatch(ctx context.Context, t Target, ready func([]byte) (bool, error)) (done bool, err error) {
	object, err := c.getRawObject(ctx, t)
	switch {
	case apierrors.IsNotFound(err):
		object = nil
	case err != nil:
		_, again := RetryDelay(err, 1)
		return !again, fmt.Errorf("waiting for %s: %w", t, err)
	}
	if done, err := ready(object); done || err != nil {
		return true, err
	}
	if object == nil {
		return false, nil // there is no version to watch from
	}
	err = c.watchUntilReady(ctx, t, object, ready)
	var own *readyError
	if errors.As(err, &own) {
		return true, own.err
	}
	return err == nil, nil
}

func (c *Writer) getRawObject(ctx context.Context, t Target) ([]byte, error) {
	body, err := c.requests.Do(ctx, Request{
		Method: http.MethodGet, URL: c.requests.URL(t.Resource, t.Namespace, t.Name), Resource: t.Resource.GroupResource(),
	})
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }()
	return io.ReadAll(io.LimitReader(body, maxAnswerBytes))
}

// readyError marks an error of the caller's function.
type readyError struct{ err error }

func (e *readyError) Error() string { return e.err.Error() }

// watchUntilReady watches the object from the state that was read, and returns nil when
// ready returns true.
func (c *Writer) watchUntilReady(ctx context.Context, t Target, object []byte, ready func([]byte) (bool, error)) error {
	var from struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(object, &from); err != nil {
		return fmt.Errorf("decoding %s: %w", t, err)
	}
	target := c.requests.URL(t.Resource, t.Namespace, "")
	target.RawQuery = url.Values{
		"watch":           {"true"},
		"fieldSelector":   {"metadata.name=" + t.Name},
		"resourceVersion": {from.Metadata.ResourceVersion},
	}.Encode()
	body, err := c.requests.Do(ctx, Request{Method: http.MethodGet, URL: target, Resource: t.Resource.GroupResource()})
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	return readEventsUntilReady(json.NewDecoder(body), ready)
}

// readEventsUntilReady reads events until ready returns true.
func readEventsUntilReady(events *json.Decoder, ready func([]byte) (bool, error)) error {
	for {
		var event struct {
			Type   string          `json:"type"`
			Object json.RawMessage `json:"object"`
		}
		if err := events.Decode(&event); err != nil {
			return fmt.Errorf("%w: %w", errWatchEnded, err)
		}
		switch event.Type {
		case "ADDED", "MODIFIED":
		case "DELETED":
			event.Object = nil
		case "BOOKMARK":
			continue
		default:
			return errWatchEnded
		}
		done, err := ready(event.Object)
		if err != nil {
			return &readyError{err}
		}
		if done {
			return nil
		}
	}
}
