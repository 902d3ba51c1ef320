// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Limits of requests and responses. Outputs are stored in the status of a Kubernetes object
// and in the archive, which is why they are small: store larger data elsewhere and return a
// reference.
const (
	// MaxOutputs is the largest number of outputs of one action.
	MaxOutputs = 32
	// MaxOutputKeyLength is the largest length of an output's key in bytes. A key
	// consists of letters, digits, "-", "_" and ".".
	MaxOutputKeyLength = 63
	// MaxOutputValueBytes is the largest size of one output's value: what the status of a
	// HookRun accepts.
	MaxOutputValueBytes = 4096
	// MaxOutputBytes is the largest size of all keys and values of one action's
	// outputs together.
	MaxOutputBytes = 8 << 10
	// MaxMessageBytes is the largest size of Response.Message; longer messages are
	// truncated.
	MaxMessageBytes = 1 << 10
	// MaxParameterBytes is the largest size of all keys and values of
	// Request.Parameters together.
	MaxParameterBytes = 64 << 10
	// MaxSubjectBytes is the largest size of Backup.Raw and Restore.Raw. The API server accepts
	// objects of about 1.5 MiB.
	MaxSubjectBytes = 3 << 20
)

// ValidateOutputs returns an error that names the limit that outputs exceed, or nil.
func ValidateOutputs(outputs map[string]string) error {
	if len(outputs) > MaxOutputs {
		return fmt.Errorf("%d outputs, at most %d are allowed", len(outputs), MaxOutputs)
	}
	valid := regexp.MustCompile(`^[A-Za-z0-9._-]+$`)
	for _, key := range slices.Sorted(maps.Keys(outputs)) {
		if len(key) > MaxOutputKeyLength {
			return fmt.Errorf("an output's key has %d bytes, at most %d are allowed", len(key), MaxOutputKeyLength)
		}
		if !valid.MatchString(key) {
			return fmt.Errorf("the output's key %q is not allowed: use letters, digits, '-', '_' and '.'", key)
		}
		if size := len(outputs[key]); size > MaxOutputValueBytes {
			return fmt.Errorf("the output %q has %d bytes, at most %d are allowed: store it elsewhere and return a reference",
				key, size, MaxOutputValueBytes)
		}
		if !utf8.ValidString(outputs[key]) {
			return fmt.Errorf("the output %q is not UTF-8: encode it, for example in base64", key)
		}
	}
	if size := totalBytes(outputs); size > MaxOutputBytes {
		return fmt.Errorf("%d bytes of outputs, at most %d are allowed: store large values elsewhere and return a reference",
			size, MaxOutputBytes)
	}
	return nil
}

// ValidateParameters returns an error that names the limit that parameters exceed, or nil.
func ValidateParameters(parameters map[string]string) error {
	if size := totalBytes(parameters); size > MaxParameterBytes {
		return fmt.Errorf("%d bytes of parameters, at most %d are allowed", size, MaxParameterBytes)
	}
	for key, value := range parameters {
		if !utf8.ValidString(key) || !utf8.ValidString(value) {
			return fmt.Errorf("the parameter %q is not UTF-8", strings.ToValidUTF8(key, "?"))
		}
	}
	return nil
}

func totalBytes(m map[string]string) int {
	size := 0
	for key, value := range m {
		size += len(key) + len(value)
	}
	return size
}
