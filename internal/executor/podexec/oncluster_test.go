// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package podexec_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/httpstream"      //nolint:staticcheck // As the next one.
	"k8s.io/apimachinery/pkg/util/httpstream/spdy" //nolint:staticcheck // Its successor would be a requirement of our own, for one test.
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/executor/podexec"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/internal/testing/controlplane"
)

var (
	plane   *controlplane.ControlPlane
	cluster *site
)

// The suite runs commands through a real API server. It simulates the kubelet behind it.
var _ = BeforeSuite(func() {
	t := GinkgoTB()
	var err error
	plane, err = controlplane.Start(context.Background(), controlplane.Options{
		// No controller creates service accounts.
		APIServerArgs: map[string]string{"disable-admission-plugins": "ServiceAccount"},
	})
	Expect(err).NotTo(HaveOccurred())
	admin, err := client.New(plane.Config(), client.Options{})
	Expect(err).NotTo(HaveOccurred())
	remote, err := podexec.NewRemote(plane.Config())
	Expect(err).NotTo(HaveOccurred())
	stranger, err := plane.AddUser("stranger")
	Expect(err).NotTo(HaveOccurred())
	unable, err := podexec.NewRemote(stranger)
	Expect(err).NotTo(HaveOccurred())
	cluster = &site{admin: admin, remote: remote, unable: unable}
	cluster.node = cluster.addNode(t, "node-1", cluster.serveExec)
	gone := cluster.addNode(t, "node-2", http.NotFound)
	gone.Close()
	cluster.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
})

var _ = AfterSuite(func() {
	if plane != nil {
		Expect(plane.Stop()).To(Succeed())
	}
})

func TestExecutor_OnCluster(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Executor of commands in pods")
}

// site is the test cluster.
type site struct {
	admin          client.Client
	remote, unable *podexec.Remote
	node           *httptest.Server

	mu sync.Mutex
	// handle implements a command; it returns the status that a kubelet reports for its end.
	handle func(streams) string
}

// streams are the streams of one command.
type streams struct {
	query          string
	stdin          io.Reader
	stdout, stderr io.Writer
	gone           <-chan bool
	hangUp         func()
}

func (s *site) create(t testing.TB, object client.Object) {
	t.Helper()
	if err := s.admin.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

// addNode adds a node whose kubelet is a handler.
func (s *site) addNode(t testing.TB, name string, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	kubelet := httptest.NewTLSServer(handler)
	t.Cleanup(kubelet.Close)
	_, port, err := net.SplitHostPort(kubelet.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.ParseInt(port, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	s.create(t, node)
	node.Status = corev1.NodeStatus{
		Addresses:       []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}},
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: int32(number)}},
	}
	if err := s.admin.Status().Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	return kubelet
}

// serveExec implements /exec/{namespace}/{pod}/{container} of a kubelet.
func (s *site) serveExec(w http.ResponseWriter, r *http.Request) {
	if !strings.HasPrefix(r.URL.Path, "/exec/shop/db-") || !strings.HasSuffix(r.URL.Path, "/db") {
		http.NotFound(w, r)
		return
	}
	if _, err := httpstream.Handshake(r, w, []string{"v4.channel.k8s.io"}); err != nil {
		return
	}
	arrived := make(chan httpstream.Stream, 4)
	conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error {
		arrived <- s
		return nil
	})
	if conn == nil {
		return
	}
	defer func() { _ = conn.Close() }()
	of := map[string]httpstream.Stream{}
	for range 4 {
		select {
		case stream := <-arrived:
			of[stream.Headers().Get(corev1.StreamType)] = stream
		case <-conn.CloseChan():
			return
		}
	}
	s.mu.Lock()
	handle := s.handle
	s.mu.Unlock()
	status := handle(streams{
		query: r.URL.RawQuery, stdin: of[corev1.StreamTypeStdin], stdout: of[corev1.StreamTypeStdout], stderr: of[corev1.StreamTypeStderr],
		gone: conn.CloseChan(), hangUp: func() { _ = conn.Close() },
	})
	_, _ = io.WriteString(of[corev1.StreamTypeError], status)
	for _, stream := range of {
		_ = stream.Close()
	}
	<-conn.CloseChan()
}

// pod creates a pod for a test and returns options that run commands in it. Without a node the pod
// stays pending.
func (s *site) pod(t testing.TB, node string, commands func(streams) string) podexec.Options {
	t.Helper()
	s.mu.Lock()
	s.handle = commands
	s.mu.Unlock()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", GenerateName: "db-", Labels: map[string]string{"app": "db"}},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "db", Image: "i"}}},
	}
	if err := s.admin.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.admin.Delete(context.Background(), pod, client.GracePeriodSeconds(0)); err != nil {
			t.Error(err)
		}
	})
	pod.Status.Phase = corev1.PodRunning
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "db", Image: "i", ImageID: "i", ContainerID: "c://1", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
	}}
	if err := s.admin.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	return podexec.Options{
		Reader: podexec.ReaderFunc(s.list), CommandRunner: s.remote, Selector: labels.SelectorFromSet(labels.Set{"app": "db"}),
		Namespaces: func(context.Context, executor.Call) ([]string, error) { return []string{"shop"}, nil },
		Command:    []string{"/bin/freeze", "--all tables", "$(HOME)"}, Target: podexec.Any, Redactor: redact.New(),
	}
}

