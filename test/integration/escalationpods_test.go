// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

// kubelet is a node that refuses to run commands, and remembers what it was asked to run.
type kubelet struct {
	name string

	mu    sync.Mutex
	asked []string
}

func newKubelet(t testing.TB) *kubelet {
	t.Helper()
	k := &kubelet{}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.asked = append(k.asked, r.URL.Path+" "+strings.Join(r.URL.Query()["command"], " "))
		http.Error(w, "never", http.StatusForbidden)
	}))
	t.Cleanup(server.Close)
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	Expect(err).NotTo(HaveOccurred())
	number, err := strconv.ParseInt(port, 10, 32)
	Expect(err).NotTo(HaveOccurred())
	node := env.Create(t, world.Client, &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "story-"}})
	removeLater(t, node)
	// Controllers write to it at the same time.
	before := node.DeepCopy()
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(number)
	Expect(world.Client.Status().Patch(t.Context(), node, client.MergeFrom(before))).To(Succeed())
	k.name = node.Name
	return k
}

// removeLater removes an object when the test ends.
func removeLater(t testing.TB, object client.Object) {
	t.Helper()
	t.Cleanup(func() {
		err := world.Client.Delete(context.WithoutCancel(t.Context()), object, client.GracePeriodSeconds(0))
		if client.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
	})
}

// runs has a pod run on the node that has a label, with two containers.
func (k *kubelet) runs(t testing.TB, namespace string, labels map[string]string) string {
	t.Helper()
	pod := env.Create(t, world.Client, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "db-", Labels: labels},
		Spec: corev1.PodSpec{NodeName: k.name, Containers: []corev1.Container{
			{Name: "main", Image: "db"}, {Name: "other", Image: "db"},
		}},
	})
	removeLater(t, pod)
	before := pod.DeepCopy()
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	pod.Status.Phase = corev1.PodRunning
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: running}, {Name: "other", State: running}}
	Expect(world.Client.Status().Patch(t.Context(), pod, client.MergeFrom(before))).To(Succeed())
	return pod.Name
}

// take returns what the node was asked to run since the last call, without repetitions.
func (k *kubelet) take() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	taken := k.asked
	k.asked = nil
	slices.Sort(taken)
	return slices.Compact(taken)
}

// newFreeze installs a Plugin with an action before Backups and Restores, which is a command in
// all pods with the labels that are returned.
func newFreeze(t testing.TB) (action string, labels map[string]string) {
	t.Helper()
	action = own(t, "freeze")
	labels = map[string]string{"story": path.Base(action)}
	plugin := &v1alpha1.Plugin{ObjectMeta: metav1.ObjectMeta{Name: path.Base(action)}}
	plugin.Spec.Executor.PodExec = &v1alpha1.PodExecExecutor{
		Selector: metav1.LabelSelector{MatchLabels: labels}, Command: []string{"freeze", "--now"}, Target: v1alpha1.PodTargetEach,
		WhenMissing: v1alpha1.WhenMissingSkip,
	}
	plugin.Spec.Actions = pre(v1alpha1.PluginAction{Name: action, Order: 10})
	before := plugin.Spec.Actions[0]
	before.Kind = v1alpha1.ActionKindPreRestore
	plugin.Spec.Actions = append(plugin.Spec.Actions, before)
	install(t, plugin)
	return action, labels
}

