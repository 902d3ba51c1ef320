// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/grapnel-dev/grapnel/test/node/host"
	"github.com/grapnel-dev/grapnel/test/node/proc"
)

// testLayout lies in directories of the test.
func testLayout(t *testing.T) layout {
	t.Helper()
	l := layout{Root: t.TempDir(), State: t.TempDir()}
	for _, dir := range append(l.directories(), l.logs()) {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

// TestWriteConfigs_ArgumentFiles checks that every file that the arguments of a process name is written.
func TestWriteConfigs_ArgumentFiles(t *testing.T) {
	l := testLayout(t)
	if err := errors.Join(l.writeConfigs(l.values("/cni", "native")), l.writeIdentities()); err != nil {
		t.Fatal(err)
	}
	// These are made by the processes themselves.
	made := []string{"--data-dir", "--root-dir", "--endpoint", "--dir", "--registration-socket", "--csi-address"}
	checked := 0
	for _, c := range slices.Concat(l.ground(), l.clients("/e2e"), l.storage()) {
		for _, arg := range c.args {
			name, value, _ := strings.Cut(arg, "=")
			if !strings.HasPrefix(value, "/") || slices.Contains(made, name) {
				continue
			}
			checked++
			if _, err := os.Stat(value); err != nil {
				t.Errorf("%s %s: %v", c.name, name, err)
			}
		}
	}
	if checked < 20 {
		t.Errorf("only %d arguments are files", checked)
	}
	for _, name := range l.values("", "").Volumes {
		if info, err := os.Stat(filepath.Join(l.volumes(), name)); err != nil || info.Mode().Perm() != 0o777 {
			t.Errorf("the directory of volume %s is %v, %v; want one that all can write to", name, info, err)
		}
	}
}

func TestKubeconfig(t *testing.T) {
	l := testLayout(t)
	if err := l.writeIdentities(); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", l.kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	if config.Host != "https://10.98.0.1:6443" || len(config.CAData) == 0 || len(config.CertData) == 0 || len(config.KeyData) == 0 {
		t.Errorf("the configuration is of %s, and not complete", config.Host)
	}
	if info, err := os.Stat(l.kubeconfig()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the kubeconfig is %v, %v; want one for its owner only", info, err)
	}
}

// TestIdentities checks the names that Kubernetes' own roles are bound to.
func TestIdentities(t *testing.T) {
	all := identities()
	for name, want := range map[string]string{
		"kubelet": "system:node:e2e [system:nodes]", "kube-proxy": "system:kube-proxy []", "kube-scheduler": "system:kube-scheduler []",
		"kube-controller-manager": "system:kube-controller-manager []", "admin": "admin [system:masters]",
	} {
		if got := fmt.Sprint(all[name].CommonName, " ", all[name].Organizations); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	for _, address := range []string{bridgeAddress, apiService} {
		if !slices.ContainsFunc(all["kube-apiserver"].Addresses, net.ParseIP(address).Equal) {
			t.Errorf("the API server's certificate is not for %s", address)
		}
	}
}

func TestRecord(t *testing.T) {
	state := t.TempDir()
	if _, there, err := up(state); there || err != nil {
		t.Errorf("with nothing there: %v, %v", there, err)
	}
	own, err := proc.Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	r := &record{
		Root: "/src", Began: time.Now().UTC().Truncate(0), Boot: own.Boot, Settings: host.Settings{"a/b": "1"},
		Absent: []string{"/x"}, Processes: map[string]proc.ID{etcd: own},
	}
	if err := r.write(state); err != nil {
		t.Fatal(err)
	}
	got, there, err := up(state)
	if err != nil || !there || !reflect.DeepEqual(got, r) {
		t.Errorf("got %+v, %v, %v; want %+v", got, there, err, r)
	}
	if !got.alive(etcd) || got.alive(kubelet) {
		t.Error("what runs does not, or what does not does")
	}
	if err := os.WriteFile(filepath.Join(state, "record.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, there, err := up(state); there || err == nil {
		t.Error("a broken record is read")
	}
}

// TestRemoveRemains refuses to take down a cluster that runs, and takes down what is left of one.
func TestRemoveRemains(t *testing.T) {
	own, err := proc.Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	earlier := own
	earlier.Boot = "before"
	for name, tc := range map[string]struct {
		record  *record
		isError bool
	}{
		"one process runs": {&record{Boot: own.Boot, Processes: map[string]proc.ID{kubelet: earlier, etcd: own}}, true},
		"none runs":        {&record{Boot: earlier.Boot, Processes: map[string]proc.ID{etcd: earlier}}, false},
		"there was none":   {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := testLayout(t)
			if tc.record != nil {
				if err := tc.record.write(l.State); err != nil {
					t.Fatal(err)
				}
			}
			if err := l.removeRemains(t.Context(), io.Discard); (err != nil) != tc.isError {
				t.Errorf("the error is %v", err)
			}
			if _, isUp, err := up(l.State); isUp != tc.isError || err != nil {
				t.Errorf("there is a record: %v, %v", isUp, err)
			}
		})
	}
}

func TestLock(t *testing.T) {
	const name = "@grapnel-e2e-test"
	unlock, err := lock(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lock(name); err == nil {
		t.Error("it is locked twice")
	}
	unlock()
	again, err := lock(name)
	if err != nil {
		t.Fatalf("it stays locked: %v", err)
	}
	again()
}

func TestWithoutKnown(t *testing.T) {
	known, other, restarted := proc.ID{PID: 1, Start: 5}, proc.ID{PID: 2, Start: 5}, proc.ID{PID: 1, Start: 6}
	got := withoutKnown([]proc.ID{known, other, restarted}, &record{Processes: map[string]proc.ID{etcd: known}})
	if !slices.Equal(got, []proc.ID{other, restarted}) {
		t.Errorf("got %v", got)
	}
}

func TestNodeReady(t *testing.T) {
	ready := func(status corev1.ConditionStatus) []corev1.NodeCondition {
		return []corev1.NodeCondition{{Type: corev1.NodeMemoryPressure}, {Type: corev1.NodeReady, Status: status, Message: "because"}}
	}
	cases := map[string]struct {
		taints     []corev1.Taint
		conditions []corev1.NodeCondition
		want       string
	}{
		"ready":       {nil, ready(corev1.ConditionTrue), ""},
		"tainted":     {[]corev1.Taint{{Key: "not-ready"}}, ready(corev1.ConditionTrue), "the taint not-ready"},
		"not ready":   {nil, ready(corev1.ConditionFalse), "not ready: because"},
		"lost":        {nil, ready(corev1.ConditionUnknown), "not ready: because"},
		"just joined": {nil, nil, "has not said yet"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			node := &corev1.Node{Spec: corev1.NodeSpec{Taints: c.taints}, Status: corev1.NodeStatus{Conditions: c.conditions}}
			err := nodeReady(node)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, want %q", err, c.want)
			}
		})
	}
}

func TestLastLines(t *testing.T) {
	long := strings.Repeat("x", 2000)
	cases := map[string]struct{ text, want string }{
		"none":  {"", ""},
		"fewer": {"a\n", "a"},
		"more":  {"a\nb\nc\n", "b\nc"},
		"long":  {long, strings.Repeat("x", 1000) + "…"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := lastLines(c.text, 2); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestAwait_EndedProcess starts a process that ends at once: whoever waits has to be told, with
// what it said.
func TestAwait_EndedProcess(t *testing.T) {
	l := testLayout(t)
	p := &processes{layout: l, record: &record{Processes: map[string]proc.ID{}}, ended: map[string]error{}}
	if err := p.start(component{name: etcd, program: "sh", args: []string{"-c", "echo no disk; exit 7"}}); err != nil {
		t.Fatal(err)
	}
	err := p.await(t.Context(), "what never comes", nil, func(context.Context) error { return errors.New("not yet") })
	for _, want := range []string{"etcd has ended", "exit status 7", "no disk"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want one with %q", err, want)
		}
	}
}

// TestRecord_Stop starts a process, forgets it, and stops it by its record.
func TestRecord_Stop(t *testing.T) {
	l := testLayout(t)
	p := &processes{layout: l, record: &record{Processes: map[string]proc.ID{}}, ended: map[string]error{}}
	if err := p.start(component{name: kubelet, program: "sleep", args: []string{"1000"}}); err != nil {
		t.Fatal(err)
	}
	r, there, err := up(l.State)
	if err != nil || !there || !r.alive(kubelet) {
		t.Fatalf("recorded is %+v, %v", r, err)
	}
	marked, err := proc.Marked(l.marker())
	if err != nil || !slices.Contains(marked, r.Processes[kubelet]) {
		t.Errorf("it is not among the marked: %v, %v", marked, err)
	}
	if err := r.stop(t.Context(), kubelet, scheduler); err != nil || r.alive(kubelet) {
		t.Errorf("it still runs: %v", err)
	}
}
