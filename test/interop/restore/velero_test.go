// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	velerov1 "github.com/vmware-tanzu/velero/pkg/apis/velero/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/program"
	"github.com/grapnel-dev/grapnel/internal/testing/s3server"
)

// veleroPrograms is what was built of Velero.
type veleroPrograms struct {
	server string
	// plugins is a directory with the plugin for S3.
	plugins string
	crds    []string
}

// veleroPlugin is a program that nothing can import, which is why program.Build can
// not build it.
const veleroPlugin = "github.com/vmware-tanzu/velero-plugin-for-aws/velero-plugin-for-aws"

// buildVelero compiles Velero, which takes minutes the first time on a machine.
func buildVelero(ctx context.Context) (veleroPrograms, error) {
	root, err := program.ModuleRoot()
	if err != nil {
		return veleroPrograms{}, err
	}
	source := filepath.Join(root, "test", "interop", "velero")
	dir := filepath.Join(root, "bin", "test", "velero")
	p := veleroPrograms{server: filepath.Join(dir, "velero"), plugins: filepath.Join(dir, "plugins")}
	module, err := goCommand(ctx, source, "list", "-m", "-f", "{{.Dir}}", "github.com/vmware-tanzu/velero")
	if err != nil {
		return p, err
	}
	for _, version := range []string{"v1", "v2alpha1"} {
		p.crds = append(p.crds, filepath.Join(module, "config", "crd", version, "bases"))
	}
	for target, pkg := range map[string]string{dir: ".", p.plugins: veleroPlugin} {
		if err := os.MkdirAll(target, 0o755); err != nil {
			return p, err
		}
		if _, err := goCommand(ctx, source, "build", "-buildvcs=false", "-ldflags=-s -w", "-o", target+"/", pkg); err != nil {
			return p, err
		}
	}
	return p, nil
}

// goCommand runs go and returns the first line that it prints.
func goCommand(ctx context.Context, dir string, args ...string) (string, error) {
	var problems bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Stderr = dir, &problems
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, problems.Bytes())
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return line, nil
}

// prepareVelero makes what an installation of Velero has in the cluster.
func prepareVelero(ctx context.Context) error {
	labels := map[string]string{"component": "velero"}
	replicas := int32(0)
	// A restore reads its settings, although the server runs outside the cluster.
	deployment := &appsv1.Deployment{ObjectMeta: veleroObject("velero")}
	deployment.Spec.Replicas = &replicas
	deployment.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	deployment.Spec.Template.Labels = labels
	deployment.Spec.Template.Spec.Containers = []corev1.Container{{Name: "velero", Image: "example.io/velero"}}
	location := &velerov1.BackupStorageLocation{ObjectMeta: veleroObject("bucket")}
	location.Spec = velerov1.BackupStorageLocationSpec{
		Provider: "velero.io/aws", Default: true,
		StorageType: velerov1.StorageType{ObjectStorage: &velerov1.ObjectStorageLocation{Bucket: world.bucket.Bucket}},
		Config:      map[string]string{"region": "us-east-1", "s3ForcePathStyle": "true", "s3Url": world.bucket.URL},
	}
	return errors.Join(
		world.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: velerov1.DefaultNamespace}}),
		world.Client.Create(ctx, deployment),
		world.Client.Create(ctx, location),
	)
}

func veleroObject(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: velerov1.DefaultNamespace, Name: name}
}

// stopTimeout is for a server that waits for its plugins to end.
const stopTimeout = 30 * time.Second

