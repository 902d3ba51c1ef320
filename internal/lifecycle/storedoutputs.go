// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	sdkhook "github.com/grapnel-dev/grapnel/sdk/hook"
)

// maxOutputs is how many bytes of outputs of PreBackup actions a status may hold.
const maxOutputs = 256 << 10

// maxOutputSets is how many sets of outputs the API accepts.
const maxOutputSets = 64

// StoredOutputs returns the outputs of the PreBackup actions of a backup, for actions that are
// called for that backup. The outputs come from the bucket, so they are validated: outputs that
// no plugin accepts would fail every call, including owed clean-up.
func StoredOutputs(stored map[string]map[string]string) (map[string]v1alpha1.ParameterSet, error) {
	if len(stored) > maxOutputSets {
		return nil, fmt.Errorf("the manifest of the backup has outputs of %d PreBackup actions; at most %d can be passed to other actions", len(stored), maxOutputSets)
	}
	outputs := map[string]v1alpha1.ParameterSet{}
	for _, name := range slices.Sorted(maps.Keys(stored)) {
		values := stored[name]
		if err := sdkhook.ValidateOutputs(values); err != nil {
			return nil, fmt.Errorf("the outputs of PreBackup action %s in the manifest of the backup cannot be passed to other actions: %w", name, err)
		}
		outputs[name] = v1alpha1.ParameterSet{}
		for k, v := range values {
			outputs[name][k] = v1alpha1.ParameterValue(v)
		}
	}
	if data, err := json.Marshal(outputs); err != nil || len(data) > maxOutputs {
		return nil, fmt.Errorf("the outputs of the PreBackup actions of the backup exceed %d KiB and cannot be passed to other actions", maxOutputs>>10)
	}
	return outputs, nil
}
