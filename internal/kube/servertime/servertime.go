// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package servertime

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// validity is how long an answer is counted on from. A process that slept does not notice.
const validity = time.Minute

// FetchTime returns the time of the API server: that at which it would create an object. Nothing is
// stored, and no proxy between has a say in it.
func FetchTime(ctx context.Context, c client.Client, namespace string) (time.Time, error) {
	d := &v1alpha1.DeletionRun{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "server-time-"},
		Spec:       v1alpha1.DeletionRunSpec{BackupName: "server-time", Cause: v1alpha1.DeletionCauseExpired},
	}
	if err := c.Create(ctx, d, client.DryRunAll); err != nil {
		return time.Time{}, fmt.Errorf("asking the API server for its time: %w", err)
	}
	return d.CreationTimestamp.Time, nil
}

// Clock shows the time of the API server, and asks it at most once a minute. It is safe for
// concurrent use.
type Clock struct {
	Client client.Client
	// Now is the clock of this machine. What passes by it is right, if it is read as Go does:
	// what it shows need not be.
	Now func() time.Time

	mu sync.Mutex
	// serverTime is what the API server said at the time asked.
	serverTime, fetchedAt time.Time
}

// Time returns the time of the API server. A namespace in which objects may be created is needed
// to ask it.
func (c *Clock) Time(ctx context.Context, namespace string) (time.Time, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.Now()
	if passed := now.Sub(c.fetchedAt); !c.fetchedAt.IsZero() && passed >= 0 && passed < validity {
		return c.serverTime.Add(passed), nil
	}
	told, err := FetchTime(ctx, c.Client, namespace)
	if err != nil {
		return time.Time{}, err
	}
	c.serverTime, c.fetchedAt = told, now
	return told, nil
}
