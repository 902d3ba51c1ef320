// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/diagnosis"
)

// fakeCluster is an API server with fixed answers.
type fakeCluster struct {
	// answers are the answers to GET requests by path; nil is 404. Other requests are forbidden.
	answers map[string]any
	// created are the names of objects that may be created, by path. Their watches return the answer for the object.
	created map[string]string
	// files are the files of runs, by kind and name, as in "BackupLog/backup-1".
	files map[string]string
}

const (
	grapnelPath    = "/apis/grapnel.dev/v1alpha1"
	namespacedPath = grapnelPath + "/namespaces/" + defaultNamespace
	corePath       = "/api/v1/namespaces/" + defaultNamespace
)

// object is an object, or a list, as JSON.
type object = map[string]any

func newList(kind string, gv schema.GroupVersion, items ...any) object {
	return object{"apiVersion": gv.String(), "kind": kind + "List", "items": append([]any{}, items...)}
}

func newAPIs(gv schema.GroupVersion, names ...string) object {
	resources := []any{}
	for _, name := range names {
		resources = append(resources, object{"name": name, "kind": name, "verbs": []string{"create", "get", "list"}})
	}
	return object{"apiVersion": "v1", "kind": "APIResourceList", "groupVersion": gv.String(), "resources": resources}
}

func newGroup(gv schema.GroupVersion) object {
	version := object{"groupVersion": gv.String(), "version": gv.Version}
	return object{"name": gv.Group, "versions": []any{version}, "preferredVersion": version}
}

// newFakeCluster returns a cluster with a good installation, all of which a user may read but Plugins.
func newFakeCluster() *fakeCluster {
	var names []string
	for _, r := range diagnosis.KnownResources() {
		names = append(names, r.Name)
	}
	f := &fakeCluster{files: map[string]string{}, answers: map[string]any{
		"/version":  object{"gitVersion": "v1.37.0"},
		"/api":      object{"kind": "APIVersions", "versions": []string{"v1"}},
		"/api/v1":   newAPIs(corev1.SchemeGroupVersion, "pods"),
		"/apis":     object{"kind": "APIGroupList", "apiVersion": "v1", "groups": []any{newGroup(v1alpha1.GroupVersion)}},
		grapnelPath: newAPIs(v1alpha1.GroupVersion, names...),
		namespacedPath + "/backupstoragelocations": newList("BackupStorageLocation", v1alpha1.GroupVersion, object{
			"metadata": object{"name": "main"}, "spec": object{"default": true},
			"status": object{"conditions": []any{object{"type": "Available", "status": "True"}}},
		}),
		"/apis/apps/v1/namespaces/grapnel-system/deployments": newList("Deployment", appsv1.SchemeGroupVersion, object{
			"metadata": object{"name": "grapnel-controller-manager"}, "status": object{"availableReplicas": 1},
			"spec": object{"template": object{"spec": object{"containers": []any{object{"name": "manager", "image": "example.com/grapnel:v1.2.3"}}}}},
		}),
		"/apis/coordination.k8s.io/v1/namespaces/grapnel-system/leases/operator.grapnel.dev": object{
			"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": object{"name": "operator.grapnel.dev"},
			"spec": object{"holderIdentity": "pod-a", "leaseDurationSeconds": 15, "renewTime": metav1.NowMicro()},
		},
		corePath + "/services/grapnel-downloads": object{"apiVersion": "v1", "kind": "Service", "metadata": object{"name": "grapnel-downloads"}},
	}}
	for _, r := range diagnosis.KnownResources() {
		if _, exists := f.answers[namespacedPath+"/"+r.Name]; !exists && r.Kind != "Plugin" {
			f.answers[namespacedPath+"/"+r.Name] = newList(r.Kind, v1alpha1.GroupVersion)
		}
	}
	for _, kind := range []string{"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"} {
		var items []any
		for _, name := range diagnosis.PolicyNames() {
			items = append(items, object{"metadata": object{"name": name}, "spec": object{"policyName": name, "validationActions": []string{"Deny"}}})
		}
		gv := schema.GroupVersion{Group: "admissionregistration.k8s.io", Version: "v1"}
		plural := strings.Replace(strings.ToLower(kind)+"s", "policys", "policies", 1)
		f.answers["/apis/"+gv.String()+"/"+plural] = newList(kind, gv, items...)
	}
	return f
}

