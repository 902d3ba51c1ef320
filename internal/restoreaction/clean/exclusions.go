// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package clean

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/selection"
)

// neverRestoredReasons has the resources whose objects are not data but observations, claims
// or requests of the cluster they were taken from. They are archived, for
// people to read, and not restored.
var neverRestoredReasons = map[schema.GroupResource]string{
	{Resource: "nodes"}:                          "the kubelets of this cluster register their own",
	{Resource: "events"}:                         "events tell what happened in the old cluster",
	{Group: "events.k8s.io", Resource: "events"}: "events tell what happened in the old cluster",

	{Group: "storage.k8s.io", Resource: "csinodes"}:             "the kubelets of this cluster register their own",
	{Group: "storage.k8s.io", Resource: "csistoragecapacities"}: "the storage drivers of this cluster measure their own",
	{Group: "storage.k8s.io", Resource: "volumeattachments"}:    "volumes are attached where their pods run now",
	// Its object would have the storage of this cluster take a new one.
	{Group: "snapshot.storage.k8s.io", Resource: "volumesnapshots"}:        "a snapshot is with the storage that took it",
	{Group: "snapshot.storage.k8s.io", Resource: "volumesnapshotcontents"}: "a snapshot is with the storage that took it",

	{Group: "resource.k8s.io", Resource: "resourceslices"}: "the device drivers of this cluster publish their own",

	{Group: "coordination.k8s.io", Resource: "leases"}:          "a lease says who is alive, not who was",
	{Group: "coordination.k8s.io", Resource: "leasecandidates"}: "a lease says who is alive, not who was",
	{Group: "networking.k8s.io", Resource: "ipaddresses"}:       "the API server reserves addresses for the services of this cluster",

	{Group: "internal.apiserver.k8s.io", Resource: "storageversions"}: "the API servers of this cluster publish their own",
	// It would be sent again in the name of whoever restores.
	{Group: "certificates.k8s.io", Resource: "certificatesigningrequests"}: "a request is made by who needs the certificate",
	{Group: "certificates.k8s.io", Resource: "podcertificaterequests"}:     "a request is made by who needs the certificate",

	// Archives are not trusted with the choice of programs that run with the
	// operator's rights (CVE-2026-66798).
	{Group: "grapnel.dev", Resource: "plugins"}: "a Plugin makes the operator run a program, which only an administrator of this cluster may decide",

	{Group: "velero.io", Resource: "backuprepositories"}: "it describes data that its own cluster's Velero keeps",
	{Group: "velero.io", Resource: "resticrepositories"}: "it describes data that its own cluster's Velero keeps",
	{Group: "velero.io", Resource: "datauploads"}:        "it records a run, which would start again",
}

// NeverRestoredReason returns why the objects of a resource are never restored,
// whatever is selected, and an empty string if they are. Which objects of
// other resources are left to the cluster, actions decide one by one.
func NeverRestoredReason(resource schema.GroupResource) string {
	if selection.IsNeverArchived(resource) {
		return "it records a run, which would start again"
	}
	return neverRestoredReasons[resource]
}
