// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package operator_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/internal/testing/controlplane"
	"github.com/grapnel-dev/grapnel/internal/testing/operator"
)

// roleVariable makes the test program start an operator and print a line instead of
// testing: see TestStart_ParentExit.
const roleVariable = "GRAPNEL_TEST_RUN_OPERATOR_IN"

var (
	plane    *controlplane.ControlPlane
	programs operator.Programs
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(roleVariable); dir != "" {
		startAndWait(dir)
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx := context.Background()
	var err error
	if programs, err = operator.BuildPrograms(ctx); err != nil {
		return fail(err)
	}
	if plane, err = controlplane.Start(ctx, controlplane.Options{CRDPaths: []string{"../../../config/crd/bases"}}); err != nil {
		return fail(err)
	}
	code := m.Run()
	if err := plane.Stop(); err != nil {
		return fail(err)
	}
	return code
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}

func options(dir string) operator.Options {
	return operator.Options{Programs: programs, Kubeconfig: plane.KubeconfigPath(), Dir: dir}
}

// startAndWait is a parent that never stops the programs it started.
func startAndWait(dir string) {
	op, err := operator.Start(context.Background(), operator.Options{
		Programs:   operator.Programs{Operator: os.Getenv("OPERATOR")},
		Kubeconfig: os.Getenv("KUBECONFIG"),
		Dir:        dir,
	})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(op.PID())
	select {}
}

func TestOperator_Lifecycle(t *testing.T) {
	c, err := client.New(plane.Config(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // The second call finds the namespace.
		if err := operator.CreateNamespace(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	first := startOnFreePorts(t, options(dir))
	for _, plugin := range []string{"example", "fault"} {
		if info, err := os.Stat(filepath.Join(dir, "plugins", plugin)); err != nil || info.Mode().Perm()&0o100 == 0 {
			t.Errorf("the plugin %s is not installed as a program: %v, %v", plugin, info, err)
		}
	}
	if metrics := get(t, first.MetricsURL()); !strings.Contains(metrics, "controller_runtime_reconcile_total") {
		t.Errorf("these are not the metrics of an operator: %s", metrics)
	}
	if err := first.Kill(); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if !ended(first) || !errors.As(first.Err(), &exit) || exit.ExitCode() != -1 {
		t.Errorf("the killed operator ended with %v", first.Err())
	}
	if exists(first.PID()) {
		t.Errorf("the killed operator, process %d, still exists", first.PID())
	}

	second := startOnFreePorts(t, options(dir))
	if ended(second) || second.Err() != nil {
		t.Errorf("the second operator has ended: %v", second.Err())
	}
	for range 2 {
		if err := second.Stop(); err != nil {
			t.Errorf("stopping: %v", err)
		}
	}
	if !ended(second) || second.Err() != nil {
		t.Errorf("the stopped operator ended with %v", second.Err())
	}
	log, err := os.ReadFile(second.LogPath())
	if starts := bytes.Count(log, []byte("Starting the operator")); err != nil || starts != 2 {
		t.Errorf("the log contains %d starts, want 2 (%v)", starts, err)
	}
}

func TestStart_LogCopy(t *testing.T) {
	var log bytes.Buffer
	opts := options(t.TempDir())
	opts.Log = &log
	opts.Args = []string{"--zap-devel=true"}
	op := startOnFreePorts(t, opts)
	if err := op.Stop(); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(op.LogPath())
	if err != nil || log.Len() == 0 || log.String() != string(file) {
		t.Errorf("the copy is not the log (%v):\n%s\n--- log\n%s", err, log.String(), file)
	}
}

func TestStart_Failures(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		change func(*operator.Options)
		want   string
	}{
		"unknown flag":  {func(o *operator.Options) { o.Args = []string{"--no-such-flag"} }, "flag provided but not defined: -no-such-flag"},
		"no kubeconfig": {func(o *operator.Options) { o.Kubeconfig = "/nowhere" }, "/nowhere"},
		"no program":    {func(o *operator.Options) { o.Programs.Operator = "/nowhere" }, "/nowhere: no such file"},
		"no plugin":     {func(o *operator.Options) { o.Programs.FaultPlugin = "/nowhere" }, "installing the plugin fault"},
		"no directory":  {func(o *operator.Options) { o.Dir = file }, "not a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			opts := options(filepath.Join(dir, name))
			tc.change(&opts)
			op, err := operator.Start(t.Context(), opts)
			if err == nil {
				t.Fatalf("started: %v", op.Kill())
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error does not say %q: %v", tc.want, err)
			}
		})
	}
}

func TestStart_CanceledContext(t *testing.T) {
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	dir := t.TempDir()
	if _, err := operator.Start(ctx, options(dir)); !errors.Is(err, cause) {
		t.Errorf("error is %v, want %v", err, cause)
	}
	if left := running(t, dir); len(left) > 0 {
		t.Errorf("still running: %v", left)
	}
}

// TestStart_ParentExit kills a program that has started an operator.
func TestStart_ParentExit(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Logf("Programs may outlive their parent on %s.", runtime.GOOS)
		return
	}
	dir := t.TempDir()
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), roleVariable+"="+dir, "OPERATOR="+programs.Operator, "KUBECONFIG="+plane.KubeconfigPath())
	output, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	scanner := bufio.NewScanner(output)
	scanner.Scan()
	pid, err := strconv.Atoi(scanner.Text())
	if err != nil {
		t.Errorf("the parent printed %q", scanner.Text())
	}
	if !exists(pid) {
		t.Errorf("the operator is not process %d", pid)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // It was killed.
	err = wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		return len(running(t, dir)) == 0, nil
	})
	if err != nil {
		t.Errorf("waiting for the end of the operator: %v", err)
	}
}

func startOnFreePorts(t *testing.T, opts operator.Options) *operator.Operator {
	t.Helper()
	op, err := operator.Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := op.Kill(); err != nil {
			t.Error(err)
		}
	})
	return op
}

func ended(op *operator.Operator) bool {
	select {
	case <-op.Done():
		return true
	default:
		return false
	}
}

func exists(pid int) bool {
	return syscall.Kill(pid, 0) == nil
}

// running returns the command lines that contain a directory.
func running(t *testing.T, dir string) []string {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(content), dir) {
			found = append(found, strings.ReplaceAll(string(content), "\x00", " "))
		}
	}
	return found
}

func get(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return string(body)
}
