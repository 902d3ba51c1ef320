// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package action

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/tombstone"
)

func TestPlatformAction_Execute(t *testing.T) {
	core := func(resource string) schema.GroupVersionResource {
		return schema.GroupVersionResource{Version: "v1", Resource: resource}
	}
	in := func(group, resource string) schema.GroupVersionResource {
		return schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}
	}
	const (
		rbac = "rbac.authorization.k8s.io"
		apf  = "flowcontrol.apiserver.k8s.io"
	)
	skipped := itemaction.Result{Skip: "the control plane of the cluster creates it"}
	cases := map[string]Case{}
	for name, c := range map[string]struct {
		resource schema.GroupVersionResource
		object   string
	}{
		"CA of the cluster":           {core("configmaps"), `{"metadata":{"name":"kube-root-ca.crt","namespace":"shop"}}`},
		"CA of the front proxy":       {core("configmaps"), `{"metadata":{"name":"extension-apiserver-authentication","namespace":"kube-system"}}`},
		"tracking of tokens":          {core("configmaps"), `{"metadata":{"name":"kube-apiserver-legacy-service-account-token-tracking","namespace":"kube-system"}}`},
		"Service of the API server":   {core("services"), `{"metadata":{"name":"kubernetes","namespace":"default"}}`},
		"Endpoints of the API server": {core("endpoints"), `{"metadata":{"name":"kubernetes","namespace":"default"}}`},
		"slice of the API server":     {in("discovery.k8s.io", "endpointslices"), `{"metadata":{"name":"kubernetes","namespace":"default"}}`},
		"addresses of the cluster":    {in("networking.k8s.io", "servicecidrs"), `{"metadata":{"name":"kubernetes"}}`},
		"ClusterRole":                 {in(rbac, "clusterroles"), `{"metadata":{"name":"admin","labels":{"kubernetes.io/bootstrapping":"rbac-defaults"},"annotations":{"rbac.authorization.kubernetes.io/autoupdate":"true"}}}`},
		"ClusterRoleBinding":          {in(rbac, "clusterrolebindings"), `{"metadata":{"name":"cluster-admin","labels":{"kubernetes.io/bootstrapping":"rbac-defaults"}}}`},
		"Role":                        {in(rbac, "roles"), `{"metadata":{"name":"r","labels":{"kubernetes.io/bootstrapping":"rbac-defaults"}}}`},
		"RoleBinding":                 {in(rbac, "rolebindings"), `{"metadata":{"name":"r","labels":{"kubernetes.io/bootstrapping":"rbac-defaults"}}}`},
		"PriorityClass":               {in("scheduling.k8s.io", "priorityclasses"), `{"metadata":{"name":"system-node-critical"}}`},
		"FlowSchema":                  {in(apf, "flowschemas"), `{"metadata":{"name":"exempt","annotations":{"apf.kubernetes.io/autoupdate-spec":"true"}}}`},
		"PriorityLevel":               {in(apf, "prioritylevelconfigurations"), `{"metadata":{"name":"exempt","annotations":{"apf.kubernetes.io/autoupdate-spec":"true"}}}`},
	} {
		cases["left out: "+name] = Case{Resource: c.resource, Archived: c.object, Result: skipped}
	}
	for name, c := range map[string]struct {
		resource schema.GroupVersionResource
		object   string
	}{
		"ConfigMap of that name elsewhere": {core("configmaps"), `{"metadata":{"name":"extension-apiserver-authentication","namespace":"shop"}}`},
		"Service of that name elsewhere":   {core("services"), `{"metadata":{"name":"kubernetes","namespace":"shop"}}`},
		"addresses of the user":            {in("networking.k8s.io", "servicecidrs"), `{"metadata":{"name":"more"}}`},
		"ClusterRole taken over":           {in(rbac, "clusterroles"), `{"metadata":{"name":"admin","labels":{"kubernetes.io/bootstrapping":"rbac-defaults"},"annotations":{"rbac.authorization.kubernetes.io/autoupdate":"false"}}}`},
		"ClusterRole of the user":          {in(rbac, "clusterroles"), `{"metadata":{"name":"system:mine"}}`},
		"PriorityClass of the user":        {in("scheduling.k8s.io", "priorityclasses"), `{"metadata":{"name":"gold"}}`},
		"FlowSchema taken over":            {in(apf, "flowschemas"), `{"metadata":{"name":"x","annotations":{"apf.kubernetes.io/autoupdate-spec":"false"}}}`},
	} {
		cases["restored: "+name] = Case{Resource: c.resource, Archived: c.object, Want: c.object}
	}
	cases["left out: what Grapnel has seen"] = Case{
		Resource: core("configmaps"), Archived: `{"metadata":{"name":"main-seen-backups","namespace":"g","labels":{"` + tombstone.LabelLocation + `":"main"}},"data":{"a":"b"}}`,
		Result: itemaction.Result{Skip: "it records which backups the old cluster had seen"},
	}
	for _, resource := range []string{"validatingadmissionpolicies", "validatingadmissionpolicybindings"} {
		policy := func(more string) Case {
			return Case{Resource: in("admissionregistration.k8s.io", resource), Archived: `{"metadata":{` + more + `},"spec":{"a":"b"}}`}
		}
		theirs := policy(`"name":"replicas"`)
		theirs.Want = theirs.Archived
		cases["restored: one of the user's "+resource] = theirs
		for name, c := range map[string]Case{
			"by its name": policy(`"name":"grapnel-status"`), "by its label": policy(`"name":"x-status","labels":{"app.kubernetes.io/name":"grapnel"}`),
		} {
			c.Result = itemaction.Result{Skip: "it is part of the installation of Grapnel"}
			cases["left out: one of Grapnel's "+resource+" "+name] = c
		}
	}
	for _, resource := range []schema.GroupVersionResource{
		in(rbac, "clusterroles"), in(rbac, "clusterrolebindings"), in(rbac, "roles"), in(rbac, "rolebindings"),
		in("apps", "deployments"), in("apps", "replicasets"), core("pods"), core("persistentvolumeclaims"), core("serviceaccounts"),
		core("services"), in("networking.k8s.io", "networkpolicies"), in("policy", "poddisruptionbudgets"),
	} {
		cases["left out: Grapnel's "+resource.Resource] = Case{
			Resource: resource, Archived: `{"metadata":{"name":"x","namespace":"g","labels":{"app.kubernetes.io/name":"grapnel"}}}`,
			Result: itemaction.Result{Skip: "it is part of the installation of Grapnel"},
		}
		const theirs = `{"metadata":{"name":"grapnel-x","namespace":"g","labels":{"app.kubernetes.io/name":"other"}}}`
		cases["restored: the user's "+resource.Resource] = Case{Resource: resource, Archived: theirs, Want: theirs}
	}
	cases["a lock is restored free"] = Case{
		Resource: core("configmaps"),
		Archived: `{"metadata":{"name":"lock","namespace":"a","annotations":{"control-plane.alpha.kubernetes.io/leader":"{}","x":"y"}},"data":{"a":"b"}}`,
		Want:     `{"metadata":{"name":"lock","namespace":"a","annotations":{"x":"y"}},"data":{"a":"b"}}`,
	}
	RunCases(t, NewPlatformAction(), cases)
}
