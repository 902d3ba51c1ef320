// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/internal/journal"
	"github.com/grapnel-dev/grapnel/internal/kube/location"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/internal/runlog"
)

// Dependencies is what an operator gives to the runs of every kind. Every field without a
// default is required.
type Dependencies struct {
	// Client reads from a cache.
	Client client.Client
	// Reader reads past it.
	Reader client.Reader
	// Opener opens storage locations.
	Opener *location.Opener
	// Logs keeps what runs log until it is stored.
	Logs     *runlog.Store
	Recorder events.EventRecorder
	Redactor *redact.Redactor
	// Metrics is where metrics are registered.
	Metrics prometheus.Registerer
	// Now is the clock.
	Now func() time.Time
	// ServerTime returns the time of the API server; by default it is asked for it.
	ServerTime func(ctx context.Context, namespace string) (time.Time, error)
	// Operations says how operations of plugins are watched; its zero values have
	// defaults.
	Operations OperationDefaults
	// Limits bound how long runs and their steps may take; its zero values have defaults.
	Limits Limits
	// AdmissionGrace is how long a new run waits for a location, a backup and Plugins that it
	// needs and that are not there or not ready. 0 fails its validation at once.
	AdmissionGrace time.Duration
	// Journal remembers which steps go on, for the case that one crashes the operator.
	// Without one, no crash is counted.
	Journal *journal.Journal
}

// validateRequiredFields says whether something is missing.
func (e *Dependencies) validateRequiredFields() error {
	if e.Client == nil || e.Reader == nil || e.Opener == nil || e.Logs == nil || e.Recorder == nil || e.Redactor == nil ||
		e.Metrics == nil || e.Now == nil {
		return errors.New("a field of the Environment is missing")
	}
	return nil
}
