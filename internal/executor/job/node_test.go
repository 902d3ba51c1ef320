// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package job_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// node is a machine of the cluster from the point of view of the API server: it serves the logs of
// its pods, and terminates deleted pods. Tests control everything else.
type node struct {
	name   string
	admin  client.WithWatch
	server *httptest.Server
	stop   func()

	mu sync.Mutex
	// logs are the outputs of pods, by "namespace/name".
	logs map[string]func(w io.Writer)
	// stuck are pods that do not terminate, by UID.
	stuck map[types.UID]bool
}

// newNode adds a node to a cluster until it is stopped.
func newNode(t testing.TB, admin client.WithWatch, name string) *node {
	t.Helper()
	n := &node{name: name, admin: admin, logs: map[string]func(io.Writer){}, stuck: map[types.UID]bool{}}
	n.server = httptest.NewTLSServer(http.HandlerFunc(n.serveLog))
	_, port, err := net.SplitHostPort(n.server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.ParseInt(port, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := admin.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	object.Status = corev1.NodeStatus{
		Addresses:       []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}},
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: int32(number)}},
	}
	if err := admin.Status().Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var reaping sync.WaitGroup
	reaping.Go(func() { n.reap(ctx) })
	n.stop = func() {
		cancel()
		reaping.Wait()
		n.server.Close()
	}
	return n
}

// serveLog implements /containerLogs/{namespace}/{pod}/{container} of a kubelet.
func (n *node) serveLog(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	n.mu.Lock()
	var print func(io.Writer)
	if len(parts) == 4 && parts[0] == "containerLogs" && parts[3] == "action" && r.URL.Query().Get("timestamps") == "true" {
		print = n.logs[parts[1]+"/"+parts[2]]
	}
	n.mu.Unlock()
	if print == nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/plain")
	print(w)
}

// prints sets the output of a pod.
func (n *node) prints(pod *corev1.Pod, print func(w io.Writer)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.logs[pod.Namespace+"/"+pod.Name] = print
}

// reap terminates deleted pods, as a kubelet does.
func (n *node) reap(ctx context.Context) {
	for ctx.Err() == nil {
		w, err := n.admin.Watch(ctx, &corev1.PodList{}, client.MatchingFields{"spec.nodeName": n.name})
		if err != nil {
			continue
		}
		n.hear(ctx, w)
		w.Stop()
	}
}

func (n *node) hear(ctx context.Context, w watch.Interface) {
	for {
		select {
		case <-ctx.Done():
			return
		case event, open := <-w.ResultChan():
			if !open {
				return
			}
			if pod, ok := event.Object.(*corev1.Pod); ok && event.Type != watch.Deleted && pod.DeletionTimestamp != nil {
				n.end(ctx, pod)
			}
		}
	}
}

// end terminates a deleted pod.
func (n *node) end(ctx context.Context, pod *corev1.Pod) {
	n.mu.Lock()
	stuck := n.stuck[pod.UID]
	n.mu.Unlock()
	if stuck {
		return
	}
	if pod.Status.Phase != corev1.PodFailed && pod.Status.Phase != corev1.PodSucceeded {
		pod.Status.Phase = corev1.PodFailed
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{terminated(corev1.ContainerStateTerminated{ExitCode: 143, Reason: "Error"})}
		if err := n.admin.Status().Update(ctx, pod); err != nil {
			return // it has changed, and is handled again
		}
	}
	_ = n.admin.Delete(ctx, pod, client.GracePeriodSeconds(0)) // it may no longer exist
}

// becomes assigns a pod to the node, if it has none, and changes its status.
func (n *node) becomes(t testing.TB, pod *corev1.Pod, phase corev1.PodPhase, status corev1.ContainerStatus) {
	t.Helper()
	if pod.Spec.NodeName == "" {
		binding := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: n.name}}
		if err := n.admin.SubResource("binding").Create(t.Context(), pod, binding); err != nil {
			t.Fatal(err)
		}
	}
	n.change(t, pod, func(pod *corev1.Pod) {
		pod.Status.Phase = phase
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{status}
	})
}

// change changes the status of a pod, and retries on conflicts.
func (n *node) change(t testing.TB, pod *corev1.Pod, edit func(*corev1.Pod)) {
	t.Helper()
	for {
		if err := n.admin.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
			t.Fatal(err)
		}
		edit(pod)
		err := n.admin.Status().Update(t.Context(), pod)
		if err == nil {
			return
		}
		if !apierrors.IsConflict(err) {
			t.Fatal(err)
		}
	}
}

func containerStatus(state corev1.ContainerState) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: "action", Image: image, ImageID: image, State: state}
}

func running() corev1.ContainerStatus {
	return containerStatus(corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(time.Now())}})
}

func waitingFor(reason, message string) corev1.ContainerStatus {
	return containerStatus(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}})
}

func terminated(state corev1.ContainerStateTerminated) corev1.ContainerStatus {
	state.FinishedAt = metav1.NewTime(time.Now())
	return containerStatus(corev1.ContainerState{Terminated: &state})
}

func exited(code int32, message string) corev1.ContainerStatus {
	return terminated(corev1.ContainerStateTerminated{ExitCode: code, Message: message})
}
