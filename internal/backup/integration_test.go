// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/grapnel-dev/grapnel/internal/archive"
	"github.com/grapnel-dev/grapnel/internal/backup"
	"github.com/grapnel-dev/grapnel/internal/rawclient"
	"github.com/grapnel-dev/grapnel/internal/selection"
	"github.com/grapnel-dev/grapnel/internal/testing/controlplane"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

const rbacGroup = "rbac.authorization.k8s.io"

func resource(group, version, name string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: version, Resource: name}
}

// cluster is a real API server with objects in it.
type cluster struct {
	t      testing.TB
	client dynamic.Interface
	config *rest.Config
}

// plane is the API server of the suite.
var plane *controlplane.ControlPlane

var _ = BeforeSuite(func() {
	var err error
	plane, err = controlplane.Start(context.Background(), controlplane.Options{
		CRDPaths: []string{"testdata/widgets.yaml"},
	})
	Expect(err).NotTo(HaveOccurred())
})

var _ = AfterSuite(func() {
	if plane != nil {
		Expect(plane.Stop()).To(Succeed())
	}
})

func TestEngine(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Backup engine")
}

func newCluster(t testing.TB) *cluster {
	t.Helper()
	config := plane.Config()
	config.QPS = -1
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return &cluster{t: t, client: client, config: config}
}

// create creates an object from its kind, namespace, name and other fields as JSON.
func (c *cluster) create(gvr schema.GroupVersionResource, kind, namespace, name, fields string) {
	c.t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{}}
	if err := json.Unmarshal([]byte(fields), &o.Object); err != nil {
		c.t.Errorf("fields of %s %s/%s: %v", kind, namespace, name, err)
		return
	}
	o.SetAPIVersion(gvr.GroupVersion().String())
	o.SetKind(kind)
	o.SetNamespace(namespace)
	o.SetName(name)
	var target dynamic.ResourceInterface = c.client.Resource(gvr)
	if namespace != "" {
		target = c.client.Resource(gvr).Namespace(namespace)
	}
	if _, err := target.Create(context.Background(), o, metav1.CreateOptions{}); err != nil {
		c.t.Errorf("creating %s %s/%s: %v", kind, namespace, name, err)
	}
}

// fill creates the objects that the tests back up.
func (c *cluster) fill() {
	for _, ns := range []string{"blue", "green"} {
		c.create(resource("", "v1", "namespaces"), "Namespace", "", ns, `{}`)
		var wg sync.WaitGroup
		for worker := range 8 {
			wg.Go(func() {
				defer GinkgoRecover()
				for i := worker; i < 600; i += 8 { // more than a page
					c.create(resource("", "v1", "configmaps"), "ConfigMap", ns, fmt.Sprintf("cm-%04d", i),
						`{"data":{"a":"x\u003c\"y\" ☃ {[","b":"line\nline"}}`)
				}
			})
		}
		wg.Wait()
		c.create(resource("", "v1", "secrets"), "Secret", ns, "large",
			`{"data":{"x":"`+strings.Repeat("QUJD", 349_000)+`"}}`)
		c.create(resource(rbacGroup, "v1", "roles"), "Role", ns, `system:a b\c "d" größe~*?<>|#&+=@!;,'$()[]{}^`+"`", `{}`)
		c.create(resource("apps", "v1", "deployments"), "Deployment", ns, "web", `{"spec":{"selector":{"matchLabels":{"a":"b"}},
			"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"example.org/i"}]}}}}`)
		c.create(resource("example.org", "v1", "widgets"), "Widget", ns, "w", `{"aaa":{"kind":"no"},"spec":{"n":1.50,"s":null}}`)
		c.create(resource("", "v1", "serviceaccounts"), "ServiceAccount", ns, "robot", `{}`)
	}
	c.create(resource("", "v1", "persistentvolumes"), "PersistentVolume", "", "disk",
		`{"spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"],"hostPath":{"path":"/x"}}}`)
	c.create(resource("", "v1", "persistentvolumeclaims"), "PersistentVolumeClaim", "blue", "data",
		`{"spec":{"volumeName":"disk","accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}`)
	c.create(resource(rbacGroup, "v1", "clusterroles"), "ClusterRole", "", "robots:read", `{}`)
	c.create(resource(rbacGroup, "v1", "clusterrolebindings"), "ClusterRoleBinding", "", "robots:are:readers",
		`{"subjects":[{"kind":"ServiceAccount","namespace":"blue","name":"robot"}],
		"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"robots:read"}}`)
}

// wanted returns the objects of the API server by their expected paths.
func (c *cluster) wanted(want map[string]any, gvr schema.GroupVersionResource, preferred bool, include func(o unstructured.Unstructured) bool) {
	c.t.Helper()
	found, err := c.client.Resource(gvr).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	for _, o := range found.Items {
		if !include(o) {
			continue
		}
		id := archive.Identity{
			Group: gvr.Group, Version: gvr.Version, Resource: gvr.Resource, Preferred: preferred,
			Namespace: o.GetNamespace(), Name: o.GetName(),
		}
		raw, err := o.MarshalJSON()
		if err != nil {
			c.t.Fatal(err)
		}
		want[id.Path()] = decoded(c.t, raw)
		if preferred {
			id.Version = ""
			want[id.Path()] = decoded(c.t, raw)
		}
	}
}

func decoded(t testing.TB, raw []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("%v in %.200q", err, raw)
	}
	return v
}

