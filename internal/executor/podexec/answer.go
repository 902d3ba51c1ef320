// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package podexec

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/sdk/hook"
)

// answer is the answer that a command printed.
type answer struct {
	message    string
	outputs    map[string]string
	retryAfter time.Duration
}

// parseAnswer parses the last line of a command's standard output. It returns nil if the line is
// not an answer, and an error if the answer is invalid.
func parseAnswer(line string) (*answer, error) {
	fields := map[string]json.RawMessage{}
	if !strings.HasPrefix(strings.TrimSpace(line), "{") || json.Unmarshal([]byte(line), &fields) != nil || len(fields) == 0 {
		return nil, nil //nolint:nilerr // Many commands print something else.
	}
	for name := range fields {
		if name != "message" && name != "outputs" && name != "retryAfterSeconds" {
			return nil, nil // For example, a log line in JSON.
		}
	}
	var a answer
	var seconds float64
	if json.Unmarshal(valueOrNull(fields["message"]), &a.message) != nil {
		return nil, errors.New("its answer's message is not a string")
	}
	if json.Unmarshal(valueOrNull(fields["outputs"]), &a.outputs) != nil {
		return nil, errors.New("its answer's outputs are not an object whose values are strings")
	}
	if json.Unmarshal(valueOrNull(fields["retryAfterSeconds"]), &seconds) != nil {
		return nil, errors.New("its answer's retryAfterSeconds is not a number")
	}
	return a.applyLimits(seconds)
}

func valueOrNull(value json.RawMessage) []byte {
	if value == nil {
		return []byte("null")
	}
	return value
}

// applyLimits returns the answer with its limits checked.
func (a *answer) applyLimits(seconds float64) (*answer, error) {
	if seconds < 0 || seconds > executor.MaxRetryAfter.Seconds() {
		return nil, fmt.Errorf("its answer's retryAfterSeconds is not between 0 and %.0f", executor.MaxRetryAfter.Seconds())
	}
	if seconds > 0 {
		a.retryAfter = max(time.Duration(seconds*float64(time.Second)), executor.MinRetryAfter)
		a.outputs = nil
	}
	if err := hook.ValidateOutputs(a.outputs); err != nil {
		return nil, fmt.Errorf("its answer has outputs that are not allowed: %w", err)
	}
	return a, nil
}
