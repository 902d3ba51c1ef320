// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

const (
	// DefaultLimit is how long a reconcile may take.
	DefaultLimit = 5 * time.Minute
	// defaultInterval is the time between two checks.
	defaultInterval = 30 * time.Second
	// pingTimeout limits how long the API server has to answer.
	pingTimeout = 5 * time.Second
)

// longestRunningMetric is the metric with the age of the oldest reconcile of each controller.
const longestRunningMetric = metrics.WorkQueueSubsystem + "_" + metrics.LongestRunningProcessorKey

// Watchdog is a Runnable of a manager and a liveness check. Gatherer and Ping are required.
type Watchdog struct {
	// Gatherer has the metrics of controller-runtime.
	Gatherer prometheus.Gatherer
	// Ping sends a request to the API server and returns an error if it does not answer.
	Ping func(ctx context.Context) error
	// Limit and Interval replace the defaults.
	Limit, Interval time.Duration
	// IsBlockedOnDisk reports whether the kernel blocks a thread of this process; by default it
	// reads /proc.
	IsBlockedOnDisk func() bool

	problem atomic.Pointer[error]
}

var (
	_ manager.Runnable               = (*Watchdog)(nil)
	_ manager.LeaderElectionRunnable = (*Watchdog)(nil)
)

// NeedLeaderElection returns false: a standby operator reconciles nothing, and is healthy.
func (*Watchdog) NeedLeaderElection() bool { return false }

// Start looks periodically for a reconcile that hangs, until ctx is done. Check itself returns at
// once, because a probe waits only for a second.
func (w *Watchdog) Start(ctx context.Context) error {
	if w.Limit <= 0 {
		w.Limit = DefaultLimit
	}
	if w.Interval <= 0 {
		w.Interval = defaultInterval
	}
	if w.IsBlockedOnDisk == nil {
		w.IsBlockedOnDisk = isBlockedOnDisk
	}
	tick := time.NewTicker(w.Interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			w.checkReconciles(ctx)
		}
	}
}

// Check returns an error while a reconcile hangs and a restart may help.
func (w *Watchdog) Check(*http.Request) error {
	if problem := w.problem.Load(); problem != nil {
		return *problem
	}
	return nil
}

func (w *Watchdog) checkReconciles(ctx context.Context) {
	hung := w.hungReconcilesError()
	log := ctrl.Log.WithName("liveness")
	if hung == nil {
		w.problem.Store(nil)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	switch err := w.Ping(ctx); {
	case err != nil:
		log.Info("A reconcile hangs, and the API server does not answer; not requesting a restart", "problem", hung.Error(), "error", err.Error())
		w.problem.Store(nil)
	case w.IsBlockedOnDisk():
		log.Info("A reconcile hangs, and a disk does not answer; a restart would not help", "problem", hung.Error())
		w.problem.Store(nil)
	default:
		log.Error(hung, "Requesting a restart")
		w.problem.Store(&hung)
	}
}

// hungReconcilesError returns an error for each controller with a reconcile that takes too long.
func (w *Watchdog) hungReconcilesError() error {
	families, err := w.Gatherer.Gather()
	if err != nil && len(families) == 0 {
		return nil // no reason for a restart
	}
	var errs []error
	for _, family := range families {
		if family.GetName() != longestRunningMetric {
			continue
		}
		for _, m := range family.GetMetric() {
			age := time.Duration(m.GetGauge().GetValue() * float64(time.Second))
			if age <= w.Limit {
				continue
			}
			name := ""
			for _, label := range m.GetLabel() {
				if label.GetName() == "controller" {
					name = label.GetValue()
				}
			}
			errs = append(errs, fmt.Errorf("a reconcile of the controller %s has not ended for %s", name, age.Round(time.Second)))
		}
	}
	return errors.Join(errs...)
}

// isBlockedOnDisk reports whether a thread of this process is in an uninterruptible sleep.
func isBlockedOnDisk() bool {
	files, err := filepath.Glob("/proc/self/task/*/stat")
	if err != nil {
		return false
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		// "pid (name) state …"; the name may contain any character.
		if end := bytes.LastIndexByte(content, ')'); end >= 0 && bytes.HasPrefix(content[end:], []byte(") D")) {
			return true
		}
	}
	return false
}
