// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backupimport

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/velero"
)

// MaxDuration is the longest duration that the API accepts.
const MaxDuration = 99999 * time.Hour

// specFromManifest returns the known fields of the spec of a backup, or what is wrong with it.
func specFromManifest(stored json.RawMessage, ofGrapnel bool) (spec v1alpha1.BackupSpec, reason string) {
	fields := slices.DeleteFunc(velero.BackupFields(), func(field string) bool { return field == "storageLocation" || field == "ttl" })
	if ofGrapnel {
		fields = append(fields, "parameters")
	}
	picked, err := velero.PickFields(stored, fields)
	if err != nil {
		return spec, "has a spec that cannot be parsed: " + executor.OneLine(err.Error())
	}
	data, err := json.Marshal(picked)
	if err == nil {
		err = json.Unmarshal(data, &spec)
	}
	if err != nil {
		return spec, "has a spec that cannot be parsed: " + executor.OneLine(err.Error())
	}
	if timeout := spec.ItemOperationTimeout; timeout != nil {
		timeout.Duration = timeout.Truncate(time.Millisecond)
		if timeout.Duration <= 0 || timeout.Duration > MaxDuration {
			spec.ItemOperationTimeout = nil
		}
	}
	return spec, ""
}
