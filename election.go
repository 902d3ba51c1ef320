// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/grapnel-dev/grapnel/internal/lease"
)

// leaderElectionTimes are the durations of leader election, as in components of Kubernetes.
type leaderElectionTimes struct {
	duration, renewDeadline, retryPeriod time.Duration
}

func (l *leaderElectionTimes) bindFlags(flags *flag.FlagSet) {
	flags.DurationVar(&l.duration, "leader-elect-lease-duration", 15*time.Second,
		"how long standby replicas wait after the last renewal of the lease before one of them acquires it; whole seconds")
	flags.DurationVar(&l.renewDeadline, "leader-elect-renew-deadline", 10*time.Second,
		"how long the leader may act after its last renewal of the lease; shorter than the lease duration")
	flags.DurationVar(&l.retryPeriod, "leader-elect-retry-period", 2*time.Second,
		"time between two attempts to acquire or renew the lease; shorter than the renew deadline")
}

// validateFlags reports which flag is invalid; client-go would name its own fields.
func (l *leaderElectionTimes) validateFlags() error {
	switch {
	case l.retryPeriod <= 0:
		return fmt.Errorf("--leader-elect-retry-period is %s: it must be longer than zero", l.retryPeriod)
	case l.renewDeadline <= l.retryPeriod*6/5: // the start of each attempt has a jitter of up to 20 %
		return fmt.Errorf("--leader-elect-renew-deadline is %s: it must be longer than 1.2 times --leader-elect-retry-period (%s)",
			l.renewDeadline, l.retryPeriod)
	case l.duration <= l.renewDeadline:
		return fmt.Errorf("--leader-elect-lease-duration is %s: it must be longer than --leader-elect-renew-deadline (%s)",
			l.duration, l.renewDeadline)
	case l.duration%time.Second != 0:
		return fmt.Errorf("--leader-elect-lease-duration is %s: a lease is valid for whole seconds", l.duration)
	}
	return nil
}

// election makes one of several operators the leader. It is empty without leader election.
type election struct {
	lock  resourcelock.Interface
	fence *lease.Fence
}

// newLeaderElection returns the election of an operator. It does not use the client of the manager,
// which waits for the lease.
func newLeaderElection(cfg *rest.Config, opts options) (election, error) {
	if !opts.leaderElect {
		return election{}, nil
	}
	if err := opts.lease.validateFlags(); err != nil {
		return election{}, err
	}
	host, err := os.Hostname()
	if err != nil {
		return election{}, fmt.Errorf("determining the identity of the lease holder: %w", err)
	}
	identity := host + "_" + string(uuid.NewUUID())
	cfg = rest.AddUserAgent(rest.CopyConfig(cfg), "leader-election") // without the copy it would change the user agent of all clients
	cfg.Timeout = max(time.Second, opts.lease.renewDeadline/2)       // one hanging request must not lose the lease
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return election{}, fmt.Errorf("creating a client for the lease: %w", err)
	}
	events := record.NewBroadcaster()
	events.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events(opts.namespace)})
	fence := lease.New(opts.lease.duration, opts.lease.renewDeadline)
	return election{fence: fence, lock: fence.WrapElectionLock(&resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: opts.namespace, Name: lease.Name},
		Client:    client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{
			Identity:      identity,
			EventRecorder: events.NewRecorder(clientgoscheme.Scheme, corev1.EventSource{Component: identity}),
		},
	})}, nil
}

// journalCloseTimeout limits how long the process waits for its last journal entry. The disk may hang.
const journalCloseTimeout = time.Second

// exitWhenLeaseLost exits the process as soon as another operator may lead. There is no graceful
// shutdown: this operator must not do what it was about to do. It only records that it did not
// crash.
func (e election) exitWhenLeaseLost(ctx context.Context, note func()) {
	if e.fence == nil {
		return
	}
	err := e.fence.WaitUntilLost(ctx)
	if err == nil {
		return
	}
	ctrl.Log.Error(err, "Exiting immediately")
	noted := make(chan struct{})
	go func() {
		defer close(noted)
		note()
	}()
	select {
	case <-noted:
	case <-time.After(journalCloseTimeout):
	}
	os.Exit(1)
}
