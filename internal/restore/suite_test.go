// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/grapnel-dev/grapnel/internal/archive"
	"github.com/grapnel-dev/grapnel/internal/rawclient"
	"github.com/grapnel-dev/grapnel/internal/restore"
	"github.com/grapnel-dev/grapnel/internal/results"
	"github.com/grapnel-dev/grapnel/internal/testing/controlplane"
)

// patience is how long the tests wait for conditions that take less than a second on an
// idle machine.
const patience = 2 * time.Minute

// stampKey authenticates what restores of tests wrote.
var stampKey = bytes.Repeat([]byte("k"), 32)

// plane is shared by all tests. Each uses its own namespaces, and its own names for
// cluster-scoped objects.
var plane *controlplane.ControlPlane

// seen has the tests that have used the control plane.
var seen = map[string]testing.TB{}

func start() (err error) {
	plane, err = controlplane.Start(context.Background(), controlplane.Options{
		ControllerManager: true,
		// This replaces the ServiceAccount that every cluster has.
		APIServerArgs: map[string]string{"disable-admission-plugins": "AlwaysPullImages"},
	})
	return err
}

func TestMain(m *testing.M) {
	if err := start(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	code := m.Run()
	if err := plane.Stop(); err != nil {
		fmt.Println(err)
		code = 1
	}
	// Connections that the HTTP client keeps for the next request are no leak.
	if err := goleak.Find(goleak.IgnoreTopFunction("internal/poll.runtime_pollWait"), goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"),
		goleak.IgnoreTopFunction("net/http.(*persistConn).readLoop")); err != nil {
		fmt.Println(err)
		code = 1
	}
	os.Exit(code)
}

// freshFor gives a repeated test (-count) a control plane that it has not used yet.
func freshFor(t testing.TB) {
	t.Helper()
	if before, again := seen[t.Name()]; again && before != t {
		if err := errors.Join(plane.Stop(), start()); err != nil {
			t.Fatal(err)
		}
		clear(seen)
	}
	seen[t.Name()] = t
}

// resources maps each kind that tests use to its plural.
var resources = map[string]string{
	"ConfigMap": "configmaps", "Secret": "secrets", "Service": "services", "ServiceAccount": "serviceaccounts",
	"Namespace": "namespaces", "Pod": "pods", "PersistentVolume": "persistentvolumes",
	"PersistentVolumeClaim": "persistentvolumeclaims", "ResourceQuota": "resourcequotas", "LimitRange": "limitranges",
	"Role": "roles", "RoleBinding": "rolebindings", "ClusterRole": "clusterroles", "ClusterRoleBinding": "clusterrolebindings",
	"Deployment": "deployments", "ReplicaSet": "replicasets", "StatefulSet": "statefulsets", "DaemonSet": "daemonsets",
	"Job": "jobs", "CronJob": "cronjobs", "Ingress": "ingresses", "NetworkPolicy": "networkpolicies",
	"CustomResourceDefinition": "customresourcedefinitions", "Widget": "widgets", "Event": "events",
	"ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
	"MutatingWebhookConfiguration":   "mutatingwebhookconfigurations", "StorageClass": "storageclasses",
	"PriorityClass": "priorityclasses", "PodDisruptionBudget": "poddisruptionbudgets",
	"HorizontalPodAutoscaler": "horizontalpodautoscalers", "Endpoints": "endpoints", "EndpointSlice": "endpointslices",
	"IngressClass": "ingressclasses", "RuntimeClass": "runtimeclasses", "ReplicationController": "replicationcontrollers",
	"PodTemplate": "podtemplates", "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
	"ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings", "APIService": "apiservices",
	"Node": "nodes", "CSINode": "csinodes", "VolumeAttachment": "volumeattachments", "Lease": "leases",
	"VolumeSnapshot": "volumesnapshots", "VolumeSnapshotContent": "volumesnapshotcontents",
	"Backup": "backups", "Restore": "restores", "BackupRepository": "backuprepositories", "HookRun": "hookruns", "Plugin": "plugins",
	"Schedule": "schedules", "BackupStorageLocation": "backupstoragelocations",
}

// obj creates an object from its kind, namespace, name and other fields as JSON.
func obj(t testing.TB, apiVersion, kind, namespace, name, fields string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{}}
	if fields != "" {
		if err := json.Unmarshal([]byte(fields), &o.Object); err != nil {
			t.Fatalf("fields of %s %s: %v", kind, name, err)
		}
	}
	o.SetAPIVersion(apiVersion)
	o.SetKind(kind)
	if namespace != "" {
		o.SetNamespace(namespace)
	}
	o.SetName(name)
	return o
}

