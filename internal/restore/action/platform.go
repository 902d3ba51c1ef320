// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
)

// leaderAnnotation is the annotation with the holder of a lock.
const leaderAnnotation = "control-plane.alpha.kubernetes.io/leader"

// tombstoneLabel is the label of Grapnel's records of backups in a location. They are valid
// only for this cluster at this time.
const tombstoneLabel = "grapnel.dev/seen-backups-of"

// platformObjects selects the objects of the platform, by resource.
var platformObjects = map[schema.GroupResource]func(*unstructured.Unstructured) bool{
	{Resource: "configmaps"}: isPlatformConfigMap,
	{Resource: "endpoints"}:  isAPIServerService,
	{Resource: "services"}:   isAPIServerService,

	{Group: "discovery.k8s.io", Resource: "endpointslices"}: isAPIServerService,
	{Group: "networking.k8s.io", Resource: "servicecidrs"}:  hasNameIn("kubernetes"),

	{Group: "rbac.authorization.k8s.io", Resource: "clusterroles"}:        isBootstrapRBAC,
	{Group: "rbac.authorization.k8s.io", Resource: "clusterrolebindings"}: isBootstrapRBAC,
	{Group: "rbac.authorization.k8s.io", Resource: "roles"}:               isBootstrapRBAC,
	{Group: "rbac.authorization.k8s.io", Resource: "rolebindings"}:        isBootstrapRBAC,

	{Group: "scheduling.k8s.io", Resource: "priorityclasses"}: hasNameIn("system-cluster-critical", "system-node-critical"),

	{Group: "flowcontrol.apiserver.k8s.io", Resource: "flowschemas"}:                 isAutoUpdatedFlowControl,
	{Group: "flowcontrol.apiserver.k8s.io", Resource: "prioritylevelconfigurations"}: isAutoUpdatedFlowControl,
}