// startVelero starts a server until stop is called or the test ends, and waits until
// it can use its locations.
func startVelero(t *testing.T) (stop func()) {
	t.Helper()
	path := filepath.Join(world.Dir, "velero.log")
	log, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	// As a file: variables with keys would also count for locations that have credentials of their own.
	credentials := filepath.Join(t.TempDir(), "credentials")
	if err := os.WriteFile(credentials, []byte(credentialsFile(world.bucket)), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(world.velero.server, "server",
		"--kubeconfig="+world.ControlPlane.KubeconfigPath(),
		"--plugin-dir="+world.velero.plugins,
		"--metrics-address=127.0.0.1:0", "--profiler-address=", "--log-level=warning",
		"--backup-sync-period=1s", "--store-validation-frequency=1s",
	)
	cmd.Env = append(os.Environ(),
		"AWS_SHARED_CREDENTIALS_FILE="+credentials, "AWS_EC2_METADATA_DISABLED=true", "TMPDIR="+world.Dir, "VELERO_NAMESPACE="+velerov1.DefaultNamespace)
	cmd.Dir, cmd.Stdout, cmd.Stderr = world.Dir, log, log
	// Its plugins hold its output open if they end after it.
	cmd.WaitDelay = 5 * time.Second
	process, err := program.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	stop = func() {
		if err := process.Stop(stopTimeout); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of Velero's log:\n%s", lastLines(path, 60))
		}
		stop()
		_ = log.Close() // Velero wrote to it, nothing here did.
	})
	var locations velerov1.BackupStorageLocationList
	if err := world.Client.List(t.Context(), &locations); err != nil {
		t.Fatal(err)
	}
	for i := range locations.Items {
		env.WaitFor(t, world.Client, &locations.Items[i], "it is available", func(l *velerov1.BackupStorageLocation) bool {
			select {
			case <-process.Done():
				t.Fatalf("Velero has ended: %v", process.Err())
			default:
			}
			return l.Status.Phase == velerov1.BackupStorageLocationPhaseAvailable
		})
	}
	return stop
}

// credentialsFile returns the file by which tools of AWS know the keys of a bucket.
func credentialsFile(bucket *s3server.Server) string {
	return fmt.Sprintf("[default]\naws_access_key_id = %s\naws_secret_access_key = %s\n", bucket.AccessKey, bucket.SecretKey)
}

// lastLines returns the end of a log, or why it cannot be read.
func lastLines(path string, n int) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// veleroBacksUp backs a namespace up to a location.
func veleroBacksUp(t *testing.T, name, app, location string) {
	t.Helper()
	b := &velerov1.Backup{ObjectMeta: veleroObject(name)}
	b.Spec.IncludedNamespaces, b.Spec.StorageLocation = []string{app}, location
	b = env.WaitFor(t, world.Client, env.Create(t, world.Client, b), "it has ended", func(b *velerov1.Backup) bool {
		return b.Status.CompletionTimestamp != nil || len(b.Status.ValidationErrors) > 0
	})
	if b.Status.Phase != velerov1.BackupPhaseCompleted {
		t.Fatalf("Velero's Backup ended %s: %+v", b.Status.Phase, b.Status)
	}
}

// veleroRestores waits until Velero has found a backup in the bucket, and has it
// restored.
func veleroRestores(t *testing.T, name, backup string) {
	t.Helper()
	env.WaitFor(t, world.Client, &velerov1.Backup{ObjectMeta: veleroObject(backup)}, "it was found in the bucket",
		func(b *velerov1.Backup) bool { return b.Status.Phase == velerov1.BackupPhaseCompleted })
	r := &velerov1.Restore{ObjectMeta: veleroObject(name)}
	r.Spec.BackupName = backup
	r = env.WaitFor(t, world.Client, env.Create(t, world.Client, r), "it has ended", func(r *velerov1.Restore) bool {
		return r.Status.CompletionTimestamp != nil || len(r.Status.ValidationErrors) > 0
	})
	if r.Status.Phase != velerov1.RestorePhaseCompleted {
		t.Fatalf("Velero's Restore ended %s: %+v", r.Status.Phase, r.Status)
	}
	t.Logf("Velero: %d of %d items restored, %d warnings",
		r.Status.Progress.ItemsRestored, r.Status.Progress.TotalItems, r.Status.Warnings)
}
