// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/internal/runlog"
	"github.com/grapnel-dev/grapnel/internal/storage/location"
	"github.com/grapnel-dev/grapnel/internal/tracing"
)

// Dependencies are what the drivers of all kinds share. Every field without a default is
// required.
type Dependencies struct {
	// Client reads from a cache.
	Client client.Client
	// Reader bypasses the cache.
	Reader client.Reader
	// Opener opens storage locations.
	Opener *location.Opener
	// Logs keeps the logs of runs until they are stored.
	Logs     *runlog.Store
	Recorder events.EventRecorder
	Redactor *redact.Redactor
	// Metrics is the registry for metrics.
	Metrics prometheus.Registerer
	// Now is the clock.
	Now func() time.Time
	// ServerTime returns the time of the API server; that of a clock.ServerClock by default.
	ServerTime func(ctx context.Context, namespace string) (time.Time, error)
	// Operations configures how operations of plugins are watched; zero values are replaced by
	// defaults.
	Operations OperationDefaults
	// OnOperationsChange, if set, is called with the number of operations of a run after it may have
	// changed, and with 0 when the run has finished. It is called concurrently, and must not block.
	OnOperationsChange func(run types.UID, count int)
	// Limits bound how long runs and their steps may take; zero values are replaced by defaults.
	Limits Limits
	// AdmissionGrace is how long a new run waits for a location, a backup and Plugins that do
	// not exist, and how long a run that has not begun waits for Plugins that are not ready. With
	// 0, it does not wait.
	AdmissionGrace time.Duration
	// Journal records which steps are running, in order to detect that one crashed the operator.
	// If it is nil, crashes are not counted.
	Journal *Journal
	// Tracer exports the traces of runs; nil exports none.
	Tracer *tracing.Tracer
}

// validateRequiredFields returns an error if a required field is not set.
func (e *Dependencies) validateRequiredFields() error {
	if e.Client == nil || e.Reader == nil || e.Opener == nil || e.Logs == nil || e.Recorder == nil || e.Redactor == nil ||
		e.Metrics == nil || e.Now == nil {
		return errors.New("a required field of Dependencies is missing")
	}
	return nil
}
