// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"bytes"

	"github.com/go-json-experiment/json"

	"github.com/grapnel-dev/grapnel/internal/podhook"
	"github.com/grapnel-dev/grapnel/internal/rawclient"
	"github.com/grapnel-dev/grapnel/internal/results"
)

// recordPodHooks records an archived object if it is a pod whose owner expects commands to run
// before or after the backup, and none do. A later archive of the same backup has only objects of
// operations.
func (c *collection) recordPodHooks(item rawclient.Item) {
	if c.req.RunsPodHooks || c.req.hasOnlyItems() || c.resource.GroupResource() != podResource || !c.resource.Preferred {
		return
	}
	if !bytes.Contains(item.JSON, []byte(podhook.BackupDomain)) {
		return
	}
	var pod struct {
		Metadata struct {
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
		Status struct {
			Phase string `json:"phase"`
		} `json:"status"`
	}
	if json.Unmarshal(item.JSON, &pod) != nil || pod.Status.Phase == "Succeeded" || pod.Status.Phase == "Failed" {
		return // Velero runs nothing in a pod that has ended
	}
	if podhook.HasBackupHook(pod.Metadata.Annotations) {
		c.disabledPods.Add(item.Namespace, item.Name)
	}
}

// reportPodHooks reports the pods whose commands did not run.
func (r *enginePass) reportPodHooks() {
	if warning := r.disabledPods.Warning(); warning != "" {
		r.results.Warn(results.Subject{Resource: podResource.String()}, results.ReasonVeleroHooksNotRun, warning)
	}
}
