// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	snapshotclient "github.com/kubernetes-csi/external-snapshotter/client/v8/clientset/versioned"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/grapnel-dev/grapnel/internal/testing/controlplane"
	"github.com/grapnel-dev/grapnel/internal/testing/csi"
	"github.com/grapnel-dev/grapnel/internal/testing/csi/driverdir"
	"github.com/grapnel-dev/grapnel/internal/testing/program"
	asyncbackupitemv1 "github.com/grapnel-dev/grapnel/sdk/asyncbackupitemaction/v1"
	"github.com/grapnel-dev/grapnel/sdk/item"
)

// The control plane and the driver of all tests, and the CRDs of Grapnel.
var (
	plane *controlplane.ControlPlane
	stack *csi.Stack
	crds  string
)

func TestMain(m *testing.M) {
	code, err := runTests(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func runTests(m *testing.M) (code int, err error) {
	root, err := program.ModuleRoot()
	if err != nil {
		return 1, err
	}
	crds = filepath.Join(root, "config", "crd", "bases")
	plane, stack, err = csi.StartCluster(context.Background(), csi.Options{}, crds)
	if err != nil {
		return 1, err
	}
	code = m.Run()
	return code, csi.StopCluster(plane, stack)
}

// world is a namespace of a test, the plugin, and a Backup that has it. clients are those of the test.
type world struct {
	*testing.T
	*cluster
	clients

	plane *controlplane.ControlPlane
	// pluginConfig is for the API server, with the rights of the plugin, and pluginAPI its clients.
	pluginConfig *rest.Config
	pluginAPI    clients

	namespace string
	backup    item.Backup
	restore   item.Restore
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldIn(t, plane)
}

// newWorldIn returns a world in another cluster.
func newWorldIn(t *testing.T, plane *controlplane.ControlPlane) *world {
	t.Helper()
	w := &world{T: t, plane: plane}
	w.clients = w.newClients(plane.Config())
	w.restrictPlugin()
	w.namespace = w.createNamespace()
	w.backup = item.Backup{Name: "nightly", Namespace: "grapnel-system", UID: string(uuid.NewUUID())}
	w.restore = item.Restore{Name: "again", Namespace: "grapnel-system", UID: string(uuid.NewUUID())}
	w.restartPlugin()
	t.Cleanup(func() {
		w.setFaults(driverdir.Faults{})
		for _, name := range []csi.Program{csi.SnapshotController, csi.Snapshotter, csi.Provisioner} {
			if !t.Failed() {
				break
			}
			log, err := os.ReadFile(stack.LogPath(name))
			t.Logf("%s, %v:\n%s", name, err, log[max(0, len(log)-3000):])
		}
	})
	return w
}

func (w *world) newClients(config *rest.Config) (api clients) {
	w.Helper()
	var err error
	api.core, err = kubernetes.NewForConfig(config)
	w.must(err)
	api.snapshots, err = snapshotclient.NewForConfig(config)
	w.must(err)
	return api
}

// restrictPlugin gives the plugin the rights of the component csi, and no others: those that it has in the pod of an
// operator that does not restore. A missing right fails the test that needs it.
func (w *world) restrictPlugin() {
	w.Helper()
	root, err := program.ModuleRoot()
	w.must(err)
	manifest, err := os.ReadFile(filepath.Join(root, "config", "components", "csi", "role.yaml"))
	w.must(err)
	roleYAML, bindingYAML, _ := bytes.Cut(manifest, []byte("\n---\n"))
	var role rbacv1.ClusterRole
	var binding rbacv1.ClusterRoleBinding
	w.must(errors.Join(yaml.UnmarshalStrict(roleYAML, &role), yaml.UnmarshalStrict(bindingYAML, &binding)))
	_, err = w.core.RbacV1().ClusterRoles().Create(w.Context(), &role, metav1.CreateOptions{})
	w.must(client.IgnoreAlreadyExists(err))
	_, err = w.core.RbacV1().ClusterRoleBindings().Create(w.Context(), &binding, metav1.CreateOptions{})
	w.must(client.IgnoreAlreadyExists(err))
	account := binding.Subjects[0]
	w.pluginConfig, err = w.plane.AddUser("system:serviceaccount:"+account.Namespace+":"+account.Name,
		"system:serviceaccounts", "system:serviceaccounts:"+account.Namespace)
	w.must(err)
	api := w.newClients(w.pluginConfig)
	w.eventually("the API server knows the rights", func() bool {
		_, err := api.core.StorageV1().StorageClasses().List(w.Context(), metav1.ListOptions{})
		return err == nil
	})
	denied := make(chan string, 1)
	w.pluginConfig.Wrap(func(next http.RoundTripper) http.RoundTripper { return denialRecorder{next: next, denied: denied} })
	w.pluginAPI = w.newClients(w.pluginConfig)
	w.Cleanup(func() {
		select {
		case message := <-denied:
			w.Errorf("the plugin has not all rights that it needs: %s", message)
		default:
		}
	})
}

// denialRecorder records a response that RBAC caused. The plugin may work without a right: it reads what it cannot watch.
type denialRecorder struct {
	next   http.RoundTripper
	denied chan<- string
}

// RoundTrip implements http.RoundTripper.
func (d denialRecorder) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := d.next.RoundTrip(req)
	if err != nil || resp.StatusCode != http.StatusForbidden {
		return resp, err
	}
	body, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return nil, err
	}
	if bytes.Contains(body, []byte(" cannot ")) {
		select {
		case d.denied <- string(body):
		default:
		}
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}

// restartPlugin replaces the plugin with a new one, which has nothing in memory.
func (w *world) restartPlugin() {
	w.cluster = newCluster(w.Context(), func() (clients, error) { return w.pluginAPI, nil })
}

// backdate makes a set contain a key for longer.
func backdate(set *recentSet, key string, by time.Duration) {
	set.mu.Lock()
	defer set.mu.Unlock()
	set.since[key] = set.since[key].Add(-by)
}

// skewPlugin restarts the plugin in a cluster whose clock is behind that of the plugin, or ahead of it.
func (w *world) skewPlugin(behind time.Duration) {
	w.Helper()
	config := rest.CopyConfig(w.pluginConfig)
	config.ContentType = runtime.ContentTypeJSON // what skewedTransport reads
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return skewedTransport{next: next, behind: behind} })
	w.pluginAPI = w.newClients(config)
	w.restartPlugin()
}

