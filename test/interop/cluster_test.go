// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"
	vdiscovery "github.com/vmware-tanzu/velero/pkg/discovery"
	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
	kdiscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/grapnel-dev/grapnel/internal/discovery"
)

// served describes one resource of the cluster both sides look at, as
// "plural Kind scope short,short verbs" where scope is ns or cluster, short
// names may be "-" and verbs may be missing for all of them.
type served string

type groupVersion struct {
	group, version string
	resources      []served
}

// cluster has what makes name resolution and selection interesting: resources
// served by two groups, by several versions, in a version that is not the
// preferred one, without some of the verbs, and with the same name in
// different groups.
var cluster = []groupVersion{
	{"", "v1", []served{
		"bindings Binding ns - create",
		"componentstatuses ComponentStatus cluster cs get,list",
		"configmaps ConfigMap ns cm",
		"events Event ns ev",
		"namespaces Namespace cluster ns",
		"nodes Node cluster no",
		"persistentvolumeclaims PersistentVolumeClaim ns pvc",
		"persistentvolumes PersistentVolume cluster pv",
		"pods Pod ns po",
		"secrets Secret ns -",
		"serviceaccounts ServiceAccount ns sa",
		"services Service ns svc",
	}},
	{"apps", "v1", []served{
		"daemonsets DaemonSet ns ds",
		"deployments Deployment ns deploy",
		"replicasets ReplicaSet ns rs",
		"statefulsets StatefulSet ns sts",
	}},
	{"extensions", "v1beta1", []served{
		"deployments Deployment ns deploy",
		"networkpolicies NetworkPolicy ns netpol",
	}},
	{"networking.k8s.io", "v1", []served{
		"ingressclasses IngressClass cluster -",
		"ingresses Ingress ns ing",
		"networkpolicies NetworkPolicy ns netpol",
	}},
	{"events.k8s.io", "v1", []served{"events Event ns ev"}},
	{"autoscaling", "v2", []served{"horizontalpodautoscalers HorizontalPodAutoscaler ns hpa"}},
	{"autoscaling", "v1", []served{"horizontalpodautoscalers HorizontalPodAutoscaler ns hpa"}},
	{"authentication.k8s.io", "v1", []served{"tokenreviews TokenReview cluster - create"}},
	{"rbac.authorization.k8s.io", "v1", []served{
		"clusterrolebindings ClusterRoleBinding cluster -",
		"clusterroles ClusterRole cluster -",
		"rolebindings RoleBinding ns -",
		"roles Role ns -",
	}},
	{"storage.k8s.io", "v1", []served{
		"csinodes CSINode cluster -",
		"storageclasses StorageClass cluster sc",
		"volumeattachments VolumeAttachment cluster -",
	}},
	{"apiextensions.k8s.io", "v1", []served{"customresourcedefinitions CustomResourceDefinition cluster crd,crds"}},
	{"snapshot.storage.k8s.io", "v1", []served{
		"volumesnapshotclasses VolumeSnapshotClass cluster vsclass",
		"volumesnapshotcontents VolumeSnapshotContent cluster vsc",
		"volumesnapshots VolumeSnapshot ns vs",
	}},
	{"velero.io", "v1", []served{
		"backups Backup ns -",
		"restores Restore ns -",
		"schedules Schedule ns -",
	}},
	{"grapnel.dev", "v1alpha1", []served{
		"backups Backup ns -",
		"hookruns HookRun ns -",
		"plugins Plugin cluster -",
	}},
	{"example.com", "v2", []served{"widgets Widget ns wd"}},
	{"example.com", "v1", []served{
		"gadgets Gadget ns gd",
		"gizmos Gizmo cluster gz",
		"widgets Widget ns wd",
	}},
	{"example.org", "v1", []served{"pods PodOfWhales cluster po"}},
}

// clients are the two views of the same cluster.
type clients struct {
	velero  vdiscovery.Helper
	grapnel *discovery.Resources
	log     logrus.FieldLogger
}

func newClients(t *testing.T) *clients {
	t.Helper()
	server := httptest.NewServer(apiServer(t))
	t.Cleanup(server.Close)
	client, err := kdiscovery.NewDiscoveryClientForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatalf("making a discovery client: %v", err)
	}
	log := logrus.New()
	log.SetOutput(io.Discard)
	helper, err := vdiscovery.NewHelper(client, log)
	if err != nil {
		t.Fatalf("discovering with Velero: %v", err)
	}
	resources, err := discovery.Discover(t.Context(), client)
	if err != nil {
		t.Fatalf("discovering with Grapnel: %v", err)
	}
	return &clients{velero: helper, grapnel: resources, log: log}
}

// apiServer serves aggregated discovery of the cluster, and its version.
func apiServer(t *testing.T) http.Handler {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/version", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(t, w, "application/json", version.Info{Major: "1", Minor: "36", GitVersion: "v1.36.3"})
	})
	const kind = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	for path, core := range map[string]bool{"/api": true, "/apis": false} {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			writeJSON(t, w, kind, aggregated(core))
		})
	}
	return mux
}

func writeJSON(t *testing.T, w http.ResponseWriter, contentType string, v any) {
	w.Header().Set("Content-Type", contentType)
	if err := json.NewEncoder(w).Encode(v); err != nil {
		t.Errorf("answering: %v", err)
	}
}

func aggregated(core bool) apidiscovery.APIGroupDiscoveryList {
	list := apidiscovery.APIGroupDiscoveryList{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroupDiscoveryList", APIVersion: "apidiscovery.k8s.io/v2"},
	}
	for _, gv := range cluster {
		if (gv.group == "") != core {
			continue
		}
		v := apidiscovery.APIVersionDiscovery{Version: gv.version, Freshness: apidiscovery.DiscoveryFreshnessCurrent}
		for _, r := range gv.resources {
			v.Resources = append(v.Resources, r.discovery(gv))
		}
		last := len(list.Items) - 1
		if last < 0 || list.Items[last].Name != gv.group {
			list.Items = append(list.Items, apidiscovery.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: gv.group}})
			last++
		}
		list.Items[last].Versions = append(list.Items[last].Versions, v)
	}
	return list
}

func (s served) discovery(gv groupVersion) apidiscovery.APIResourceDiscovery {
	fields := strings.Fields(string(s))
	r := apidiscovery.APIResourceDiscovery{
		Resource:         fields[0],
		ResponseKind:     &metav1.GroupVersionKind{Group: gv.group, Version: gv.version, Kind: fields[1]},
		SingularResource: strings.ToLower(fields[1]),
		Scope:            apidiscovery.ScopeCluster,
		Verbs:            []string{"create", "delete", "get", "list", "patch", "update", "watch"},
	}
	if fields[2] == "ns" {
		r.Scope = apidiscovery.ScopeNamespace
	}
	if fields[3] != "-" {
		r.ShortNames = strings.Split(fields[3], ",")
	}
	if len(fields) > 4 {
		r.Verbs = strings.Split(fields[4], ",")
	}
	if fields[0] == "pods" {
		r.Subresources = []apidiscovery.APISubresourceDiscovery{{
			Subresource:  "log",
			ResponseKind: r.ResponseKind,
			Verbs:        []string{"create", "delete", "get", "list"},
		}}
	}
	return r
}
