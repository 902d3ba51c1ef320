// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package run

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/internal/kube/location"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/internal/runlog"
)

// Environment is what an operator gives to the runs of every kind. Every field is
// required.
type Environment struct {
	// Client reads from a cache.
	Client client.Client
	// Reader reads past it.
	Reader client.Reader
	// Opener opens storage locations.
	Opener *location.Opener
	// Logs keeps what runs log until it is stored.
	Logs     *runlog.Book
	Recorder events.EventRecorder
	Redactor *redact.Redactor
	// Metrics is where metrics are registered.
	Metrics prometheus.Registerer
	// Now is the clock.
	Now func() time.Time
	// Operations says how operations of plugins are watched; its zero values have
	// defaults.
	Operations OperationDefaults
}

// validate says whether something is missing.
func (e *Environment) validate() error {
	if e.Client == nil || e.Reader == nil || e.Opener == nil || e.Logs == nil || e.Recorder == nil || e.Redactor == nil ||
		e.Metrics == nil || e.Now == nil {
		return errors.New("a field of the Environment is missing")
	}
	return nil
}
