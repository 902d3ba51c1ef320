// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/grapnel-dev/grapnel/internal/executor"
)

// MaxFileBytes is the maximum total size of the files of a call: the limit of a Secret
// (corev1.MaxSecretSize).
const MaxFileBytes = corev1.MaxSecretSize

const (
	// filesDirectory is the directory of the files in the container.
	filesDirectory = "/grapnel"

	fileSubject       = "subject.json"
	fileOutputs       = "outputs.json"
	fileBackupOutputs = "backup-outputs.json"
)

// encodeFiles returns the content of the files by name.
func encodeFiles(call executor.Call) (map[string][]byte, error) {
	data := map[string][]byte{fileSubject: call.Subject}
	if len(call.Subject) == 0 {
		data[fileSubject] = []byte("{}")
	}
	for name, outputs := range map[string]map[string]map[string]string{
		fileOutputs: call.Outputs, fileBackupOutputs: call.BackupOutputs,
	} {
		if outputs == nil {
			outputs = map[string]map[string]string{}
		}
		content, err := json.Marshal(outputs)
		if err != nil {
			return nil, fmt.Errorf("encoding %s: %w", name, err)
		}
		data[name] = content
	}
	size := 0
	for _, content := range data {
		size += len(content)
	}
	if size > MaxFileBytes {
		return nil, fmt.Errorf("the object it runs for and the outputs of earlier actions have %d bytes together, at most %d fit into "+
			"the files of a Job: make the object smaller", size, MaxFileBytes)
	}
	return data, nil
}
