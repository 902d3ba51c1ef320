// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/internal/testing/controlplane"
)

const (
	// patience is the time limit for steps that take seconds.
	patience = 2 * time.Minute
	// roleVariable makes the test program start a control plane and print a line instead of
	// testing: see TestStart_ParentExit.
	roleVariable = "GRAPNEL_TEST_START_IN"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(roleVariable); dir != "" {
		startAndWait(dir)
	}
	goleak.VerifyTestMain(m)
}

// startAndWait is a parent that never stops the programs it started.
func startAndWait(dir string) {
	_, err := controlplane.Start(context.Background(), controlplane.Options{Dir: dir, ControllerManager: true})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("started")
	select {}
}

func TestStart_ControllerManager(t *testing.T) {
	ctx := t.Context()
	dir := t.TempDir()
	plane, err := controlplane.Start(ctx, controlplane.Options{
		Dir:               dir,
		ControllerManager: true,
		APIServerArgs:     map[string]string{"event-ttl": "2h"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stopAndCheck(t, plane, dir) })
	c, err := client.New(plane.Config(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}

	t.Run("a Deployment gets a ReplicaSet", func(t *testing.T) {
		createNamespace(t, c, "deploying")
		if err := c.Create(ctx, deployment("deploying")); err != nil {
			t.Fatal(err)
		}
		eventually(t, "a ReplicaSet", func(ctx context.Context) (bool, error) {
			var list appsv1.ReplicaSetList
			err := c.List(ctx, &list, client.InNamespace("deploying"))
			return len(list.Items) == 1, err
		})
	})
	t.Run("a deleted namespace disappears", func(t *testing.T) {
		namespace := createNamespace(t, c, "leaving")
		if err := c.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "leaving", Name: "x"}}); err != nil {
			t.Fatal(err)
		}
		if err := c.Delete(ctx, namespace); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the end of the namespace", func(ctx context.Context) (bool, error) {
			err := c.Get(ctx, client.ObjectKeyFromObject(namespace), &corev1.Namespace{})
			return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
		})
	})
	t.Run("a user may do what RBAC allows", func(t *testing.T) {
		config, err := plane.AddUser("jane", "developers")
		if err != nil {
			t.Fatal(err)
		}
		jane, err := client.New(config, client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := jane.List(ctx, &corev1.SecretList{}); !apierrors.IsForbidden(err) {
			t.Errorf("a user without any role lists Secrets: want Forbidden, got %v", err)
		}
	})
	t.Run("the version is known", func(t *testing.T) {
		for wanted, want := range map[string]bool{"1.29": true, "1.99": false} {
			if got, err := plane.IsAtLeast(wanted); err != nil || got != want {
				t.Errorf("it is at least %s: %t, want %t (%v)", wanted, got, want, err)
			}
		}
	})
	t.Run("kubectl works with the kubeconfig", func(t *testing.T) {
		cmd := exec.CommandContext(ctx, plane.KubectlPath(), "--kubeconfig", plane.KubeconfigPath(), "version")
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "Server Version: v1.") {
			t.Errorf("kubectl version: %v\n%s", err, out)
		}
	})

	t.Run("the API server continues after a kill", func(t *testing.T) {
		createNamespace(t, c, "before-the-kill")
		if err := plane.KillAPIServer(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the end of the API server", func(ctx context.Context) (bool, error) {
			return c.Get(ctx, client.ObjectKey{Name: "before-the-kill"}, &corev1.Namespace{}) != nil, nil
		})
		if err := plane.StartAPIServer(); err != nil {
			t.Fatal(err)
		}
		if err := c.Get(ctx, client.ObjectKey{Name: "before-the-kill"}, &corev1.Namespace{}); err != nil {
			t.Errorf("the earlier objects: %v", err)
		}
		createNamespace(t, c, "after-the-kill")
		eventually(t, "a ServiceAccount", func(ctx context.Context) (bool, error) {
			return c.Get(ctx, client.ObjectKey{Namespace: "after-the-kill", Name: "default"}, &corev1.ServiceAccount{}) == nil, nil
		})
	})
}

func TestStart_InvalidFlag(t *testing.T) {
	dir := t.TempDir()
	_, err := controlplane.Start(t.Context(), controlplane.Options{
		Dir:           dir,
		APIServerArgs: map[string]string{"no-such-flag": "x"},
	})
	if err == nil || !strings.Contains(err.Error(), "unknown flag: --no-such-flag") {
		t.Errorf("the error does not contain the output of kube-apiserver: %v", err)
	}
	checkNothingLeft(t, dir)
}

func TestStart_MissingBinaries(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "go.mod"), []byte("module github.com/grapnel-dev/grapnel\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(root)
	_, err := controlplane.Start(t.Context(), controlplane.Options{})
	if err == nil || !strings.Contains(err.Error(), "run `make control-plane`") {
		t.Errorf("want an error that says what to do, got %v", err)
	}

	oldest := filepath.Join(root, "bin", "controlplane-oldest")
	t.Setenv(controlplane.BinaryDirVariable, oldest)
	_, err = controlplane.Start(t.Context(), controlplane.Options{})
	if err == nil || !strings.Contains(err.Error(), oldest+"): run `make control-plane-oldest`") {
		t.Errorf("want an error that says what to do, got %v", err)
	}
}

// TestStart_ParentExit kills a program that has started a control plane.
func TestStart_ParentExit(t *testing.T) {
	if _, err := exec.LookPath("setpriv"); err != nil {
		t.Logf("Without setpriv, programs may outlive their parent on this machine: %v", err)
		return
	}
	dir := t.TempDir()
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), roleVariable+"="+dir)
	output, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	scanner := bufio.NewScanner(output)
	scanner.Scan()
	if scanner.Text() != "started" {
		t.Errorf("the parent printed %q", scanner.Text())
	}
	if running := running(t, dir); len(running) != 3 {
		t.Errorf("want three programs, got %q", running)
	}
	if err := parent.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // It was killed.
	eventually(t, "the end of the programs", func(context.Context) (bool, error) {
		return len(running(t, dir)) == 0, nil
	})
}

func stopAndCheck(t *testing.T, plane *controlplane.ControlPlane, dir string) {
	t.Helper()
	for range 2 {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	}
	checkNothingLeft(t, dir)
}

func checkNothingLeft(t *testing.T, dir string) {
	t.Helper()
	if left := running(t, dir); len(left) > 0 {
		t.Errorf("programs left running: %q", left)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) > 0 {
		t.Errorf("files left: %v", entries)
	}
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

func eventually(t *testing.T, what string, check wait.ConditionWithContextFunc) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, patience, true, check)
	if err != nil {
		t.Fatalf("waiting for %s: %v", what, err)
	}
}

func createNamespace(t *testing.T, c client.Client, name string) *corev1.Namespace {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := c.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	return namespace
}

func deployment(namespace string) *appsv1.Deployment {
	labels := map[string]string{"app": "web"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}}},
			},
		},
	}
}
