// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"strings"
	"sync"

	"github.com/johannesboyne/gofakes3"
)

// withoutConditions hides the condition of a write from the server.
func withoutConditions(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut || r.Method == http.MethodPost {
			r.Header.Del("If-None-Match")
		}
		next.ServeHTTP(w, r)
	})
}

// withConditionalCompletion honors If-None-Match: * when a multipart upload is
// completed. Writes are serialised, so that nothing comes in between.
func withConditionalCompletion(backend gofakes3.Backend, next http.Handler) http.Handler {
	var mu sync.RWMutex
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		completes := r.Method == http.MethodPost && r.URL.Query().Has("uploadId")
		switch {
		case completes && r.Header.Get("If-None-Match") == "*":
			mu.Lock()
			defer mu.Unlock()
			bucket, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
			if _, err := backend.HeadObject(bucket, key); err == nil {
				writeS3Error(w, http.StatusPreconditionFailed, "PreconditionFailed",
					"At least one of the pre-conditions you specified did not hold")
				return
			}
		case r.Method == http.MethodPut && !r.URL.Query().Has("partNumber"):
			mu.RLock()
			defer mu.RUnlock()
		}
		next.ServeHTTP(w, r)
	})
}
