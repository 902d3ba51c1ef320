// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	velerov1 "github.com/vmware-tanzu/velero/pkg/apis/velero/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/operator"
	"github.com/grapnel-dev/grapnel/internal/testing/program"
	"github.com/grapnel-dev/grapnel/internal/testing/s3server"
)

// TestMigration moves a cluster from a Velero server that runs to Grapnel, with the commands of
// docs/guides/from-velero.md, and restores a backup that Velero made.
func TestMigration(t *testing.T) {
	app, backup := unique("shop"), unique("by-velero")
	newApp(t, app)
	world.SharedOperator(t)
	bucket := s3server.Start(t, s3server.Options{})
	deleteAtEnd(t,
		&v1alpha1.Schedule{ObjectMeta: grapnelObject("nightly")}, &v1alpha1.BackupStorageLocation{ObjectMeta: grapnelObject("default")},
		&velerov1.Schedule{ObjectMeta: veleroObject("nightly")}, &velerov1.BackupStorageLocation{ObjectMeta: veleroObject("default")},
	)
	configureVelero(t, app, bucket)
	startVelero(t)
	before := snapshot(t, app)
	veleroBacksUp(t, backup, app, "default")

	w := newWalk(t)
	// The exit code is 2 if a field is lost.
	w.checkOff(t, "kubectl grapnel migrate velero -n velero -o converted --report report.txt")
	w.shell(t, "kubectl grapnel migrate velero -n velero -o converted --report report.txt || [ $? = 2 ]")
	// What the velero schedule pause of the guide does: its program is not built here.
	w.checkOff(t, "velero schedule pause --all")
	w.shell(t, `kubectl patch schedules.velero.io nightly -n velero --type=merge -p '{"spec":{"paused":true}}'`)
	w.createCredentials(t, credentialsFile(bucket))
	w.run(t, "kubectl apply -f converted/backupstoragelocation-default.yaml")
	imported := env.WaitFor(t, world.Client, &v1alpha1.Backup{ObjectMeta: grapnelObject(backup)}, "it is imported", func(*v1alpha1.Backup) bool { return true })
	if imported.Spec.ImportedFrom == nil {
		t.Error("the Backup is not an imported one")
	}
	if said := w.run(t, "kubectl grapnel location get"); !regexp.MustCompile(`default +Available`).MatchString(said) {
		t.Error(said)
	}
	if said := w.run(t, "kubectl grapnel backup get"); !strings.Contains(said, backup) {
		t.Error(said)
	}
	w.run(t, "kubectl apply -f converted/schedule-nightly.yaml")
	w.runWithBackup(t, "kubectl grapnel plan restore BACKUP", backup)
	for command := range w.commands {
		t.Errorf("the test does not run %s", command)
	}

	w.shell(t, "kubectl grapnel schedule run nightly --wait")
	var backups v1alpha1.BackupList
	if err := world.Client.List(t.Context(), &backups, client.InNamespace(operator.Namespace), client.MatchingLabels{"grapnel.dev/schedule-name": "nightly"}); err != nil {
		t.Fatal(err)
	}
	if len(backups.Items) != 1 || backups.Items[0].Status.Phase != v1alpha1.RunPhaseCompleted || !lifecycle.IsFinalized(&backups.Items[0]) {
		t.Errorf("the converted Schedule has the Backups %+v", backups.Items)
	}
	remove(t, app)
	restore := unique("by-grapnel")
	grapnelRestores(t, restore, backup, app, app)
	byGrapnel(backup, restore, app, app).same(t, before)
}

