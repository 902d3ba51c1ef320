// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/sdk/hook"
)

// terminationMessage is a termination message in JSON; see the package comment.
type terminationMessage struct {
	Message           string            `json:"message"`
	Outputs           map[string]string `json:"outputs"`
	RetryAfterSeconds float64           `json:"retryAfterSeconds"`
}

// decodeTerminationMessage decodes a termination message in JSON.
func decodeTerminationMessage(message string) (terminationMessage, error) {
	var r terminationMessage
	decoder := json.NewDecoder(strings.NewReader(message))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&r); err != nil {
		return terminationMessage{}, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return terminationMessage{}, errors.New("the JSON is followed by other text")
	}
	return r, nil
}

// answerForExit returns the answer of a container that ended with exit. last is the last line of
// its log. redact is applied to all texts.
func answerForExit(exit *corev1.ContainerStateTerminated, last string, redact func(string) string) (executor.Answer, *failure) {
	message := strings.TrimSpace(exit.Message)
	isJSON := strings.HasPrefix(message, "{")
	if exit.ExitCode != 0 {
		return executor.Answer{}, &failure{
			kind: executor.Failed, text: fmt.Sprintf("ended with exit code %d%s", exit.ExitCode, failureReason(message, isJSON, last, redact)),
		}
	}
	if !isJSON {
		return executor.Answer{Message: executor.OneLine(redact(message))}, nil
	}
	r, err := decodeTerminationMessage(message)
	if err != nil {
		return executor.Answer{}, newContractError(fmt.Sprintf("its termination message begins like JSON and is not message, outputs and "+
			"retryAfterSeconds (%v); Kubernetes keeps 4096 bytes of it, it has %d", err, len(exit.Message)))
	}
	result := executor.Answer{Message: executor.OneLine(redact(r.Message))}
	if r.RetryAfterSeconds != 0 {
		if r.RetryAfterSeconds < 0 || r.RetryAfterSeconds > executor.MaxRetryAfter.Seconds() {
			return executor.Answer{}, newContractError(fmt.Sprintf("retryAfterSeconds is %v: more than 0 and at most %v is allowed",
				r.RetryAfterSeconds, executor.MaxRetryAfter.Seconds()))
		}
		result.RetryAfter = max(time.Duration(r.RetryAfterSeconds*float64(time.Second)), executor.MinRetryAfter)
		return result, nil
	}
	if err := hook.ValidateOutputs(r.Outputs); err != nil {
		return executor.Answer{}, newContractError("outputs that are not allowed: " + err.Error())
	}
	result.Outputs = r.Outputs
	return result, nil
}

func newContractError(text string) *failure {
	return &failure{kind: executor.Failed, text: "answered something that is not part of the contract: " + text}
}

// failureReason returns the reason that a container gave for its failure.
func failureReason(message string, isJSON bool, last string, redact func(string) string) string {
	if r, err := decodeTerminationMessage(message); isJSON && err == nil {
		message = r.Message
	}
	// Redacted as a whole, because a secret may span several lines.
	lines := strings.FieldsFunc(redact(message), func(r rune) bool { return r == '\n' || r == '\r' })
	for _, line := range slices.Backward(lines) {
		if line = strings.TrimSpace(line); line != "" {
			return ": " + line
		}
	}
	if last = strings.TrimSpace(last); last != "" {
		return ": " + last
	}
	return " without saying why"
}