// skewedTransport changes the timestamps of objects in responses.
type skewedTransport struct {
	next   http.RoundTripper
	behind time.Duration
}

var creationTimestamps = regexp.MustCompile(`"creationTimestamp":"([^"]+)"`)

// RoundTrip implements http.RoundTripper.
func (s skewedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := s.next.RoundTrip(req)
	if err != nil || req.URL.Query().Has("watch") {
		return resp, err
	}
	body, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return nil, err
	}
	body = creationTimestamps.ReplaceAllFunc(body, func(field []byte) []byte {
		at, err := time.Parse(time.RFC3339, string(creationTimestamps.FindSubmatch(field)[1]))
		if err != nil {
			return field
		}
		return []byte(`"creationTimestamp":"` + at.Add(-s.behind).Format(time.RFC3339) + `"`)
	})
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return resp, nil
}

func (w *world) createNamespace() string {
	w.Helper()
	namespace, err := w.core.CoreV1().Namespaces().Create(w.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "csi-"}}, metav1.CreateOptions{})
	if err != nil {
		w.Fatal(err)
	}
	return namespace.Name
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) setFaults(faults driverdir.Faults) {
	w.Helper()
	w.must(stack.Dir().SetFaults(faults))
}

// eventually waits until a check succeeds.
func (w *world) eventually(what string, check func() bool) {
	w.Helper()
	err := wait.PollUntilContextTimeout(w.Context(), 20*time.Millisecond, time.Minute, true,
		func(context.Context) (bool, error) { return check(), nil })
	if err != nil {
		w.Fatalf("waiting until %s: %v", what, err)
	}
}

// createClaim creates a claim of a class.
func (w *world) createClaim(name, class string, edits ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	w.Helper()
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.namespace},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
	for _, edit := range edits {
		edit(claim)
	}
	claim, err := w.core.CoreV1().PersistentVolumeClaims(w.namespace).Create(w.Context(), claim, metav1.CreateOptions{})
	w.must(err)
	return claim
}

// createVolume creates a claim with a file that has the name of the claim, and returns the claim as it
// is archived.
func (w *world) createVolume(name string, edits ...func(*corev1.PersistentVolumeClaim)) *unstructured.Unstructured {
	w.Helper()
	w.createClaim(name, csi.ClassName, edits...)
	claim := w.awaitBound(w.namespace, name)
	w.must(os.WriteFile(w.dataPath(claim), []byte(name), 0o600))
	return toItem(w, claim, "v1", "PersistentVolumeClaim")
}

// toItem returns an object as actions get it.
func toItem(w *world, object any, apiVersion, kind string) *unstructured.Unstructured {
	w.Helper()
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	w.must(err)
	u := &unstructured.Unstructured{Object: fields}
	u.SetAPIVersion(apiVersion)
	u.SetKind(kind)
	return u
}