// configureVelero creates what a user of Velero has: a location with credentials, and a Schedule.
func configureVelero(t *testing.T, app string, bucket *s3server.Server) {
	t.Helper()
	location := &velerov1.BackupStorageLocation{ObjectMeta: veleroObject("default")}
	location.Spec = velerov1.BackupStorageLocationSpec{
		Provider:    "velero.io/aws",
		StorageType: velerov1.StorageType{ObjectStorage: &velerov1.ObjectStorageLocation{Bucket: bucket.Bucket, Prefix: "clusters/berlin"}},
		Config:      map[string]string{"region": "us-east-1", "s3ForcePathStyle": "true", "s3Url": bucket.URL},
		Credential:  &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "cloud-credentials"}, Key: "cloud"},
	}
	schedule := &velerov1.Schedule{ObjectMeta: veleroObject("nightly")}
	schedule.Spec = velerov1.ScheduleSpec{
		Schedule: "0 3 * * *",
		Template: velerov1.BackupSpec{IncludedNamespaces: []string{app}, StorageLocation: "default", TTL: metav1.Duration{Duration: 720 * time.Hour}},
	}
	for _, object := range []client.Object{
		&corev1.Secret{ObjectMeta: veleroObject("cloud-credentials"), StringData: map[string]string{"cloud": credentialsFile(bucket)}}, location, schedule,
	} {
		env.Create(t, world.Client, object)
	}
}

// deleteAtEnd deletes objects, whose bucket is then gone, for the tests that follow.
func deleteAtEnd(t *testing.T, objects ...client.Object) {
	t.Helper()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second) // that of the test has ended
		defer cancel()
		for _, object := range objects {
			err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
				err := world.Client.Delete(ctx, object)
				return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
			})
			if err != nil {
				t.Errorf("deleting %T %s: %v", object, object.GetName(), err)
			}
		}
	})
}

// walk runs the commands of the guide, with the programs that a user has, in a directory of its own.
type walk struct {
	dir, path string
	// commands are those that were not run yet.
	commands map[string]bool
}

func newWalk(t *testing.T) *walk {
	t.Helper()
	root, err := program.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "docs", "guides", "from-velero.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, steps, found := strings.Cut(string(text), "\n## Three steps\n")
	steps, _, ends := strings.Cut(steps, "\n## ")
	if !found || !ends {
		t.Fatal("the guide has no steps")
	}
	w := &walk{dir: t.TempDir(), path: t.TempDir(), commands: map[string]bool{}}
	// The conversion of files is tested in ../migrate.
	for _, match := range regexp.MustCompile("(?m)^    ((?:kubectl|velero) .*)$|`(kubectl grapnel plan .*?)`").FindAllStringSubmatch(steps, -1) {
		if command := match[1] + match[2]; !strings.Contains(command, " -f locations.yaml ") {
			w.commands[command] = true
		}
	}
	if err := program.Build(t.Context(), filepath.Join(root, "cmd", "kubectl-grapnel"), filepath.Join(w.path, "kubectl-grapnel")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(world.ControlPlane.KubectlPath(), filepath.Join(w.path, "kubectl")); err != nil {
		t.Fatal(err)
	}
	return w
}

// run runs a command of the guide, and returns what it prints.
func (w *walk) run(t *testing.T, command string) string {
	t.Helper()
	return w.runWithBackup(t, command, "")
}

// runWithBackup runs a command of the guide with the name of a Backup.
func (w *walk) runWithBackup(t *testing.T, command, backup string) string {
	t.Helper()
	w.checkOff(t, command)
	return w.shell(t, strings.Replace(command, "BACKUP", backup, 1))
}

// checkOff removes a command of the guide from those that the test has yet to run.
func (w *walk) checkOff(t *testing.T, command string) {
	t.Helper()
	if !w.commands[command] {
		t.Fatalf("the guide does not have %s", command)
	}
	delete(w.commands, command)
}

func (w *walk) shell(t *testing.T, line string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "bash", "-c", line)
	command.Dir = w.dir
	command.Env = append(os.Environ(), "KUBECONFIG="+world.ControlPlane.KubeconfigPath(), "PATH="+w.path+":"+os.Getenv("PATH"), "HOME="+w.dir)
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return string(out)
}

// createCredentials creates the Secret of the location with the command of the report.
func (w *walk) createCredentials(t *testing.T, content string) {
	t.Helper()
	report, err := os.ReadFile(filepath.Join(w.dir, "report.txt"))
	if err != nil {
		t.Fatal(err)
	}
	command := regexp.MustCompile(`kubectl create secret generic default-credentials -n \S+ --from-file=cloud=FILE`).FindString(string(report))
	if command == "" {
		t.Fatalf("the report does not say how to create the Secret:\n%s", report)
	}
	if err := os.WriteFile(filepath.Join(w.dir, "FILE"), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	w.shell(t, command)
}
