// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/grapnel-dev/grapnel/internal/rawclient"
)

// object is an object of the fake cluster, in the form of its JSON.
type object map[string]any

// obj returns an object with a name and, after it, fields to add or replace.
func obj(namespace, name string, fields ...object) object {
	meta := object{"name": name, "uid": "uid-" + namespace + "-" + name}
	if namespace != "" {
		meta["namespace"] = namespace
	}
	o := object{"metadata": meta}
	for _, f := range fields {
		for key, value := range f {
			if key == "metadata" {
				maps.Copy(meta, value.(object))
				continue
			}
			o[key] = value
		}
	}
	return o
}

// labelled returns fields with labels, given as key and value in turn.
func labelled(pairs ...string) object {
	set := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		set[pairs[i]] = pairs[i+1]
	}
	return object{"metadata": object{"labels": set}}
}

func (o object) meta() map[string]any {
	meta, _ := o["metadata"].(object)
	return meta
}

// kind is a resource type of the fake cluster.
type kind struct {
	gv, resource, kind string
	namespaced         bool
	objects            []object
}

func (k *kind) path() string {
	if strings.Contains(k.gv, "/") {
		return "/apis/" + k.gv
	}
	return "/api/" + k.gv
}

// fakeAPI is an API server with discovery, paged LIST and GET.
type fakeAPI struct {
	kinds []*kind
	// fault, if set, may answer a request instead of the server.
	fault func(w http.ResponseWriter, r *http.Request) (handled bool)
	// pageSize of a LIST, 2 by default.
	pageSize int

	mu    sync.Mutex
	asked []string
}

// cluster starts the server and returns it as the engine sees it.
func (f *fakeAPI) cluster(t *testing.T) Cluster {
	t.Helper()
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	cluster, err := NewCluster(&rest.Config{Host: server.URL}, rawclient.ListOptions{
		PageSize: cmp.Or(f.pageSize, 2),
		Sleep:    func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
	})
	if err != nil {
		t.Fatal(err)
	}
	return cluster
}

// requests counts the requests whose path and query contain part.
func (f *fakeAPI) requests(part string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	count := 0
	for _, asked := range f.asked {
		if strings.Contains(asked, part) {
			count++
		}
	}
	return count
}

func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.asked = append(f.asked, r.URL.RequestURI())
	f.mu.Unlock()
	if f.fault != nil && f.fault(w, r) {
		return
	}
	switch r.URL.Path {
	case "/api":
		answerJSON(w, metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}})
		return
	case "/apis":
		answerJSON(w, f.groups())
		return
	}
	for _, k := range f.kinds {
		if r.URL.Path == k.path() {
			answerJSON(w, f.resources(k.gv))
			return
		}
		if rest, ok := strings.CutPrefix(r.URL.Path, k.path()+"/"); ok && f.serveKind(w, r, k, rest) {
			return
		}
	}
	status(w, http.StatusNotFound, metav1.StatusReasonNotFound, "")
}

// groups is the answer to /apis: the first version of a group is preferred.
func (f *fakeAPI) groups() *metav1.APIGroupList {
	out := &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList"}}
	for _, k := range f.kinds {
		group, version, ok := strings.Cut(k.gv, "/")
		if !ok {
			continue
		}
		i := slices.IndexFunc(out.Groups, func(g metav1.APIGroup) bool { return g.Name == group })
		gv := metav1.GroupVersionForDiscovery{GroupVersion: k.gv, Version: version}
		if i < 0 {
			out.Groups = append(out.Groups, metav1.APIGroup{Name: group, PreferredVersion: gv})
			i = len(out.Groups) - 1
		}
		if !slices.Contains(out.Groups[i].Versions, gv) {
			out.Groups[i].Versions = append(out.Groups[i].Versions, gv)
		}
	}
	return out
}