// installedObjects selects the objects of Grapnel's installation, by resource.
var installedObjects = map[schema.GroupResource]func(*unstructured.Unstructured) bool{
	{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicies"}:       isGrapnelPolicy,
	{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicybindings"}: isGrapnelPolicy,

	{Group: "rbac.authorization.k8s.io", Resource: "clusterroles"}:        hasGrapnelLabel,
	{Group: "rbac.authorization.k8s.io", Resource: "clusterrolebindings"}: hasGrapnelLabel,
	{Group: "rbac.authorization.k8s.io", Resource: "roles"}:               hasGrapnelLabel,
	{Group: "rbac.authorization.k8s.io", Resource: "rolebindings"}:        hasGrapnelLabel,

	{Group: "apps", Resource: "deployments"}: hasGrapnelLabel,
	{Group: "apps", Resource: "replicasets"}: hasGrapnelLabel,

	{Resource: "persistentvolumeclaims"}: hasGrapnelLabel,
	{Resource: "pods"}:                   hasGrapnelLabel,
	{Resource: "serviceaccounts"}:        hasGrapnelLabel,
	{Resource: "services"}:               hasGrapnelLabel,

	{Group: "networking.k8s.io", Resource: "networkpolicies"}: hasGrapnelLabel,
	{Group: "policy", Resource: "poddisruptionbudgets"}:       hasGrapnelLabel,
}

// PlatformAction skips objects that the control plane of every cluster creates and
// updates itself. They cannot be created, because they exist. An update from an archive
// would revert a cluster to the certificates or the roles of another one, perhaps of an
// older version:
//
//	ConfigMap                    kube-root-ca.crt; in kube-system also
//	                             extension-apiserver-authentication and
//	                             kube-apiserver-legacy-service-account-token-tracking
//	Role, ClusterRole, bindings  with kubernetes.io/bootstrapping: rbac-defaults, unless
//	                             rbac.authorization.kubernetes.io/autoupdate is "false":
//	                             then they are the user's
//	PriorityClass                system-cluster-critical, system-node-critical
//	FlowSchema, PriorityLevelConfiguration  with apf.kubernetes.io/autoupdate-spec: "true"
//	Service, Endpoints, EndpointSlice       kubernetes in default
//	ServiceCIDR                  kubernetes
//
// The ServiceAccount default, which every namespace has too, is not among them: users add
// pull secrets to it. The engine merges it, see MergeAccount.
//
// Objects that config/ installs for Grapnel are also skipped, by their label
// app.kubernetes.io/name=grapnel: roles of another time would revoke the permissions of the
// operator during the Restore, and its Deployment would replace the operator. The
// ConfigMaps in which Grapnel records the backups of a location are also skipped: with
// those of another time, removed backups would reappear, or others would never appear.
//
// A ConfigMap or Endpoints used as a lock for a leader election is restored without its
// holder.
type PlatformAction struct{}

var _ itemaction.RestoreAction = PlatformAction{}

// NewPlatformAction returns the action.
func NewPlatformAction() PlatformAction { return PlatformAction{} }

// Name implements itemaction.RestoreAction.
func (PlatformAction) Name() string { return "grapnel.dev/platform" }

// AppliesTo implements itemaction.RestoreAction.
func (PlatformAction) AppliesTo(resource schema.GroupResource) bool {
	return platformObjects[resource] != nil || installedObjects[resource] != nil
}

// Execute implements itemaction.RestoreAction.
func (PlatformAction) Execute(_ context.Context, item *itemaction.RestoreItem) (itemaction.Result, error) {
	if isOwn := platformObjects[item.Resource.GroupResource()]; isOwn != nil && isOwn(item.Archived) {
		return itemaction.Result{Skip: "the control plane of the cluster creates it"}, nil
	}
	if isInstalled := installedObjects[item.Resource.GroupResource()]; isInstalled != nil && isInstalled(item.Archived) {
		return itemaction.Result{Skip: "it is part of the installation of Grapnel"}, nil
	}
	if _, notes := item.Archived.GetLabels()[tombstoneLabel]; notes && item.Resource.Resource == "configmaps" {
		return itemaction.Result{Skip: "it records which backups the old cluster had seen"}, nil
	}
	RemoveKeys(item.Object.Object, []string{"metadata", "annotations"}, leaderAnnotation)
	return itemaction.Result{}, nil
}

// isGrapnelPolicy reports whether a policy or its binding is Grapnel's. They name the
// account of the operator: those of another installation would prevent this one from
// writing any status.
func isGrapnelPolicy(o *unstructured.Unstructured) bool {
	return strings.HasPrefix(o.GetName(), "grapnel-") || hasGrapnelLabel(o)
}

// hasGrapnelLabel reports whether an object has the label of everything that config/
// installs. An object from an archive would give the restoring operator the permissions and
// the image of another time.
func hasGrapnelLabel(o *unstructured.Unstructured) bool {
	return o.GetLabels()["app.kubernetes.io/name"] == "grapnel"
}

func isPlatformConfigMap(o *unstructured.Unstructured) bool {
	switch o.GetName() {
	case "kube-root-ca.crt":
		return true
	case "extension-apiserver-authentication", "kube-apiserver-legacy-service-account-token-tracking":
		return o.GetNamespace() == "kube-system"
	}
	return false
}

// isAPIServerService reports whether an object is the Service by which pods reach the API
// server.
func isAPIServerService(o *unstructured.Unstructured) bool {
	return o.GetNamespace() == "default" && o.GetName() == "kubernetes"
}

func isBootstrapRBAC(o *unstructured.Unstructured) bool {
	return Get[string](o.Object, "metadata", "labels", "kubernetes.io/bootstrapping") == "rbac-defaults" &&
		Get[string](o.Object, "metadata", "annotations", "rbac.authorization.kubernetes.io/autoupdate") != "false"
}

func isAutoUpdatedFlowControl(o *unstructured.Unstructured) bool {
	return Get[string](o.Object, "metadata", "annotations", "apf.kubernetes.io/autoupdate-spec") == "true"
}

func hasNameIn(names ...string) func(*unstructured.Unstructured) bool {
	return func(o *unstructured.Unstructured) bool {
		for _, name := range names {
			if o.GetName() == name {
				return true
			}
		}
		return false
	}
}
