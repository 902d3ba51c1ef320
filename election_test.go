// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/grapnel-dev/grapnel/controllers/hookrun"
	"github.com/grapnel-dev/grapnel/internal/executor/podexec"
	"github.com/grapnel-dev/grapnel/internal/lease"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/redact"
)

// TestNewManager_NotLeading: an operator that does not lead changes nothing, in none of the ways that it
// has: requests to the API server, commands in pods, plugins, HookRuns and stores.
func TestNewManager_NotLeading(t *testing.T) {
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method != http.MethodGet || strings.HasSuffix(r.URL.Path, "/exec"):
			requests.Add(1)
		case r.URL.Path == "/apis/grapnel.dev/v1alpha1": // all that a manager requests
			_, _ = w.Write([]byte(`{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"grapnel.dev/v1alpha1",
				"resources":[{"name":"asyncoperations","kind":"AsyncOperation","namespaced":true}]}`))
		case r.URL.Path == "/apis":
			_, _ = w.Write([]byte(`{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"grapnel.dev",
				"versions":[{"groupVersion":"grapnel.dev/v1alpha1","version":"v1alpha1"}],
				"preferredVersion":{"groupVersion":"grapnel.dev/v1alpha1","version":"v1alpha1"}}]}`))
		default:
			_, _ = w.Write([]byte("{}"))
		}
	}))
	defer server.Close()
	opts := options{
		namespace: "grapnel-system", metricsAddress: "0", probeAddress: "0", pprofAddress: "0", leaderElect: true,
		lease: leaderElectionTimes{duration: 15 * time.Second, renewDeadline: 10 * time.Second, retryPeriod: 2 * time.Second},
	}
	election, err := newLeaderElection(&rest.Config{Host: server.URL}, opts)
	if err != nil {
		t.Fatal(err)
	}
	mgr, err := newManager(t.Context(), &rest.Config{Host: server.URL}, opts, election)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, lease.ErrNotLeading) {
			t.Errorf("%s: error is %v, want %v", what, err, lease.ErrNotLeading)
		}
	}

	c, err := rest.HTTPClientFor(mgr.GetConfig())
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Post(server.URL+"/api/v1/namespaces/shop/configmaps", "application/json", strings.NewReader("{}")) //nolint:bodyclose // it is not sent
	refused("a request that changes something", err)
	commands, err := podexec.NewRemote(mgr.GetConfig())
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	refused("a command in a pod", commands.Exec(t.Context(), "shop", "db-0", "db", []string{"freeze"}, strings.NewReader(""), &out, &out))
	if n := requests.Load(); n > 0 {
		t.Errorf("%d requests were sent", n)
	}

	refused("a call of a plugin", catalogOptions(opts, redact.New(), election).Fence(t.Context()))
	if newLocationOpener(mgr, opts, redact.New(), election).Fence != election.fence {
		t.Error("locations are written to without the fence")
	}
	hookRuns, err := controllerSetup{Dependencies: lifecycle.Dependencies{Metrics: prometheus.NewRegistry()}, fence: election.fence}.newHookRunReconciler()
	if err != nil {
		t.Fatal(err)
	}
	if r, ok := hookRuns.(*hookrun.Reconciler); !ok || r.Fence != election.fence {
		t.Error("HookRuns are called without the fence")
	}
}
