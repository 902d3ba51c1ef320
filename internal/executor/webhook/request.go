// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/tracing"
	"github.com/grapnel-dev/grapnel/sdk/hook"
)

const (
	// APIVersion is the version of the contract in requests, and in answers that include it.
	APIVersion = "hooks.grapnel.dev/v1"
	// RequestKind is the kind of requests.
	RequestKind = "HookRequest"
	// ResponseKind is the kind of answers.
	ResponseKind = "HookResponse"

	// HeaderKey is the header with the idempotency key, without quotes.
	HeaderKey = "Idempotency-Key"
	// HeaderAttempt is the header with the number of the attempt, from 1.
	HeaderAttempt = "Grapnel-Attempt"
)

const (
	// maxRequestBytes is the maximum size in bytes of a body that an endpoint has to expect.
	maxRequestBytes = 8 << 20
	// maxKeyLength is the maximum length of an idempotency key in bytes; the key of a HookRun is a
	// UID.
	maxKeyLength = 253
)

// requestBody is the body of a call. Maps are always present, except those that only restores have.
type requestBody struct {
	APIVersion    string                       `json:"apiVersion"`
	Kind          string                       `json:"kind"`
	Point         string                       `json:"point"`
	Action        string                       `json:"action"`
	Key           string                       `json:"key"`
	Attempt       int32                        `json:"attempt"`
	Parameters    map[string]string            `json:"parameters"`
	Outputs       map[string]map[string]string `json:"outputs"`
	BackupName    string                       `json:"backupName,omitzero"`
	BackupOutputs map[string]map[string]string `json:"backupOutputs,omitzero"`
	Subject       jsontext.Value               `json:"subject"`
}

// encodeRequest returns the body of a call, if every endpoint would accept it. The same call has
// the same body.
func encodeRequest(call executor.Call) ([]byte, error) {
	if err := validateCall(call); err != nil {
		return nil, err
	}
	content, err := json.Marshal(requestBody{
		APIVersion: APIVersion, Kind: RequestKind,
		Point: call.Point, Action: call.Action, Key: call.Key, Attempt: call.Attempt,
		Parameters: call.Parameters, Outputs: call.Outputs,
		BackupName: call.BackupName, BackupOutputs: call.BackupOutputs, Subject: call.Subject,
	}, json.Deterministic(true))
	if err != nil {
		// The text of the library differs between processes.
		return nil, errors.New("the call cannot be encoded as JSON: the object it runs for, or a name, is not valid")
	}
	if len(content) > maxRequestBytes {
		return nil, fmt.Errorf("the object and the outputs of earlier actions have %d bytes together, at most %d can be sent", len(content), maxRequestBytes)
	}
	return content, nil
}

func validateCall(call executor.Call) error {
	switch {
	case call.Key == "":
		return errors.New("the call has no idempotency key")
	case len(call.Key) > maxKeyLength || !isVisibleASCII(call.Key):
		return fmt.Errorf("the call's idempotency key is not at most %d visible ASCII characters", maxKeyLength)
	case call.Attempt < 1:
		return fmt.Errorf("the call has attempt number %d, attempts are counted from 1", call.Attempt)
	case len(call.Subject) == 0:
		return errors.New("the call has no object that it runs for")
	case len(call.Subject) > hook.MaxSubjectBytes:
		return fmt.Errorf("the object it runs for has %d bytes, at most %d can be sent: make it smaller",
			len(call.Subject), hook.MaxSubjectBytes)
	}
	if err := hook.ValidateParameters(call.Parameters); err != nil {
		return err
	}
	if err := validateOutputs(call.Outputs, "the outputs of"); err != nil {
		return err
	}
	return validateOutputs(call.BackupOutputs, "the backup's outputs of")
}

// validateOutputs checks the outputs of earlier actions. Those of a backup come from its storage,
// and may be anything.
func validateOutputs(outputs map[string]map[string]string, what string) error {
	for _, name := range slices.Sorted(maps.Keys(outputs)) {
		if err := hook.ValidateOutputs(outputs[name]); err != nil {
			return fmt.Errorf("%s %q: %w", what, name, err)
		}
	}
	return nil
}

// isVisibleASCII reports whether text can be sent in a header unchanged.
func isVisibleASCII(text string) bool {
	for i := range len(text) {
		if text[i] <= ' ' || text[i] >= 0x7f {
			return false
		}
	}
	return true
}

func (e *Executor) newHTTPRequest(ctx context.Context, call executor.Call, content []byte, token string) (*http.Request, error) {
	out, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url.String(), bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	out.Header.Set("Content-Type", "application/json")
	out.Header.Set("Accept", "application/json")
	out.Header.Set("User-Agent", e.userAgent)
	out.Header.Set(HeaderKey, call.Key)
	out.Header.Set(HeaderAttempt, strconv.Itoa(int(call.Attempt)))
	if traceparent := tracing.Traceparent(ctx); traceparent != "" {
		out.Header.Set(tracing.Header, traceparent)
	}
	if token != "" {
		out.Header.Set("Authorization", "Bearer "+token)
	}
	return out, nil
}