// run runs a backup and returns its content by path.
func (c *cluster) run(req backup.ArchiveRequest) (backup.ArchiveResult, map[string]any) {
	c.t.Helper()
	target, err := backup.NewCluster(c.config, rawclient.ListOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	var out bytes.Buffer
	result, err := backup.New(target, backup.Options{}).WriteArchive(context.Background(), req, &out)
	if err != nil {
		c.t.Fatal(err)
	}
	if result.Results.ErrorCount > 0 {
		c.t.Errorf("errors: %+v", result.Results.Errors)
	}
	got := map[string]any{}
	err = archive.Walk(&out, archive.Limits{}, func(e archive.Entry) error {
		if e.IsObject() {
			got[e.Path] = decoded(c.t, e.Content)
		}
		return nil
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return result, got
}

var _ = Describe("The archive of a backup", Ordered, func() {
	It("contains all kinds of an API server, without warnings", func() {
		t := GinkgoTB()
		c := newCluster(t)
		c.create(resource("", "v1", "configmaps"), "ConfigMap", "default", "a", `{}`)
		result, got := c.run(backup.ArchiveRequest{AllVersions: true})
		for _, path := range []string{
			"resources/configmaps/namespaces/default/a.json",
			"resources/namespaces/cluster/default.json",
			"resources/clusterroles.rbac.authorization.k8s.io/cluster/cluster-admin.json",
			"resources/customresourcedefinitions.apiextensions.k8s.io/v1-preferredversion/cluster/widgets.example.org.json",
		} {
			if _, ok := got[path]; !ok {
				t.Errorf("%s is missing", path)
			}
		}
		if result.Results.WarningCount > 0 {
			t.Errorf("warnings: %+v", result.Results.Warnings)
		}
	})

	// The claim that fill creates is a warning: these specs run after the one without warnings.
	Context("of a server with objects", func() {
		BeforeAll(func() { newCluster(GinkgoTB()).fill() })

		everything := func(unstructured.Unstructured) bool { return true }
		named := func(names ...string) func(unstructured.Unstructured) bool {
			return func(o unstructured.Unstructured) bool {
				for _, name := range names {
					if o.GetName() == name {
						return true
					}
				}
				return false
			}
		}
		in := func(namespaces ...string) func(unstructured.Unstructured) bool {
			return func(o unstructured.Unstructured) bool {
				for _, ns := range namespaces {
					if o.GetNamespace() == ns {
						return true
					}
				}
				return false
			}
		}
		namespaced := []schema.GroupVersionResource{
			resource("", "v1", "configmaps"), resource("", "v1", "secrets"), resource(rbacGroup, "v1", "roles"),
			resource("apps", "v1", "deployments"), resource("example.org", "v1", "widgets"),
			resource("", "v1", "serviceaccounts"), resource("", "v1", "persistentvolumeclaims"),
		}
		names := []string{"configmaps", "secrets", "roles", "deployments", "widgets", "serviceaccounts", "pvc"}

		// An archive contains, path by path, the objects of the API server.
		for name, tc := range suite.SortedByName(map[string]struct {
			spec        selection.Spec
			allVersions bool
			want        func(c *cluster, want map[string]any)
		}{
			"contains kinds of all namespaces": {
				spec: selection.Spec{IncludedResources: names},
				want: func(c *cluster, want map[string]any) {
					for _, gvr := range namespaced {
						c.wanted(want, gvr, true, everything)
					}
				},
			},
			"contains a namespace and what it needs": {
				spec: selection.Spec{IncludedNamespaces: []string{"blue"}, IncludedNamespaceScopedResources: names},
				want: func(c *cluster, want map[string]any) {
					for _, gvr := range namespaced {
						c.wanted(want, gvr, true, in("blue"))
					}
					c.wanted(want, resource("", "v1", "namespaces"), true, named("blue"))
					c.wanted(want, resource("", "v1", "persistentvolumes"), true, named("disk"))
					c.wanted(want, resource(rbacGroup, "v1", "clusterroles"), true, named("robots:read"))
					c.wanted(want, resource(rbacGroup, "v1", "clusterrolebindings"), true, named("robots:are:readers"))
					c.wanted(want, resource("apiextensions.k8s.io", "v1", "customresourcedefinitions"), true, named("widgets.example.org"))
				},
			},
			"contains all versions": {
				spec:        selection.Spec{IncludedNamespaces: []string{"blue", "green"}, IncludedNamespaceScopedResources: []string{"widgets"}},
				allVersions: true,
				want: func(c *cluster, want map[string]any) {
					c.wanted(want, resource("example.org", "v1", "widgets"), true, everything)
					c.wanted(want, resource("example.org", "v1beta1", "widgets"), false, everything)
					c.wanted(want, resource("", "v1", "namespaces"), true, named("blue", "green"))
					c.wanted(want, resource("apiextensions.k8s.io", "v1", "customresourcedefinitions"), true, named("widgets.example.org"))
				},
			},
		}) {
			It(name, func() {
				t := GinkgoTB()
				c := newCluster(t)
				want := map[string]any{}
				tc.want(c, want)
				result, got := c.run(backup.ArchiveRequest{Selection: tc.spec, AllVersions: tc.allVersions, StartTime: time.Unix(1_700_000_000, 0)})
				for path := range want {
					if diff := cmp.Diff(want[path], got[path]); diff != "" {
						t.Errorf("%s (-want +got):\n%.2000s", path, diff)
					}
				}
				for path := range got {
					if _, ok := want[path]; !ok {
						t.Errorf("%s should not be in the archive", path)
					}
				}
				if result.Items == 0 {
					t.Error("nothing was archived")
				}
			})
		}
	})
})