func (s *site) list(ctx context.Context, namespace string, selector labels.Selector) ([]corev1.Pod, error) {
	var list corev1.PodList
	err := s.admin.List(ctx, &list, client.InNamespace(namespace), client.MatchingLabelsSelector{Selector: selector})
	return list.Items, err
}

func invocation(ctx context.Context, t testing.TB, options podexec.Options) (executor.Answer, error) {
	t.Helper()
	e, err := podexec.New(options)
	if err != nil {
		t.Fatal(err)
	}
	return e.Execute(ctx, aCall)
}

var _ = Describe("The executor of commands in pods", Label("hooks"), func() {
	It("returns the answer of a command", func() {
		t := GinkgoTB()
		var read, query string
		options := cluster.pod(t, "node-1", func(c streams) string {
			content, _ := io.ReadAll(c.stdin)
			read, query = string(content), c.query
			_, _ = io.WriteString(c.stderr, "freezing\n")
			_, _ = io.WriteString(c.stdout, `{"message":"frozen","outputs":{"lsn":"0/16"}}`+"\n")
			return statusOK
		})
		answer, err := invocation(t.Context(), t, options)
		if err != nil || answer.Message != "frozen" || answer.Outputs["lsn"] != "0/16" {
			t.Errorf("got %+v, %v", answer, err)
		}
		if !strings.Contains(read, `"key":"k"`) || !strings.Contains(query, "command=%2Fbin%2Ffreeze&command=--all+tables&command=%24%28HOME%29") {
			t.Errorf("the command %s read %s", query, read)
		}
	})

	It("reports an exit code", func() {
		t := GinkgoTB()
		options := cluster.pod(t, "node-1", func(c streams) string {
			_, _ = io.WriteString(c.stderr, "the disk is full\n")
			return statusExit
		})
		_, err := invocation(t.Context(), t, options)
		wantError(t, err, executor.Failed, "exit code 3: the disk is full")
	})

	// A command prints 100 MiB on both streams. All of it is read, and the answer after
	// it counts.
	It("reads 100 MiB of output", func() {
		t := GinkgoTB()
		chunk := bytes.Repeat([]byte(strings.Repeat("x", 1023)+"\n"), 1024)
		options := cluster.pod(t, "node-1", func(c streams) string {
			for range 50 {
				_, _ = c.stdout.Write(chunk)
				_, _ = c.stderr.Write(chunk)
			}
			_, _ = io.WriteString(c.stdout, `{"message":"frozen"}`)
			return statusOK
		})
		answer, err := invocation(t.Context(), t, options)
		if err != nil || answer.Message != "frozen" {
			t.Errorf("got %+v, %v", answer, err)
		}
	})

	// Breaks the connection to the kubelet, as a restart of the kubelet does.
	It("reports that the connection broke", func() {
		t := GinkgoTB()
		options := cluster.pod(t, "node-1", func(c streams) string {
			_, _ = io.ReadAll(c.stdin)
			c.hangUp()
			return ""
		})
		// Some servers report success in that case.
		options.RequireAnswer = true
		_, err := invocation(t.Context(), t, options)
		wantError(t, err, executor.Failed, "ended is unknown")
	})

	It("is canceled", func() {
		t := GinkgoTB()
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		ended := make(chan struct{})
		options := cluster.pod(t, "node-1", func(c streams) string {
			cancel(errors.New("a user canceled the run"))
			<-c.gone
			close(ended)
			return ""
		})
		_, err := invocation(ctx, t, options)
		wantError(t, err, executor.Interrupted, "was interrupted before it ended; the command may still run in pod shop/db-")
		<-ended // the node observes the end
	})

	It("fails in a pod without a node", func() {
		t := GinkgoTB()
		_, err := invocation(t.Context(), t, cluster.pod(t, "", nil))
		wantError(t, err, executor.Unreachable, "the command could not be started in any pod")
	})

	// The container has crashed since the API server last observed it.
	It("fails in a container that does not run", func() {
		t := GinkgoTB()
		options := cluster.pod(t, "node-1", func(streams) string {
			return `{"metadata":{},"status":"Failure","message":"container not found (\"db\")","reason":"InternalError","code":500}`
		})
		_, err := invocation(t.Context(), t, options)
		wantError(t, err, executor.Unreachable, "its container db does not run")
	})

	It("fails on a lost node", func() {
		t := GinkgoTB()
		_, err := invocation(t.Context(), t, cluster.pod(t, "node-2", nil))
		wantError(t, err, executor.Unreachable, "the API server cannot reach the node that it runs on")
	})

	It("says which permissions it lacks", func() {
		t := GinkgoTB()
		options := cluster.pod(t, "node-1", nil)
		options.CommandRunner = cluster.unable
		_, err := invocation(t.Context(), t, options)
		wantError(t, err, executor.Unreachable, "the operator may not run commands in it: grant get and create of pods/exec")
	})

	// Uses an error of runc that a kubelet passes on.
	It("reports a program that does not exist", func() {
		t := GinkgoTB()
		options := cluster.pod(t, "node-1", func(streams) string {
			return `{"metadata":{},"status":"Failure","message":"error executing command in container: failed to exec in container: failed to start exec: ` +
				`OCI runtime exec failed: exec failed: unable to start container process: exec: \"/bin/freeze\": stat /bin/freeze: no such file or directory",` +
				`"reason":"InternalError","code":500}`
		})
		_, err := invocation(t.Context(), t, options)
		wantError(t, err, executor.Failed, "/bin/freeze cannot be started in container db: is it there, and executable?")
	})
})
