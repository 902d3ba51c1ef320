// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook_test

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/executor/webhook"
)

const token = "a-token-of-the-secret"

// freeze is the endpoint of docs/plugins/webhook.md.
//
// begin document

type freeze struct {
	mu   sync.Mutex
	runs map[string]*run // by key; keep them where they survive a restart
}

type run struct{ frozen bool }

func (f *freeze) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte("Bearer "+token)) == 0 {
		answer(w, http.StatusUnauthorized, map[string]any{"message": "the token is not mine"})
		return
	}
	var call struct {
		APIVersion, Point, Key string
		Parameters             map[string]string
	}
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 8<<20)).Decode(&call)
	if err != nil || call.APIVersion != "hooks.grapnel.dev/v1" {
		answer(w, http.StatusBadRequest, map[string]any{"message": "this is no request of hooks.grapnel.dev/v1"})
		return
	}
	database := call.Parameters["database"] // data, possibly from an untrusted user
	if database != "orders" && database != "stock" {
		answer(w, http.StatusUnprocessableEntity, map[string]any{"message": "set the parameter database to orders or stock"})
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch known := f.runs[call.Key]; {
	case known == nil:
		f.runs[call.Key] = f.start(database)
		answer(w, http.StatusOK, map[string]any{"retryAfterSeconds": 5, "message": "freezing " + database})
	case !known.frozen:
		answer(w, http.StatusOK, map[string]any{"retryAfterSeconds": 5, "message": "still freezing " + database})
	default:
		answer(w, http.StatusOK, map[string]any{
			"message": "froze " + database,
			"outputs": map[string]string{"database": database},
			"log":     []string{"flushed 3 tables", "locked " + database},
		})
	}
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// end document

func (f *freeze) start(string) *run { return &run{} }

// TestExecute_DocumentedEndpoint goes through what the document's endpoint does.
func TestExecute_DocumentedEndpoint(t *testing.T) {
	t.Parallel()
	endpoint := &freeze{runs: map[string]*run{}}
	opts := optionsFor(serve(t, endpoint.ServeHTTP))
	shown := "another-token"
	opts.Credentials = func(context.Context) (webhook.Credentials, error) {
		return webhook.Credentials{BearerToken: shown}, nil
	}
	e := newExecutor(t, opts)
	call := newCall()
	_, err := e.Execute(t.Context(), call)
	wantError(t, err, executor.Failed, "answered 401 Unauthorized, check the credentials in the Plugin's Secret: the token is not mine")
	shown = token
	_, err = e.Execute(t.Context(), call)
	wantError(t, err, executor.Failed, "answered 422 Unprocessable Entity: set the parameter database")
	call.Parameters = map[string]string{"database": "orders"}
	for _, want := range []string{"freezing orders", "still freezing orders"} {
		got, err := e.Execute(t.Context(), call)
		if err != nil || got.RetryAfter == 0 || got.Message != want {
			t.Fatalf("answer is %+v, %v, want %s", got, err, want)
		}
	}
	endpoint.runs[call.Key].frozen = true
	got, err := e.Execute(t.Context(), call)
	want := executor.Answer{Message: "froze orders", Outputs: map[string]string{"database": "orders"}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("error is %v, answer (-want +got):\n%s", err, diff)
	}
}

// TestExecutor_Documentation checks that the document shows the endpoint that was tested.
func TestExecutor_Documentation(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("document_test.go")
	if err != nil {
		t.Fatal(err)
	}
	document, err := os.ReadFile("../../../docs/plugins/webhook.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, begins := strings.Cut(string(source), "// begin document\n\n")
	tested, _, ends := strings.Cut(rest, "\n// end document\n")
	if !begins || !ends || !strings.Contains(string(document), "```golang\n"+tested+"```\n") {
		t.Error("docs/plugins/webhook.md does not have the endpoint of this file")
	}
}
