// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package selection

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	// VeleroExcludeLabel on an object, with the value "true", excludes it from every
	// backup; on a Namespace it excludes everything in it.
	VeleroExcludeLabel = "velero.io/exclude-from-backup"
	// GrapnelExcludeLabel means the same as VeleroExcludeLabel.
	GrapnelExcludeLabel = "grapnel.dev/exclude-from-backup"
)

// IsExcludedByLabel reports whether an object with these labels is excluded from every
// backup. Only the value "true" counts, as in Velero.
func IsExcludedByLabel(labels map[string]string) bool {
	return labels[VeleroExcludeLabel] == "true" || labels[GrapnelExcludeLabel] == "true"
}

// IsNeverArchived reports whether items of a resource are records of a run of Grapnel or
// Velero. If they were archived, a restore could start old runs again, so every Spec
// excludes them.
//
// Velero's DataUploads are not among them although they also record a run: Velero's own
// data mover reads them from the archive when it restores.
func IsNeverArchived(gr schema.GroupResource) bool {
	switch gr.Group {
	case "grapnel.dev":
		switch gr.Resource {
		case "backups", "restores", "hookruns", "asyncoperations", "deletionruns", "downloadrequests", "backuppreviews":
			return true
		}
	case "velero.io":
		switch gr.Resource {
		case "backups", "restores", "deletebackuprequests", "downloadrequests", "serverstatusrequests",
			"podvolumebackups", "podvolumerestores", "datadownloads":
			return true
		}
	}
	return false
}

// isVolumeSnapshot reports whether a resource is a by-product of a volume snapshot. Velero
// excludes those of single volumes from every collection. Those that a plugin creates for this backup are
// archived because the plugin requests it.
func isVolumeSnapshot(gr schema.GroupResource) bool {
	switch gr.Group {
	case "snapshot.storage.k8s.io":
		return gr.Resource == "volumesnapshots" || gr.Resource == "volumesnapshotcontents"
	case "groupsnapshot.storage.k8s.io":
		return gr.Resource == "volumegroupsnapshots" || gr.Resource == "volumegroupsnapshotcontents"
	}
	return false
}

// namespaceResource is the only cluster-scoped resource with special rules.
var namespaceResource = schema.GroupResource{Resource: "namespaces"}