func (f *fakeAPI) resources(gv string) *metav1.APIResourceList {
	out := &metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList"}, GroupVersion: gv}
	for _, k := range f.kinds {
		if k.gv == gv {
			out.APIResources = append(out.APIResources, metav1.APIResource{
				Name: k.resource, Kind: k.kind, Namespaced: k.namespaced,
				Verbs: metav1.Verbs{"list", "get", "create", "delete"},
			})
		}
	}
	return out
}

// serveKind answers requests below the group version: <resource>[/<name>] or
// namespaces/<namespace>/<resource>[/<name>].
func (f *fakeAPI) serveKind(w http.ResponseWriter, r *http.Request, k *kind, path string) bool {
	parts := strings.Split(path, "/")
	namespace := ""
	if k.namespaced && len(parts) > 2 && parts[0] == "namespaces" {
		namespace, parts = parts[1], parts[2:]
	}
	if parts[0] != k.resource || len(parts) > 2 {
		return false
	}
	var found []object
	for _, o := range k.objects {
		if namespace == "" || o.meta()["namespace"] == namespace {
			found = append(found, o)
		}
	}
	if len(parts) == 2 {
		i := slices.IndexFunc(found, func(o object) bool { return o.meta()["name"] == parts[1] })
		if i < 0 {
			notFound(w, k.resource, parts[1])
		} else {
			answerJSON(w, found[i].typed(k))
		}
		return true
	}
	servePage(w, r, k, found)
	return true
}

// typed returns the object with its apiVersion and kind.
func (o object) typed(k *kind) object {
	out := object{"apiVersion": k.gv, "kind": k.kind}
	maps.Copy(out, o)
	return out
}

// servePage answers a LIST. The continue token is the number of the next object.
func servePage(w http.ResponseWriter, r *http.Request, k *kind, found []object) {
	query := r.URL.Query()
	if selector, err := labels.Parse(query.Get("labelSelector")); err == nil && !selector.Empty() {
		found = slices.DeleteFunc(slices.Clone(found), func(o object) bool {
			set, _ := o.meta()["labels"].(map[string]string)
			return !selector.Matches(labels.Set(set))
		})
	}
	start, _ := strconv.Atoi(query.Get("continue"))
	limit, _ := strconv.Atoi(query.Get("limit"))
	end := min(start+limit, len(found))
	meta := object{"resourceVersion": "100"}
	if end < len(found) {
		meta["continue"] = strconv.Itoa(end)
		if query.Get("labelSelector") == "" {
			meta["remainingItemCount"] = len(found) - end
		}
	}
	items := make([]object, 0, end-start)
	for _, o := range found[start:end] {
		if strings.Contains(k.gv, ".") {
			o = o.typed(k) // as custom resources are
		}
		items = append(items, o)
	}
	answerJSON(w, object{"apiVersion": k.gv, "kind": k.kind + "List", "metadata": meta, "items": items})
}

func answerJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	// Metadata first, as the API server sends it.
	if o, ok := v.(object); ok && o["items"] != nil {
		meta, _ := json.Marshal(o["metadata"])
		items, _ := json.Marshal(o["items"])
		_, _ = fmt.Fprintf(w, `{"kind":%q,"apiVersion":%q,"metadata":%s,"items":%s}`,
			o["kind"], o["apiVersion"], meta, items)
		return
	}
	_ = json.NewEncoder(w).Encode(v)
}

// notFound answers that an object does not exist, as the API server does.
func notFound(w http.ResponseWriter, resource, name string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusNotFound)
	answer := apierrors.NewNotFound(schema.GroupResource{Resource: resource}, name).ErrStatus
	answer.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	_ = json.NewEncoder(w).Encode(answer)
}

// status answers with an error.
func status(w http.ResponseWriter, code int32, reason metav1.StatusReason, token string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(code))
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		ListMeta: metav1.ListMeta{Continue: token},
		Status:   metav1.StatusFailure, Reason: reason, Code: code, Message: string(reason) + " by order",
	})
}
