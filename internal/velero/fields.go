// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package velero

// BackupFields returns the fields of a Backup's spec that mean the same to Velero, for
// Pick.
func BackupFields() []string {
	return []string{
		"includedNamespaces", "excludedNamespaces", "includedResources", "excludedResources", "includeClusterResources",
		"includedClusterScopedResources", "excludedClusterScopedResources",
		"includedNamespaceScopedResources", "excludedNamespaceScopedResources",
		"labelSelector", "orLabelSelectors", "orderedResources", "storageLocation", "ttl", "itemOperationTimeout", "metadata",
	}
}

// RestoreFields is BackupFields for a Restore. Of its backupName a Restore of a schedule
// has none.
func RestoreFields() []string {
	return []string{
		"scheduleName", "includedNamespaces", "excludedNamespaces", "includedResources", "excludedResources", "namespaceMapping",
		"labelSelector", "orLabelSelectors", "restoreStatus", "preserveNodePorts", "includeClusterResources",
		"existingResourcePolicy", "itemOperationTimeout",
	}
}
