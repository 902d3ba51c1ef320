// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// validity is how long a fetched time is extrapolated. A process that slept does not notice that.
const validity = time.Minute

// FetchServerTime returns the time of the API server: the creationTimestamp of an object of a dry run.
// Nothing is stored, and proxies in between have no influence.
func FetchServerTime(ctx context.Context, c client.Client, namespace string) (time.Time, error) {
	d := &v1alpha1.DeletionRun{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "server-time-"},
		Spec:       v1alpha1.DeletionRunSpec{BackupName: "server-time", Cause: v1alpha1.DeletionCauseExpired},
	}
	if err := c.Create(ctx, d, client.DryRunAll); err != nil {
		return time.Time{}, fmt.Errorf("getting the time of the API server: %w", err)
	}
	return d.CreationTimestamp.Time, nil
}

// ServerClock returns the time of the API server, and fetches it at most once a minute. It is safe for
// concurrent use.
type ServerClock struct {
	Client client.Client
	// Now is the clock of this machine. Only differences of its times are used, which Go measures
	// with the monotonic clock; the times themselves may be wrong.
	Now func() time.Time

	mu sync.Mutex
	// serverTime is the time of the API server at fetchedAt.
	serverTime, fetchedAt time.Time
}

// Time returns the time of the API server. It needs a namespace in which the operator may create
// objects.
func (c *ServerClock) Time(ctx context.Context, namespace string) (time.Time, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.Now()
	if passed := now.Sub(c.fetchedAt); !c.fetchedAt.IsZero() && passed >= 0 && passed < validity {
		return c.serverTime.Add(passed), nil
	}
	told, err := FetchServerTime(ctx, c.Client, namespace)
	if err != nil {
		return time.Time{}, err
	}
	c.serverTime, c.fetchedAt = told, now
	return told, nil
}