func (w *world) awaitBound(namespace, name string) *corev1.PersistentVolumeClaim {
	w.Helper()
	var claim *corev1.PersistentVolumeClaim
	w.eventually(name+" is bound", func() bool {
		var err error
		claim, err = w.core.CoreV1().PersistentVolumeClaims(namespace).Get(w.Context(), name, metav1.GetOptions{})
		w.must(err)
		return claim.Status.Phase == corev1.ClaimBound
	})
	return claim
}

func (w *world) volumeHandle(claim *corev1.PersistentVolumeClaim) string {
	w.Helper()
	volume, err := w.core.CoreV1().PersistentVolumes().Get(w.Context(), claim.Spec.VolumeName, metav1.GetOptions{})
	w.must(err)
	return volume.Spec.CSI.VolumeHandle
}

func (w *world) dataPath(claim *corev1.PersistentVolumeClaim) string {
	w.Helper()
	return filepath.Join(driverdir.DataPath[driverdir.Volume](stack.Dir(), w.volumeHandle(claim)), "data")
}

// driverSnapshots counts the snapshots of claims in the driver.
func (w *world) driverSnapshots(handles ...string) int {
	w.Helper()
	records, err := driverdir.List[driverdir.Snapshot](stack.Dir())
	w.must(err)
	count := 0
	for _, record := range records {
		for _, handle := range handles {
			if record.VolumeID == handle {
				count++
			}
		}
	}
	return count
}

func (w *world) handleOfItem(claim *unstructured.Unstructured) string {
	w.Helper()
	typed := &corev1.PersistentVolumeClaim{}
	w.must(fromUnstructured(claim, typed))
	return w.volumeHandle(typed)
}

// capture starts the operation of a claim.
func (w *world) capture(claim *unstructured.Unstructured) *asyncbackupitemv1.Started {
	w.Helper()
	started, err := captureClaim{w.cluster}.Start(w.Context(), &item.BackupRequest{Item: claim.DeepCopy(), Backup: w.backup})
	w.must(err)
	if started.DataNotCaptured != "" {
		w.Fatalf("not captured: %s", started.DataNotCaptured)
	}
	return started
}

func (w *world) operation(started *asyncbackupitemv1.Started) *asyncbackupitemv1.OperationRequest {
	return &asyncbackupitemv1.OperationRequest{OperationID: started.OperationID, Backup: w.backup}
}

func (w *world) progress(started *asyncbackupitemv1.Started) *item.Progress {
	w.Helper()
	progress, err := captureClaim{w.cluster}.Progress(w.Context(), w.operation(started))
	w.must(err)
	return progress
}

// awaitProgress polls until the progress is as wanted.
func (w *world) awaitProgress(started *asyncbackupitemv1.Started, what string, check func(*item.Progress) bool) *item.Progress {
	w.Helper()
	var progress *item.Progress
	w.eventually(what, func() bool {
		progress = w.progress(started)
		if progress.Completed && !check(progress) {
			w.Fatalf("waiting until %s: %+v", what, progress)
		}
		return check(progress)
	})
	return progress
}

func isCompleted(p *item.Progress) bool { return p.Completed && p.Err == "" && !p.Cancelled }
func isFailed(p *item.Progress) bool    { return p.Completed && p.Err != "" }

// archive returns an object that the operation asked for, as it is archived.
func (w *world) archivedContent(started *asyncbackupitemv1.Started) *unstructured.Unstructured {
	w.Helper()
	for _, ref := range started.PostOperationItems {
		if ref.Resource == "volumesnapshotcontents" {
			content, err := w.snapshots.SnapshotV1().VolumeSnapshotContents().Get(w.Context(), ref.Name, metav1.GetOptions{})
			w.must(err)
			return toItem(w, content, snapshotv1.SchemeGroupVersion.String(), "VolumeSnapshotContent")
		}
	}
	w.Fatal("no content is archived")
	return nil
}

func (w *world) listOwnSnapshots(namespace string) []snapshotv1.VolumeSnapshot {
	w.Helper()
	list, err := w.snapshots.SnapshotV1().VolumeSnapshots(namespace).List(w.Context(), metav1.ListOptions{})
	w.must(err)
	return list.Items
}

func wantContains(t *testing.T, what, text, want string) {
	t.Helper()
	if !strings.Contains(text, want) {
		t.Errorf("%s is %q, want %q in it", what, text, want)
	}
}

// unservedClient returns a client for a path of the API server that does not exist.
func unservedClient(t *testing.T) snapshotclient.Interface {
	t.Helper()
	config := rest.CopyConfig(plane.Config())
	config.Host += "/nothing"
	client, err := snapshotclient.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}
