// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package podexec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/sdk/hook"
)

// MaxRequestBytes is the maximum size of the input of a command.
const MaxRequestBytes = 1 << 20

// requestVersion is the version of the request that the package comment describes.
const requestVersion = 1

// request is the input of a command.
type request struct {
	Version       int                          `json:"version"`
	Key           string                       `json:"key"`
	Attempt       int32                        `json:"attempt"`
	Point         string                       `json:"point"`
	Action        string                       `json:"action"`
	Pod           podReference                 `json:"pod"`
	Parameters    map[string]string            `json:"parameters,omitempty"`
	Outputs       map[string]map[string]string `json:"outputs,omitempty"`
	BackupName    string                       `json:"backupName,omitempty"`
	BackupOutputs map[string]map[string]string `json:"backupOutputs,omitempty"`
}

type podReference struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Container string `json:"container"`
}

// encodeRequest returns the input of a command: one line.
func encodeRequest(call executor.Call, pod podReference) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	// Commands that are shell scripts find "<" easier to read than \u003c.
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(request{
		Version: requestVersion, Key: call.Key, Attempt: call.Attempt, Point: call.Point, Action: call.Action, Pod: pod,
		Parameters: call.Parameters, Outputs: call.Outputs,
		BackupName: call.BackupName, BackupOutputs: call.BackupOutputs,
	})
	return out.Bytes(), err
}

// validateCall rejects a call that cannot be passed to any command.
func validateCall(call executor.Call) error {
	switch {
	case call.Key == "":
		return errors.New("the call has no idempotency key")
	case call.Attempt < 1:
		return fmt.Errorf("the call has attempt number %d, attempts are counted from 1", call.Attempt)
	}
	if err := hook.ValidateParameters(call.Parameters); err != nil {
		return err
	}
	if err := validateOutputs(call.Outputs, "the outputs of"); err != nil {
		return err
	}
	if err := validateOutputs(call.BackupOutputs, "the backup's outputs of"); err != nil {
		return err
	}
	line, err := encodeRequest(call, podReference{})
	if err == nil && len(line) > MaxRequestBytes {
		err = fmt.Errorf("the parameters and the outputs of earlier actions have %d bytes together, at most %d can be passed to a command",
			len(line), MaxRequestBytes)
	}
	return err
}

func validateOutputs(outputs map[string]map[string]string, what string) error {
	for _, name := range slices.Sorted(maps.Keys(outputs)) {
		if err := hook.ValidateOutputs(outputs[name]); err != nil {
			return fmt.Errorf("%s %q: %w", what, name, err)
		}
	}
	return nil
}
