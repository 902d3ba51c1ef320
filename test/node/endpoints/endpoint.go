// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
)

// endpoint answers webhooks: the first call of a run is to be repeated.
type endpoint struct {
	mu    sync.Mutex
	began map[string]bool // by key
}

func newEndpoint() *endpoint { return &endpoint{began: map[string]bool{}} }

// call is what is used of a request; docs/plugins/webhook.md has all of it.
type call struct {
	APIVersion, Point, Key string
	Attempt                int
	BackupName             string
	Outputs                map[string]map[string]string
	Parameters             map[string]string
	Subject                struct {
		Metadata struct{ Name string }
	}
}

// ServeHTTP implements http.Handler.
func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	const limit = 8 << 20
	var told call
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, limit)).Decode(&told)
	if err != nil || told.APIVersion != "hooks.grapnel.dev/v1" || told.Key == "" || told.Key != r.Header.Get("Idempotency-Key") {
		http.Error(w, "this is no call of a hook", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if e.isFirst(told.Key) {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusAccepted)
		return
	}
	name := told.Subject.Metadata.Name
	if told.BackupName != "" {
		name = told.BackupName
	}
	_ = json.NewEncoder(w).Encode(map[string]any{
		"message": fmt.Sprintf("%s: attempt %d for %s, by %s", told.Point, told.Attempt, name, told.Parameters["who"]),
		"outputs": map[string]string{"told": fmt.Sprint(len(told.Outputs))},
		"log":     []string{"The endpoint was called for " + told.Point},
	})
}

// isFirst reports whether there was no call with a key before.
func (e *endpoint) isFirst(key string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	began := e.began[key]
	e.began[key] = true
	return !began
}
