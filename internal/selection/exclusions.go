// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package selection

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	// VeleroExcludeLabel on an object, with the value "true", keeps it out of
	// every backup; on a Namespace it keeps out everything in it.
	VeleroExcludeLabel = "velero.io/exclude-from-backup"
	// GrapnelExcludeLabel means the same as VeleroExcludeLabel.
	GrapnelExcludeLabel = "grapnel.dev/exclude-from-backup"
)

// IsExcludedByLabel reports whether an object with these labels is kept out of
// every backup. Only the value "true" counts, as in Velero.
func IsExcludedByLabel(labels map[string]string) bool {
	return labels[VeleroExcludeLabel] == "true" || labels[GrapnelExcludeLabel] == "true"
}

// IsNeverArchived reports whether items of a resource are records of a run of
// Grapnel or Velero. Archiving them would let a restore start old runs again,
// so they are left out whatever the Spec says.
//
// Velero's DataUploads are not among them although they record a run too:
// Velero's own data mover reads them from the archive when it restores.
func IsNeverArchived(gr schema.GroupResource) bool {
	switch gr.Group {
	case "grapnel.dev":
		switch gr.Resource {
		case "backups", "restores", "hookruns", "asyncoperations", "deletionruns":
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

// isVolumeSnapshot reports whether a resource is a by-product of taking a volume
// snapshot. Velero leaves these out of every collection; those that a plugin
// creates for this very backup reach the archive because the plugin insists.
func isVolumeSnapshot(gr schema.GroupResource) bool {
	return gr.Group == "snapshot.storage.k8s.io" &&
		(gr.Resource == "volumesnapshots" || gr.Resource == "volumesnapshotcontents")
}

// namespaceResource is the one cluster-scoped resource with rules of its own.
var namespaceResource = schema.GroupResource{Resource: "namespaces"}
