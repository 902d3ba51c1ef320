// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package s3server_test

import (
	"net/http"
	"testing"

	"go.uber.org/goleak"

	"github.com/grapnel-dev/grapnel/internal/testing/s3server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStartWithContext(t *testing.T) {
	s, err := s3server.StartWithContext(t.Context(), s3server.Options{Bucket: "backups"})
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(s.URL + "/backups/")
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("an unsigned request got status %d, want 403", resp.StatusCode)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if resp, err := client.Get(s.URL); err == nil {
		_ = resp.Body.Close()
		t.Error("the server still responds after Close")
	}
}
