// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package health_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/grapnel-dev/grapnel/internal/health"
)

// TestWatchdog uses a real work queue with an object whose reconcile does not end.
func TestWatchdog(t *testing.T) {
	for name, tc := range map[string]struct {
		limit  time.Duration
		ping   error
		onDisk bool
		done   bool
		// want means that a restart is requested.
		want bool
	}{
		"a reconcile that hangs":           {limit: 100 * time.Millisecond, want: true},
		"a finished reconcile":             {limit: 100 * time.Millisecond, done: true},
		"a reconcile within the limit":     {limit: time.Minute},
		"an unavailable API server":        {limit: 100 * time.Millisecond, ping: errors.New("connection refused")},
		"a disk that does not answer, too": {limit: 100 * time.Millisecond, onDisk: true},
	} {
		t.Run(name, func(t *testing.T) {
			queue := priorityqueue.New[string](name)
			t.Cleanup(queue.ShutDown)
			queue.Add("object")
			if object, _ := queue.Get(); tc.done {
				queue.Done(object)
			}
			w := &health.Watchdog{
				Gatherer: metrics.Registry, Limit: tc.limit, Interval: 50 * time.Millisecond,
				Ping:            func(context.Context) error { return tc.ping },
				IsBlockedOnDisk: func() bool { return tc.onDisk },
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { defer close(done); _ = w.Start(ctx) }()
			t.Cleanup(func() { cancel(); <-done })
			deadline := time.After(2 * time.Second) // the queue measures twice in a second
			for {
				// Queues of other rows stay registered.
				hangs := false
				if err := w.Check(nil); err != nil {
					hangs = strings.Contains(err.Error(), "a reconcile of the controller "+name+" has not ended")
				}
				if hangs && !tc.want {
					t.Fatal("a restart is requested")
				}
				if hangs {
					return
				}
				select {
				case <-deadline:
					if tc.want {
						t.Error("no restart is requested")
					}
					return
				case <-time.After(10 * time.Millisecond):
				}
			}
		})
	}
}
