// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/program"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

// exampleCopy and exampleMove are the actions of the example plugin that start
// operations.
const (
	exampleCopy = "example.io/copy"
	exampleMove = "example.io/move"
)

// exampleDir is where the example plugin keeps everything.
func exampleDir() string { return filepath.Join(world.Dir, "example") }

// dataOf is the directory with the data of a claim.
func dataOf(namespace, claim string) string {
	return filepath.Join(exampleDir(), "example-data", namespace, claim)
}

// claim creates a claim with a label, and files with data.
func claim(t testing.TB, namespace, name, label string, files ...string) {
	t.Helper()
	env.Create(t, world.Client, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{label: "true"}},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("1Gi")}},
		},
	})
	for _, file := range files {
		file = filepath.Join(dataOf(namespace, name), file)
		Expect(os.MkdirAll(filepath.Dir(file), 0o700)).To(Succeed())
		Expect(os.WriteFile(file, []byte(strings.Repeat(filepath.Base(file), 1000)), 0o600)).To(Succeed())
	}
}

// sameFiles checks that a directory has files with the data of claim.
func sameFiles(t testing.TB, dir string, files ...string) {
	t.Helper()
	for _, file := range files {
		got, err := os.ReadFile(filepath.Join(dir, file))
		if want := strings.Repeat(filepath.Base(file), 1000); err != nil || string(got) != want {
			t.Errorf("%s has %d bytes, want %d: %v", file, len(got), len(want), err)
		}
	}
}

func (s site) backupOfClaims(app string) *v1alpha1.Backup {
	b := s.NewBackup(app)
	b.Spec.IncludedResources = []v1alpha1.NamePattern{"persistentvolumeclaims", "datamoves.example.io"}
	return b
}

var _ = Describe("The operations of the example plugin", Label("operations"), func() {
	It("copy the data of a claim away and back", Label("oldest"), func() {
		t := suite.Spec(GinkgoTB())
		s, app := site{world.SharedOperator(t)}, world.CreateApp(t, 0)
		files := []string{"orders", "index/1", "index/2"}
		claim(t, app, "data", "example.io/copy-data", files...)
		b := s.backupOfClaims(app)
		parameter(b, exampleCopy, "bytesPerSecond", "8000") // of 8000 bytes
		b = outcome(t, s.apply(t, b), v1alpha1.RunPhaseCompleted, "1 of 1 operation")
		sameFiles(t, filepath.Join(exampleDir(), "example-copies", string(b.UID), app, "data"), files...)
		if b.Status.Warnings > 0 {
			t.Errorf("there are warnings: %q", messages(s.results(t, b).Warnings))
		}
		o := operationOf(t, b, "data", "it has moved", func(o *v1alpha1.AsyncOperation) bool {
			p := o.Status.Progress
			return p != nil && p.Units == "bytes" && p.Total == 8000 && p.Completed > 0 && p.Completed < p.Total
		})
		if o.Spec.ActionName != exampleCopy || o.Spec.PluginRef.Name != "example" || o.Spec.Item.Resource != "persistentvolumeclaims" {
			t.Errorf("the operation is %s", describe(o))
		}
		if sums := b.Status.Operations.Sums; len(sums) != 1 || sums[0].Units != "bytes" || sums[0].Completed != 8000 || sums[0].Total != 8000 {
			t.Errorf("the sums are %+v", sums)
		}

		r := &v1alpha1.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: s.Name, GenerateName: "story-"}}
		r.Spec.BackupName = b.Name
		r.Spec.NamespaceMapping = map[string]v1alpha1.NamespaceName{app: v1alpha1.NamespaceName(app + "-again")}
		r.Spec.Parameters = map[string]v1alpha1.ParameterSet{exampleCopy: {"bytesPerSecond": "8000"}}
		env.Create(t, world.Client, r)
		r = await(t, r, "it has ended", func(r *v1alpha1.Restore) bool { return r.Status.CompletionTimestamp != nil })
		if c := r.Status.Operations; r.Status.Phase != v1alpha1.RunPhaseCompleted || c == nil || c.Attempted != 1 || c.Completed != 1 {
			t.Errorf("the Restore ended so: %s", describe(r))
		}
		sameFiles(t, dataOf(app+"-again", "data"), files...)
		if op := operationIn(t, r, "data", v1alpha1.AsyncOperationPhaseCompleted); op.Spec.Item.Namespace != app+"-again" {
			t.Errorf("the operation is about %+v", op.Spec.Item)
		}
	})

	It("survive the death of the mover", func() {
		t := suite.Spec(GinkgoTB())
		s, app := site{world.SharedOperator(t)}, world.CreateApp(t, 0)
		var files []string
		for i := range 10 {
			files = append(files, "orders/"+strconv.Itoa(i))
		}
		claim(t, app, "data", "example.io/move-data", files...)
		store := t.TempDir()
		killed := mover(t, store)
		b := s.backupOfClaims(app)
		s.apply(t, b)
		operationOf(t, b, "data", "some files are moved", func(o *v1alpha1.AsyncOperation) bool {
			return o.Status.Progress != nil && o.Status.Progress.Completed > 0 && !o.Ended()
		})
		Expect(killed.Kill()).To(Succeed())
		mover(t, store)
		b = outcome(t, b, v1alpha1.RunPhaseCompleted, "1 of 1 operation")
		o := operationIn(t, b, "data", v1alpha1.AsyncOperationPhaseCompleted)
		if o.Status.Progress.Summary != "10 of 10 files" || len(o.Spec.PostOperationItems) != 1 || o.Spec.PollInterval.Duration != time.Second {
			t.Fatalf("the operation is %s", describe(o))
		}
		move := has(s.archived(t, b), "datamoves.example.io", app, o.Spec.PostOperationItems[0].Name)
		if !contained(move, `"phase":"Completed"`, `"files":10`) {
			t.Errorf("the DataMove is archived as %q", move)
		}
		moved, err := filepath.Glob(filepath.Join(store, "*", "orders"))
		if err != nil || len(moved) != 1 {
			t.Fatalf("there are %q, %v", moved, err)
		}
		sameFiles(t, filepath.Dir(moved[0]), files...)
	})
})

// mover starts the controller of DataMoves, which moves files to a directory, until the test
// ends.
func mover(t testing.TB, store string) *program.Process {
	t.Helper()
	root, err := program.ModuleRoot()
	Expect(err).NotTo(HaveOccurred())
	binary := filepath.Join(root, "bin", "test", "programs", "mover")
	Expect(program.Build(t.Context(), filepath.Join(root, "test", "exampleplugin", "mover"), binary)).To(Succeed())
	cmd := exec.Command(binary, "-kubeconfig", world.ControlPlane.KubeconfigPath(), "-pause", "300ms",
		"-data", filepath.Join(exampleDir(), "example-data"), "-store", store)
	started, err := program.Start(cmd)
	Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() {
		if err := started.Kill(); err != nil {
			t.Error(err)
		}
	})
	return started
}