func configMap(t testing.TB, namespace, name, value string) *unstructured.Unstructured {
	t.Helper()
	return obj(t, "v1", "ConfigMap", namespace, name, fmt.Sprintf(`{"data":{"key":%q}}`, value))
}

func resourceOf(t testing.TB, o *unstructured.Unstructured) schema.GroupVersionResource {
	t.Helper()
	gvk := o.GroupVersionKind()
	plural, ok := resources[gvk.Kind]
	if !ok {
		t.Fatalf("the tests know no plural of %s", gvk.Kind)
	}
	return gvk.GroupVersion().WithResource(plural)
}

// spool creates an archive of objects. Those whose version is one of others are stored as
// non-preferred versions.
func spool(t testing.TB, objects []*unstructured.Unstructured, others ...schema.GroupVersion) *archive.Spool {
	t.Helper()
	var items []archive.Item
	for _, o := range objects {
		gvr := resourceOf(t, o)
		raw, err := o.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		id := archive.Identity{
			Group: gvr.Group, Version: gvr.Version, Resource: gvr.Resource, Namespace: o.GetNamespace(), Name: o.GetName(),
			Preferred: !slices.Contains(others, gvr.GroupVersion()),
		}
		items = append(items, archive.Item{Identity: id, JSON: bytes.TrimSpace(raw)})
	}
	return spoolOf(t, items)
}

// rawSpool creates an archive of files of one resource of the core group.
func rawSpool(t testing.TB, namespace, resource string, files map[string]string) *archive.Spool {
	t.Helper()
	var items []archive.Item
	for name, content := range files {
		items = append(items, archive.Item{JSON: []byte(content), Identity: archive.Identity{
			Version: "v1", Resource: resource, Namespace: namespace, Name: name, Preferred: true,
		}})
	}
	return spoolOf(t, items)
}

