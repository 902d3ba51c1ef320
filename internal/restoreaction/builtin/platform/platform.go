// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/restoreaction"
	"github.com/grapnel-dev/grapnel/internal/restoreaction/field"
)

// leader is the annotation with the holder of a lock.
const leader = "control-plane.alpha.kubernetes.io/leader"

// noted is the label of what Grapnel notes of backups (package seen). Another cluster, or
// this one in another time, has seen others.
const noted = "grapnel.dev/seen-backups-of"

// own has, by resource, which objects are the platform's.
var own = map[schema.GroupResource]func(*unstructured.Unstructured) bool{
	{Resource: "configmaps"}: ownConfigMap,
	{Resource: "endpoints"}:  apiServerItself,
	{Resource: "services"}:   apiServerItself,

	{Group: "discovery.k8s.io", Resource: "endpointslices"}: apiServerItself,
	{Group: "networking.k8s.io", Resource: "servicecidrs"}:  named("kubernetes"),

	{Group: "rbac.authorization.k8s.io", Resource: "clusterroles"}:        bootstrapped,
	{Group: "rbac.authorization.k8s.io", Resource: "clusterrolebindings"}: bootstrapped,
	{Group: "rbac.authorization.k8s.io", Resource: "roles"}:               bootstrapped,
	{Group: "rbac.authorization.k8s.io", Resource: "rolebindings"}:        bootstrapped,

	{Group: "scheduling.k8s.io", Resource: "priorityclasses"}: named("system-cluster-critical", "system-node-critical"),

	{Group: "flowcontrol.apiserver.k8s.io", Resource: "flowschemas"}:                 kept,
	{Group: "flowcontrol.apiserver.k8s.io", Resource: "prioritylevelconfigurations"}: kept,
}

// installed has, by resource, which objects are those of Grapnel's installation.
var installed = map[schema.GroupResource]func(*unstructured.Unstructured) bool{
	{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicies"}:       ownPolicy,
	{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicybindings"}: ownPolicy,

	{Group: "rbac.authorization.k8s.io", Resource: "clusterroles"}:        labelled,
	{Group: "rbac.authorization.k8s.io", Resource: "clusterrolebindings"}: labelled,
	{Group: "rbac.authorization.k8s.io", Resource: "roles"}:               labelled,
	{Group: "rbac.authorization.k8s.io", Resource: "rolebindings"}:        labelled,

	{Group: "apps", Resource: "deployments"}: labelled,
	{Group: "apps", Resource: "replicasets"}: labelled,

	{Resource: "persistentvolumeclaims"}: labelled,
	{Resource: "pods"}:                   labelled,
	{Resource: "serviceaccounts"}:        labelled,
	{Resource: "services"}:               labelled,

	{Group: "networking.k8s.io", Resource: "networkpolicies"}: labelled,
	{Group: "policy", Resource: "poddisruptionbudgets"}:       labelled,
}

// Action is the action; see New.
type Action struct{}

var _ restoreaction.Action = Action{}

// New returns the action.
func New() Action { return Action{} }

// Name implements restoreaction.Action.
func (Action) Name() string { return "grapnel.dev/platform" }

// AppliesTo implements restoreaction.Action.
func (Action) AppliesTo(resource schema.GroupResource) bool {
	return own[resource] != nil || installed[resource] != nil
}

// Execute implements restoreaction.Action.
func (Action) Execute(_ context.Context, item *restoreaction.Item) (restoreaction.Result, error) {
	if isOwn := own[item.Resource.GroupResource()]; isOwn != nil && isOwn(item.Archived) {
		return restoreaction.Result{Skip: "the control plane of the cluster makes it by itself"}, nil
	}
	if isInstalled := installed[item.Resource.GroupResource()]; isInstalled != nil && isInstalled(item.Archived) {
		return restoreaction.Result{Skip: "it comes with the installation of Grapnel"}, nil
	}
	if _, notes := item.Archived.GetLabels()[noted]; notes && item.Resource.Resource == "configmaps" {
		return restoreaction.Result{Skip: "it says which backups the old cluster had seen"}, nil
	}
	field.Prune(item.Object.Object, []string{"metadata", "annotations"}, leader)
	return restoreaction.Result{}, nil
}

// ownPolicy says whether a policy, or what binds one, is Grapnel's. They name the operator's
// account: those of another installation would keep this one from writing any status.
func ownPolicy(o *unstructured.Unstructured) bool {
	return strings.HasPrefix(o.GetName(), "grapnel-") || labelled(o)
}

// labelled says whether an object has the label of everything that config/ installs. From an
// archive, it would give the operator that restores it the rights and the image of another
// time.
func labelled(o *unstructured.Unstructured) bool {
	return o.GetLabels()["app.kubernetes.io/name"] == "grapnel"
}

func ownConfigMap(o *unstructured.Unstructured) bool {
	switch o.GetName() {
	case "kube-root-ca.crt":
		return true
	case "extension-apiserver-authentication", "kube-apiserver-legacy-service-account-token-tracking":
		return o.GetNamespace() == "kube-system"
	}
	return false
}

// apiServerItself is how pods reach the API server.
func apiServerItself(o *unstructured.Unstructured) bool {
	return o.GetNamespace() == "default" && o.GetName() == "kubernetes"
}

func bootstrapped(o *unstructured.Unstructured) bool {
	return field.Get[string](o.Object, "metadata", "labels", "kubernetes.io/bootstrapping") == "rbac-defaults" &&
		field.Get[string](o.Object, "metadata", "annotations", "rbac.authorization.kubernetes.io/autoupdate") != "false"
}

func kept(o *unstructured.Unstructured) bool {
	return field.Get[string](o.Object, "metadata", "annotations", "apf.kubernetes.io/autoupdate-spec") == "true"
}

func named(names ...string) func(*unstructured.Unstructured) bool {
	return func(o *unstructured.Unstructured) bool {
		for _, name := range names {
			if o.GetName() == name {
				return true
			}
		}
		return false
	}
}