// ServeHTTP implements http.Handler.
func (f *fakeCluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	reply := func(code int, answer any) {
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(answer)
	}
	requests := namespacedPath + "/downloadrequests"
	_, file, isDownload := strings.Cut(r.URL.Path, "/services/https:grapnel-downloads:https/proxy/")
	answer, exists := f.answers[r.URL.Path]
	switch {
	case r.URL.Path == requests && r.Method == http.MethodPost:
		var d v1alpha1.DownloadRequest
		_ = json.NewDecoder(r.Body).Decode(&d)
		d.Name = string(d.Spec.Target.Kind) + "." + d.Spec.Target.Name
		reply(http.StatusCreated, d)
	case r.URL.Path == requests && r.URL.Query().Has("watch"):
		name := strings.TrimPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name=")
		reply(http.StatusOK, object{"type": "MODIFIED", "object": object{
			"apiVersion": v1alpha1.GroupVersion.String(), "kind": "DownloadRequest", "metadata": object{"name": name},
			"status": object{"phase": "Ready", "path": "/" + strings.Replace(name, ".", "/", 1)},
		}})
	case f.created[r.URL.Path] != "" && r.Method == http.MethodPost:
		reply(http.StatusCreated, object{
			"apiVersion": v1alpha1.GroupVersion.String(), "kind": "Restore", "metadata": object{"name": f.created[r.URL.Path], "namespace": defaultNamespace},
		})
	case f.created[r.URL.Path] != "" && r.URL.Query().Has("watch"):
		reply(http.StatusOK, object{"type": "MODIFIED", "object": f.answers[r.URL.Path+"/"+f.created[r.URL.Path]]})
	case isDownload && f.files[file] == "":
		http.Error(w, "there is no such file", http.StatusNotFound)
	case isDownload, strings.HasSuffix(r.URL.Path, "/log"):
		_, _ = w.Write([]byte(f.files[file] + f.files[path.Base(path.Dir(r.URL.Path))+r.URL.Query().Get("previous")]))
	case r.Method == http.MethodDelete:
		reply(http.StatusOK, metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess})
	case exists && answer != nil:
		reply(http.StatusOK, answer)
	case exists:
		reply(http.StatusNotFound, apierrors.NewNotFound(schema.GroupResource{}, path.Base(r.URL.Path)).Status())
	default:
		reply(http.StatusForbidden, apierrors.NewForbidden(schema.GroupResource{Resource: path.Base(r.URL.Path)}, "", errors.New("no")).Status())
	}
}

// run runs a command line against the cluster.
func (f *fakeCluster) run(t *testing.T, version string, args ...string) (code int, out, errOut string) {
	t.Helper()
	t.Setenv("KUBECONFIG", "/dev/null")
	server := httptest.NewServer(f)
	defer server.Close()
	var stdout, stderr bytes.Buffer
	streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: &stdout, ErrOut: &stderr}
	code = Run(t.Context(), streams, version, append([]string{"--server", server.URL}, args...))
	return code, stdout.String(), stderr.String()
}

// timeAgo returns a time as JSON has it.
func timeAgo(d time.Duration) string { return time.Now().Add(-d).UTC().Format(time.RFC3339) }

// compareGolden compares a text with a file in testdata. With GRAPNEL_UPDATE_GOLDEN set, it writes the file.
func compareGolden(t *testing.T, name, text string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if os.Getenv("GRAPNEL_UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), text); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}