func spoolOf(t testing.TB, items []archive.Item) *archive.Spool {
	t.Helper()
	var out bytes.Buffer
	w, err := archive.NewWriter(&out, archive.WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, item := range items {
		if err := w.AddObject(item); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := archive.NewSpool(t.Context(), &out, archive.SpoolOptions{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// target is the cluster that a test restores to.
type target struct {
	t      testing.TB
	client dynamic.Interface
	// wire intercepts every request, and may answer it instead of the server.
	wire *wire
	// engine restores through wire; client does not.
	engine *restore.Engine
}

func newTarget(t testing.TB, opts restore.Options) *target {
	t.Helper()
	freshFor(t)
	// The tests do not wait as long as a busy cluster needs.
	sleep := func(ctx context.Context, d time.Duration) error {
		return rawclient.Sleep(ctx, min(d, 10*time.Millisecond))
	}
	opts.Sleep = sleep
	config := plane.Config()
	config.QPS = -1
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{}
	watched := rest.CopyConfig(config)
	watched.Wrap(w.around)
	cluster, err := restore.NewCluster(watched, rawclient.ListOptions{PageSize: 50, Sleep: sleep}, rawclient.WriteOptions{Sleep: sleep})
	if err != nil {
		t.Fatal(err)
	}
	return &target{t: t, client: client, wire: w, engine: restore.New(cluster, opts)}
}

// run restores, and fails the test on an error.
func (c *target) run(req restore.Request) restore.Result {
	c.t.Helper()
	c.wire.reset()
	if req.BackupName == "" {
		req.BackupName = "nightly"
	}
	if req.RestoreName == "" {
		req.RestoreName = "again"
	}
	if req.StampKey == nil {
		req.StampKey = stampKey
	}
	result, err := c.engine.RestoreObjects(context.Background(), req)
	if err != nil {
		c.t.Fatalf("restoring: %v", err)
	}
	return result
}

func (c *target) of(o *unstructured.Unstructured) dynamic.ResourceInterface {
	c.t.Helper()
	if o.GetNamespace() == "" {
		return c.client.Resource(resourceOf(c.t, o))
	}
	return c.client.Resource(resourceOf(c.t, o)).Namespace(o.GetNamespace())
}

// create creates objects in the cluster, and returns them from the API server.
func (c *target) create(objects ...*unstructured.Unstructured) []*unstructured.Unstructured {
	c.t.Helper()
	var out []*unstructured.Unstructured
	for _, o := range objects {
		created, err := c.of(o).Create(context.Background(), o, metav1.CreateOptions{})
		if err != nil {
			c.t.Fatalf("creating %s %s: %v", o.GetKind(), o.GetName(), err)
		}
		out = append(out, created)
	}
	return out
}

func (c *target) namespace(name string) {
	c.t.Helper()
	c.create(obj(c.t, "v1", "Namespace", "", name, ""))
}

// delete deletes an object.
func (c *target) delete(o *unstructured.Unstructured) {
	c.t.Helper()
	if err := c.of(o).Delete(context.Background(), o.GetName(), metav1.DeleteOptions{}); err != nil {
		c.t.Fatalf("deleting %s %s: %v", o.GetKind(), o.GetName(), err)
	}
}

// get returns an object as it is in the cluster.
func (c *target) get(o *unstructured.Unstructured) *unstructured.Unstructured {
	c.t.Helper()
	found, err := c.of(o).Get(context.Background(), o.GetName(), metav1.GetOptions{})
	if err != nil {
		c.t.Fatalf("getting %s %s: %v", o.GetKind(), o.GetName(), err)
	}
	return found
}

// has reports whether an object is in the cluster.
func (c *target) has(o *unstructured.Unstructured) bool {
	c.t.Helper()
	_, err := c.of(o).Get(context.Background(), o.GetName(), metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		c.t.Fatalf("getting %s %s: %v", o.GetKind(), o.GetName(), err)
	}
	return err == nil
}

// awaitServed waits until discovery has the kind of an object.
func (c *target) awaitServed(o *unstructured.Unstructured) {
	c.t.Helper()
	s := spool(c.t, []*unstructured.Unstructured{o})
	eventually(c.t, o.GetKind()+" of "+o.GetAPIVersion()+" is served", func() bool {
		return c.run(restore.Request{Archive: s, DryRun: true}).Counts[restore.Failed] == 0
	})
}

// wantCounts compares the counts of a Result.
func wantCounts(t testing.TB, result restore.Result, want map[restore.Outcome]int) {
	t.Helper()
	got := map[restore.Outcome]int{}
	for outcome, n := range result.Counts {
		if n != 0 {
			got[outcome] = n
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("counts (-want +got):\n%s\nlist: %v\nresults: %s", diff, listOf(result), messages(result))
	}
	byResource := map[restore.Outcome]int{}
	for _, summary := range result.Results.Objects {
		for outcome, n := range summary.Outcomes {
			byResource[restore.Outcome(outcome)] += n
		}
	}
	if diff := cmp.Diff(want, byResource); diff != "" {
		t.Errorf("counts of all resources (-want +got):\n%s", diff)
	}
}

// listOf returns the list of resources.
func listOf(result restore.Result) map[string][]string {
	if result.ResourceList == nil {
		return nil
	}
	return maps.Collect(result.ResourceList)
}

// messages are all warnings and errors, one a line.
func messages(result restore.Result) string {
	var out strings.Builder
	for kind, problems := range map[string]results.Problems{"error": result.Results.Errors, "warning": result.Results.Warnings} {
		for _, p := range problems {
			scope := p.Namespace
			switch {
			case scope == "" && p.Name != "":
				scope = "cluster"
			case scope == "":
				scope = "run"
			}
			fmt.Fprintf(&out, "%s %s: %s\n", kind, scope, p.Message)
			if p.Reason == "" {
				fmt.Fprintf(&out, "%s %s has no reason\n", kind, scope)
			}
		}
	}
	return out.String()
}

// wantMessages checks that there is exactly one message with each of the given
// beginnings and parts, "error run: |not served", and no other.
func wantMessages(t testing.TB, result restore.Result, want ...string) {
	t.Helper()
	left := strings.Split(strings.TrimSpace(messages(result)), "\n")
	left = slices.DeleteFunc(left, func(line string) bool { return line == "" })
	for _, w := range want {
		parts := strings.Split(w, "|")
		at := slices.IndexFunc(left, func(line string) bool {
			return strings.HasPrefix(line, parts[0]) &&
				!slices.ContainsFunc(parts[1:], func(part string) bool { return !strings.Contains(line, part) })
		})
		if at < 0 {
			t.Errorf("no message %q in:\n%s", w, strings.Join(left, "\n"))
			continue
		}
		left = slices.Delete(left, at, at+1)
	}
	if len(left) > 0 {
		t.Errorf("unexpected messages:\n%s", strings.Join(left, "\n"))
	}
}

// eventually waits for a condition of the cluster.
func eventually(t testing.TB, what string, met func() bool) {
	t.Helper()
	deadline := time.After(patience)
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for !met() {
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// collector records the calls of Progress.
type collector struct {
	mu          sync.Mutex
	total, done int
	calls       int
}

func (p *collector) progress(total, done int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.total, p.done = total, done
	p.calls++
}
