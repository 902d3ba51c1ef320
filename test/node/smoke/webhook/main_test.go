// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestRefuse(t *testing.T) {
	cases := map[string]struct {
		body string
		code int
		want string
	}{
		"a review": {
			`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u-1","name":"thing"}}`, http.StatusOK,
			`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"u-1","allowed":false,"status":{"message":"the webhook has seen thing"}}}`,
		},
		"no review": {`{}`, http.StatusBadRequest, "no AdmissionReview"},
		"no JSON":   {`x`, http.StatusBadRequest, "no AdmissionReview"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			answer := httptest.NewRecorder()
			refuse(answer, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(c.body)))
			if got := strings.TrimSpace(answer.Body.String()); answer.Code != c.code || got != c.want {
				t.Errorf("got %d, %s", answer.Code, got)
			}
		})
	}
}
