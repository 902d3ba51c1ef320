// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/selection"
)

// neverRestoredReasons has the resources whose objects are not data but observations,
// claims or requests of their old cluster. They are archived for users to read, and not
// restored.
var neverRestoredReasons = map[schema.GroupResource]string{
	{Resource: "nodes"}:                          "the kubelets of this cluster register their own",
	{Resource: "events"}:                         "events describe the old cluster",
	{Group: "events.k8s.io", Resource: "events"}: "events describe the old cluster",

	{Group: "storage.k8s.io", Resource: "csinodes"}:             "the kubelets of this cluster register their own",
	{Group: "storage.k8s.io", Resource: "csistoragecapacities"}: "the storage drivers of this cluster measure their own",
	{Group: "storage.k8s.io", Resource: "volumeattachments"}:    "volumes are attached where their pods run now",
	// The object would make the storage of this cluster take a new snapshot.
	{Group: "snapshot.storage.k8s.io", Resource: "volumesnapshots"}:                  "a snapshot stays in the storage that took it",
	{Group: "snapshot.storage.k8s.io", Resource: "volumesnapshotcontents"}:           "a snapshot stays in the storage that took it",
	{Group: "groupsnapshot.storage.k8s.io", Resource: "volumegroupsnapshots"}:        "a snapshot stays in the storage that took it",
	{Group: "groupsnapshot.storage.k8s.io", Resource: "volumegroupsnapshotcontents"}: "a snapshot stays in the storage that took it",

	{Group: "resource.k8s.io", Resource: "resourceslices"}: "the device drivers of this cluster publish their own",

	{Group: "coordination.k8s.io", Resource: "leases"}:          "a lease shows which process is alive now",
	{Group: "coordination.k8s.io", Resource: "leasecandidates"}: "a lease shows which process is alive now",
	{Group: "networking.k8s.io", Resource: "ipaddresses"}:       "the API server reserves addresses for the services of this cluster",

	{Group: "internal.apiserver.k8s.io", Resource: "storageversions"}: "the API servers of this cluster publish their own",
	// The request would be sent again in the name of the restoring user.
	{Group: "certificates.k8s.io", Resource: "certificatesigningrequests"}: "the client that needs a certificate creates the request",
	{Group: "certificates.k8s.io", Resource: "podcertificaterequests"}:     "the client that needs a certificate creates the request",

	// Archives must not decide which programs run with the operator's permissions
	// (CVE-2026-66798).
	{Group: "grapnel.dev", Resource: "plugins"}: "a Plugin makes the operator run a program, which only an administrator of this cluster may allow",

	{Group: "velero.io", Resource: "backuprepositories"}: "it describes data that its own cluster's Velero keeps",
	{Group: "velero.io", Resource: "resticrepositories"}: "it describes data that its own cluster's Velero keeps",
	{Group: "velero.io", Resource: "datauploads"}:        "it records a run, which would start again",
}

// NeverRestoredReason returns why the objects of a resource are never restored, regardless
// of the selection, and an empty string if they are. For objects of other resources, each
// action decides whether the cluster itself creates them.
func NeverRestoredReason(resource schema.GroupResource) string {
	if selection.IsNeverArchived(resource) {
		return "it records a run, which would start again"
	}
	return neverRestoredReasons[resource]
}