var _ = Describe("The rights of authors: pods", Label("security"), func() {
	// A user who may create Backups chooses the namespaces. No command runs in the operator's.
	It("runs commands only in the namespaces of the Backup", func() {
		t := suite.Spec(GinkgoTB())
		s, jane, _ := meet(t)
		action, labels := newFreeze(t)
		node := newKubelet(t)
		app, other := world.CreateApp(t, 1), world.CreateApp(t, 1)
		const system = "kube-system"
		at := map[string]string{}
		for _, namespace := range []string{app, other, s.Name, system} {
			at[namespace] = "/exec/" + namespace + "/" + node.runs(t, namespace, labels) + "/main freeze --now"
		}
		node.runs(t, app, map[string]string{"story": "another"})
		for name, c := range map[string]struct {
			included, excluded []v1alpha1.NamePattern
			want               []string
			// ended is the phase if no command runs.
			ended v1alpha1.RunPhase
		}{
			"one":                            {included: patterns(app), want: []string{app}},
			"one, and one that is not there": {included: patterns(app, "no-such-namespace"), want: []string{app}},
			"one that is not there":          {included: patterns("no-such-namespace"), ended: v1alpha1.RunPhasePartiallyFailed},
			"those of a pattern":             {included: patterns(app[:len(app)-1]+"?", other), excluded: patterns(other[:len(other)-1] + "*"), want: []string{app}},
			"the operator's":                 {included: patterns(s.Name)},
			"the operator's, and one":        {included: patterns(s.Name, other), want: []string{other}},
			"the system's":                   {included: patterns(system), want: []string{system}},
			"all":                            {included: patterns("*"), want: []string{app, other, system}},
			"all, as nothing is named":       {want: []string{app, other, system}},
		} {
			By(name, func() {
				b := s.greedy(action)
				b.Spec.IncludedNamespaces, b.Spec.ExcludedNamespaces = c.included, c.excluded
				phase, want := cmp.Or(c.ended, v1alpha1.RunPhaseCompleted), []string(nil)
				for _, namespace := range c.want {
					phase, want = v1alpha1.RunPhaseFailedPreBackupActions, append(want, at[namespace])
				}
				slices.Sort(want)
				outcome(t, s.applyBy(t, jane, b), phase)
				env.CheckEqual(t, "commands", node.take(), want)
			})
		}
	})

	// A user who may create Restores maps a namespace to that of another user, and to the
	// operator's.
	It("runs commands only where the Restore may write", func() {
		t := suite.Spec(GinkgoTB())
		s, jane, _ := meet(t)
		action, labels := newFreeze(t)
		node := newKubelet(t)
		app, other, third := world.CreateApp(t, 1), world.CreateApp(t, 0), world.CreateApp(t, 0)
		in := map[string]string{}
		for _, namespace := range []string{app, other, third, s.Name} {
			in[namespace] = "/exec/" + namespace + "/" + node.runs(t, namespace, labels) + "/main freeze --now"
		}
		b := outcome(t, s.applyBy(t, jane, s.NewBackup(app)), v1alpha1.RunPhaseCompleted)
		removeLater(t, env.NewConfigMap(s.Name, 0))
		for name, c := range map[string]struct {
			target string
			names  []v1alpha1.NamePattern
			want   []string
			phase  v1alpha1.RunPhase
		}{
			"another's":      {other, patterns(app), []string{in[other]}, v1alpha1.RunPhaseFailedPreRestoreActions},
			"the operator's": {s.Name, patterns(app), nil, v1alpha1.RunPhaseCompleted},
			// Not in all that the cluster has: in what the backup has.
			"everything": {other, nil, []string{in[other]}, v1alpha1.RunPhaseFailedPreRestoreActions},
		} {
			By(name, func() {
				r := restoreOf(b, app, action)
				r.Spec.NamespaceMapping = map[string]v1alpha1.NamespaceName{app: v1alpha1.NamespaceName(c.target)}
				r.Spec.IncludedNamespaces = c.names
				restored(t, env.Create(t, jane, r), c.phase)
				env.CheckEqual(t, "commands", node.take(), c.want)
			})
		}
	})

	It("refuses changes of a started Backup", func() {
		t := suite.Spec(GinkgoTB())
		s, jane, _ := meet(t)
		action, labels := newFreeze(t)
		node := newKubelet(t)
		first, release := held(t, v1alpha1.ActionKindPreBackup)
		app, other := world.CreateApp(t, 1), world.CreateApp(t, 1)
		want := "/exec/" + app + "/" + node.runs(t, app, labels) + "/main freeze --now"
		node.runs(t, other, labels)
		b := s.NewBackup(app)
		b.Labels = env.LabelsForActions(first, action)
		s.applyBy(t, jane, b)
		awaitCall(t, b, v1alpha1.HookPreBackup, first)
		for change, says := range map[string]string{
			`{"spec":{"includedNamespaces":["` + other + `"]}}`:            "immutable",
			`{"spec":{"includedNamespaces":null}}`:                         "immutable",
			`{"spec":{"excludedNamespaces":["x"]}}`:                        "immutable",
			`{"spec":{"parameters":{"` + action + `":{"a":"b"}}}}`:         "immutable",
			`{"spec":{"storageLocation":"elsewhere"}}`:                     "immutable",
			`{"spec":{"importedFrom":{"storageLocation":"files"}}}`:        "immutable",
			`{"metadata":{"annotations":{"grapnel.dev/deleted-by":"me"}}}`: "only the operator",
		} {
			if err := tries(t, jane, b, change); !isRefused(err, says) {
				t.Errorf("%s: want it to be refused because it is %q, got %v", change, says, err)
			}
		}
		late := `{"metadata":{"labels":{"use-pre-fails":"yes"},"annotations":{"` + action + `.prebackup":"skip"}}}`
		Expect(tries(t, jane, b, late)).To(Succeed())
		release()
		outcome(t, b, v1alpha1.RunPhaseFailedPreBackupActions, action)
		env.CheckEqual(t, "commands", node.take(), []string{want})
		if got := len(runsOf(b)); got != 2 {
			t.Errorf("there are %d HookRuns, want 2", got)
		}
	})
})

// greedy returns a Backup whose annotations and parameters name what the command of an action
// is to be, and where it is to run.
func (s site) greedy(action string) *v1alpha1.Backup {
	b := s.NewBackup()
	b.Labels = env.LabelsForActions(action)
	b.Annotations = map[string]string{"kubectl.kubernetes.io/default-container": "other"}
	b.Spec.Parameters = map[string]v1alpha1.ParameterSet{action: {
		"command": "sh", "container": "other", "namespace": v1alpha1.ParameterValue(s.Name), "selector": "*", "; id": "`id`",
	}}
	return b
}

func patterns(names ...string) []v1alpha1.NamePattern {
	list := make([]v1alpha1.NamePattern, len(names))
	for i, name := range names {
		list[i] = v1alpha1.NamePattern(name)
	}
	return list
}
