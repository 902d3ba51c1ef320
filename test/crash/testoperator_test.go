// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package crash

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
	"github.com/grapnel-dev/grapnel/internal/testing/operator"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

// testOperator is an operator with a namespace, a storage location and a plugin of its own.
// Its runs come one after the other; several lanes may be used at the same time.
type testOperator struct {
	*site
	name, dir  string
	api, store *serverProxy
	// csi is the gate of the CSI plugin, nil without it.
	csi     *serverProxy
	running atomic.Pointer[operator.Operator]
	// work is what its runs do.
	work work
	// operations says that an action starts operations.
	operations bool
	// volumes are the IDs of the volumes of the current run, if its work is about claims.
	volumes []string
	// onInterruption is the policy of its actions.
	onInterruption v1alpha1.InterruptionPolicy
	// calls is the file in which the plugin notes every call.
	calls string
	runs  int
}

// The actions of a lane's plugin: a pair, and one that only comes after the work.
func (l *testOperator) pair() string   { return l.name + ".crash.example.io/freeze" }
func (l *testOperator) single() string { return l.name + ".crash.example.io/notify" }

// mover is the action that starts operations.
func (l *testOperator) mover() v1alpha1.PluginAction {
	return v1alpha1.PluginAction{
		Kind: l.work.kind().AsyncItemActionKind, Name: l.name + ".crash.example.io/move",
		Operation: &v1alpha1.OperationPolicy{PollInterval: &metav1.Duration{Duration: 100 * time.Millisecond}},
	}
}

// newTestOperator makes a lane for a scenario. Names of lanes must not begin with each other's.
func (s *site) newTestOperator(t *testing.T, scene scenario) *testOperator {
	t.Helper()
	l := &testOperator{
		site: s, name: scene.name, work: scene.work, operations: scene.operations, dir: t.TempDir(),
		api: newServerProxy(t, s.plane.Config().Host, s.transport), store: newServerProxy(t, s.bucket.URL, http.DefaultTransport),
	}
	if scene.once {
		l.onInterruption = v1alpha1.InterruptionPolicyFail
	}
	l.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: l.name}})
	l.create(t, &corev1.Secret{ObjectMeta: l.meta("credentials"), StringData: map[string]string{
		"accessKeyID": s.bucket.AccessKey, "secretAccessKey": s.bucket.SecretKey,
	}})
	l.create(t, &v1alpha1.BackupStorageLocation{ObjectMeta: l.meta(location), Spec: v1alpha1.BackupStorageLocationSpec{
		Default: true, Prefix: l.name,
		S3: &v1alpha1.S3Location{
			Bucket: s.bucket.Bucket, Endpoint: l.store.url, Region: "us-east-1", ForcePathStyle: true,
			CredentialsSecret: &v1alpha1.SecretReference{Name: "credentials"},
		},
	}})
	l.create(t, &v1alpha1.Plugin{ObjectMeta: metav1.ObjectMeta{Name: l.name, Labels: l.labels()}, Spec: l.plugin(scene.faults(), nil)})
	if s.stack != nil {
		l.installCSIPlugin(t)
	}
	l.start(t)
	t.Cleanup(func() {
		if err := l.op().Kill(); err != nil {
			t.Error(err)
		}
	})
	l.work.setUp(t, l)
	return l
}

// partial names a run of the lane.
func (l *testOperator) partial(name string) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{ObjectMeta: l.meta(name)}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(l.work.kind().Name))
	return object
}

func (l *testOperator) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: l.name, Name: name}
}

// plugin returns a Plugin with a new file for its calls.
func (l *testOperator) plugin(faults string, more map[string]string) v1alpha1.PluginSpec {
	l.calls = filepath.Join(l.dir, fmt.Sprintf("calls-%d.jsonl", l.runs))
	actions := l.actions()
	var provided []string
	for _, action := range actions {
		provided = append(provided, string(action.Kind)+":"+action.Name)
	}
	spec := v1alpha1.PluginSpec{Actions: actions, Executor: v1alpha1.Executor{Process: &v1alpha1.ProcessExecutor{
		Command: "fault",
		Env: []v1alpha1.EnvVar{
			{Name: "FAULT_ACTIONS", Value: strings.Join(provided, ",")},
			{Name: "FAULT_CALL", Value: faults},
			{Name: "FAULT_CALL_LOG", Value: l.calls},
			{Name: "FAULT_CLEANED", Value: l.cleaned()},
			{Name: "FAULT_STARTED", Value: l.calls + "-"},
			{Name: "FAULT_OPERATIONS", Value: filepath.Join(l.dir, "operations")},
		},
	}}}
	for name, value := range more {
		spec.Executor.Process.Env = append(spec.Executor.Process.Env, v1alpha1.EnvVar{Name: name, Value: value})
	}
	return spec
}

