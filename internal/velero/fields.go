// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package velero

// BackupFields returns the fields of a Backup's spec that have the same meaning in Velero,
// for PickFields.
func BackupFields() []string {
	return []string{
		"includedNamespaces", "excludedNamespaces", "includedResources", "excludedResources", "includeClusterResources",
		"includedClusterScopedResources", "excludedClusterScopedResources",
		"includedNamespaceScopedResources", "excludedNamespaceScopedResources",
		"labelSelector", "orLabelSelectors", "orderedResources", "storageLocation", "ttl", "itemOperationTimeout", "metadata",
	}
}

// RestoreFields is BackupFields for a Restore. A Restore of a schedule has no backupName.
func RestoreFields() []string {
	return []string{
		"scheduleName", "includedNamespaces", "excludedNamespaces", "includedResources", "excludedResources", "namespaceMapping",
		"labelSelector", "orLabelSelectors", "restoreStatus", "preserveNodePorts", "includeClusterResources",
		"existingResourcePolicy", "itemOperationTimeout", "resourceModifier",
	}
}
