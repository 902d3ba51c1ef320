// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package location

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
)

// Metrics measures the requests to the stores of locations. It is safe for concurrent use; nil
// measures nothing.
type Metrics struct {
	duration *prometheus.HistogramVec
	errors   *prometheus.CounterVec
}

// NewMetrics registers the metrics.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "grapnel_store_request_duration_seconds",
			Help: "Duration of requests to the store of a location, by operation: a put until the object is durable, " +
				"a get until the first byte can be read, a list until its end.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 10), // 1 ms to 4 min
		}, []string{"location", "operation"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "grapnel_store_request_errors_total",
			Help: "Failed requests to the store of a location, except for answers that an object exists or does not.",
		}, []string{"location", "operation"}),
	}
	return m, errors.Join(registry.Register(m.duration), registry.Register(m.errors))
}

// deleteSeries deletes the series of a deleted location.
func (m *Metrics) deleteSeries(location string) {
	if m == nil {
		return
	}
	labels := prometheus.Labels{"location": location}
	m.duration.DeletePartialMatch(labels)
	m.errors.DeletePartialMatch(labels)
}

// observe records a request that began at start.
func (m *Metrics) observe(location, operation string, start time.Time, err error) {
	m.duration.WithLabelValues(location, operation).Observe(time.Since(start).Seconds())
	switch {
	case err == nil, errors.Is(err, objectstore.ErrNotExist), errors.Is(err, objectstore.ErrExists), errors.Is(err, context.Canceled):
	default:
		m.errors.WithLabelValues(location, operation).Inc()
	}
}

// measuredStore measures the requests of a store.
type measuredStore struct {
	objectstore.ExtendedStore
	metrics  *Metrics
	location string
}

// Put implements objectstore.Store.
func (s measuredStore) Put(ctx context.Context, key string, r io.Reader, opts objectstore.PutOptions) (objectstore.Info, error) {
	start := time.Now()
	info, err := s.ExtendedStore.Put(ctx, key, r, opts)
	s.metrics.observe(s.location, "put", start, err)
	return info, err
}

// Get implements objectstore.Store.
func (s measuredStore) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	start := time.Now()
	content, err := s.ExtendedStore.Get(ctx, key)
	s.metrics.observe(s.location, "get", start, err)
	return content, err
}

// Stat implements objectstore.Store.
func (s measuredStore) Stat(ctx context.Context, key string) (objectstore.Info, error) {
	start := time.Now()
	info, err := s.ExtendedStore.Stat(ctx, key)
	s.metrics.observe(s.location, "stat", start, err)
	return info, err
}

// Delete implements objectstore.Store.
func (s measuredStore) Delete(ctx context.Context, keys ...string) error {
	start := time.Now()
	err := s.ExtendedStore.Delete(ctx, keys...)
	s.metrics.observe(s.location, "delete", start, err)
	return err
}

// List implements objectstore.Store.
func (s measuredStore) List(ctx context.Context, opts objectstore.ListOptions) iter.Seq2[objectstore.Entry, error] {
	return s.measureList(s.ExtendedStore.List(ctx, opts))
}

// CommonPrefixes implements objectstore.PrefixLister.
func (s measuredStore) CommonPrefixes(ctx context.Context, opts objectstore.ListOptions) iter.Seq2[objectstore.Entry, error] {
	return s.measureList(s.ExtendedStore.CommonPrefixes(ctx, opts))
}

func (s measuredStore) measureList(list iter.Seq2[objectstore.Entry, error]) iter.Seq2[objectstore.Entry, error] {
	return func(yield func(objectstore.Entry, error) bool) {
		start, failed := time.Now(), error(nil)
		defer func() { s.metrics.observe(s.location, "list", start, failed) }()
		for entry, err := range list {
			failed = err
			if !yield(entry, err) {
				return
			}
		}
	}
}