// actions are those of the lane's plugin.
func (l *testOperator) actions() []v1alpha1.PluginAction {
	kind := l.work.kind()
	pre, post := kind.PreActionKind, kind.PostActionKind
	list := []v1alpha1.PluginAction{{Kind: pre, Name: l.pair()}, {Kind: post, Name: l.pair()}, {Kind: post, Name: l.single()}}
	if kind.HasSingleHookPoint() {
		list = []v1alpha1.PluginAction{{Kind: pre, Name: l.pair()}, {Kind: v1alpha1.ActionKindDeleteItem, Name: l.single()}}
	}
	if l.operations {
		list = append(list, l.mover())
	}
	if (l.operations || l.csi != nil) && kind.Name == lifecycle.BackupKind.Name {
		list[1].RunAfter = v1alpha1.RunAfterDataCaptured
	}
	for i := range list {
		if list[i].Selector = l.only(); list[i].Operation == nil {
			list[i].OnInterruption = l.onInterruption
		}
	}
	return list
}

// only selects the runs of the lane.
func (l *testOperator) only() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: l.labels()}
}

func (l *testOperator) labels() map[string]string {
	return map[string]string{testOperatorLabel: l.name}
}

// location is the name of the storage location of every lane.
const location = "bucket"

// testOperatorLabel keeps the actions of one lane away from the runs of another.
const testOperatorLabel = "crash.example.io/lane"

// start starts an operator whose every request goes through the lane's gates.
func (l *testOperator) start(t *testing.T) {
	t.Helper()
	op, err := operator.Start(t.Context(), operator.Options{
		Programs: l.programs, Kubeconfig: l.writeKubeconfig(t, "kubeconfig", l.api), Dir: l.dir,
		Args: []string{
			"--namespace=" + l.name,
			// Checks would write to the store at any time.
			"--location-check-interval=1h",
			// Syncs of the location would also write to the API server.
			"--backup-sync-interval=1h",
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	l.running.Store(op)
}

// writeKubeconfig writes a file for clients of a gate, and returns its path.
func (l *testOperator) writeKubeconfig(t *testing.T, name string, gate *serverProxy) string {
	t.Helper()
	path := filepath.Join(l.dir, name)
	content := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: gate, cluster: {server: %q}}]
contexts: [{name: gate, context: {cluster: gate}}]
current-context: gate
`, gate.url)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// op returns the operator that runs, or ran last.
func (l *testOperator) op() *operator.Operator { return l.running.Load() }

// kill kills the operator, and returns when it is dead.
func (l *testOperator) kill() bool {
	_ = l.op().Kill() // run finds out whether it ended
	return true
}

// ask asks the operator to end, and lets it continue until then.
func (l *testOperator) ask() bool {
	_ = syscall.Kill(l.op().PID(), syscall.SIGTERM)
	return false
}

// scratch is where the operator keeps what is not stored yet.
func (l *testOperator) scratch() string { return filepath.Join(l.dir, "scratch") }

// wipe removes what the operator keeps on its disk, as if its node were lost.
func (l *testOperator) wipe(t *testing.T) {
	t.Helper()
	if err := os.RemoveAll(l.scratch()); err != nil {
		t.Fatal(err)
	}
}

// cleaned is the file in which a DeleteItemAction notes what it was shown.
func (l *testOperator) cleaned() string { return filepath.Join(l.dir, "cleaned") }

// directory returns the prefix of the stored files of a run.
func (l *testOperator) directory(name string) string {
	return l.name + "/" + l.work.directory(name) + "/"
}

// keys returns what is stored of a run.
func (l *testOperator) keys(ctx context.Context, name string) ([]string, error) {
	var keys []string
	for entry, err := range l.objects.List(ctx, objectstore.ListOptions{Prefix: l.directory(name)}) {
		if err != nil {
			return nil, err
		}
		keys = append(keys, entry.Key)
	}
	return keys, nil
}

// replug gives the plugin another environment, and waits until the operator of the lane starts it: it may see a run
// before that, and would call the process that it has.
func (l *testOperator) replug(t *testing.T, faults string, more map[string]string) {
	t.Helper()
	var p v1alpha1.Plugin
	if err := l.client.Get(t.Context(), client.ObjectKey{Name: l.name}, &p); err != nil {
		t.Fatal(err)
	}
	before := p.DeepCopy()
	p.Spec = l.plugin(faults, more)
	if err := l.client.Patch(t.Context(), &p, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	started := fmt.Sprintf("%s-%d", l.calls, l.op().PID())
	suite.Eventually(t, func() string {
		if _, err := os.Stat(started); err != nil {
			return "the operator does not start the plugin: " + err.Error()
		}
		return ""
	})
}
