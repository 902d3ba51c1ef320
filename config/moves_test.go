// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"context"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/s3"
	operatorprocess "github.com/grapnel-dev/grapnel/internal/testing/operator"
	"github.com/grapnel-dev/grapnel/internal/testing/s3server"
)

// testSharedVolume moves the store of config/default to a volume that several nodes mount. No
// node is there: the pod of the Job ends because the test says so.
func (s *suite) testSharedVolume(t *testing.T) {
	text := section(t, document(t), "### From the volume to one that several nodes mount")
	steps, jobs := blocks(text, "sh"), blocks(text, "yaml")
	if len(steps) != 3 || len(jobs) != 1 {
		t.Fatalf("%d blocks of commands and %d Jobs, want what is before the Job, after it, and the installation", len(steps), len(jobs))
	}
	run := func(step string) {
		t.Helper()
		for _, command := range lines(step) {
			s.shell(t, command)
		}
	}
	run(steps[0])
	s.kubectl(t, jobs[0], "apply", "--validate=strict", "-f", "-")
	pod := s.podOf(t, client.MatchingLabels{"batch.kubernetes.io/job-name": "copy-store"})
	for _, volume := range pod.Spec.Volumes {
		key := client.ObjectKey{Namespace: namespace, Name: volume.PersistentVolumeClaim.ClaimName}
		if err := s.admin.Get(t.Context(), key, &corev1.PersistentVolumeClaim{}); err != nil {
			t.Errorf("the pod that copies would wait for ever: %v", err)
		}
	}
	var operators corev1.PodList
	if err := s.admin.List(t.Context(), &operators, client.MatchingLabels{"app.kubernetes.io/component": "controller-manager"}); err != nil || len(operators.Items) > 0 {
		t.Errorf("%d operators work on the store while it is copied (%v)", len(operators.Items), err)
	}
	pod.Status.Phase = corev1.PodSucceeded
	if err := s.admin.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	run(steps[1])
	run(steps[2])
	var deployment appsv1.Deployment
	if err := s.admin.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "grapnel-controller-manager"}, &deployment); err != nil {
		t.Fatal(err)
	}
	claims := ""
	for _, volume := range deployment.Spec.Template.Spec.Volumes {
		if volume.PersistentVolumeClaim != nil {
			claims += volume.PersistentVolumeClaim.ClaimName
		}
	}
	if *deployment.Spec.Replicas != 2 || claims != "grapnel-store-shared" {
		t.Errorf("%d operators with the volume %q, want 2 with the new one", *deployment.Spec.Replicas, claims)
	}
}

// podOf waits for the pod with labels.
func (s *suite) podOf(t *testing.T, with client.MatchingLabels) *corev1.Pod {
	t.Helper()
	var pods corev1.PodList
	eventually(t, "the pod", func(ctx context.Context) (bool, error) {
		err := s.admin.List(ctx, &pods, client.InNamespace(namespace), with)
		return len(pods.Items) == 1, err
	})
	return &pods.Items[0]
}

// testBucket moves the location of the samples to a bucket, and restores from there what was
// backed up before. No operator works meanwhile.
func (s *suite) testBucket(t *testing.T, options operatorprocess.Options) {
	t.Helper()
	server := s3server.Start(t, s3server.Options{})
	copyToBucket(t, filepath.Join(options.Dir, "store", "samples"), server, "clusters/berlin")
	s.kubectl(t, "", "patch", "secret", "offsite-credentials", "-n", namespace, "-p",
		`{"stringData":{"accessKeyID":"`+server.AccessKey+`","secretAccessKey":"`+server.SecretKey+`"}}`)
	for _, command := range commands(section(t, document(t), "### From a volume to a bucket")) {
		s.shell(t, strings.NewReplacer(" main ", " samples ", "example-backups", server.Bucket, "eu-central-1", "us-east-1",
			`"s3":{`, `"s3":{"endpoint":"`+server.URL+`","forcePathStyle":true,`).Replace(command))
	}
	if err := s.admin.Delete(t.Context(), prices()); err != nil {
		t.Fatal(err)
	}
	operate(t, options)
	create(t, s.admin, &v1alpha1.Restore{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "from-the-bucket"}, Spec: v1alpha1.RestoreSpec{BackupName: "shop-simple"},
	})
	s.restored(t, "from-the-bucket")
	if err := s.admin.Get(t.Context(), client.ObjectKeyFromObject(prices()), &corev1.ConfigMap{}); err != nil {
		t.Errorf("what was backed up before is not restored: %v", err)
	}
	moved := &v1alpha1.BackupStorageLocation{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "samples"}}
	await(t, s.admin, moved, "a look at the bucket", func() bool {
		synced := conditions.Get(moved, v1alpha1.ConditionSynced)
		return synced != nil && synced.ObservedGeneration == moved.Generation && synced.Status == metav1.ConditionTrue
	})
	var backups v1alpha1.BackupList
	if err := s.admin.List(t.Context(), &backups, client.InNamespace(namespace)); err != nil || len(backups.Items) != 4 {
		t.Errorf("%d Backups, want those that were there (%v)", len(backups.Items), err)
	}
	for i := range backups.Items {
		if c := conditions.Get(&backups.Items[i], v1alpha1.ConditionDataAvailable); c != nil && c.Status == metav1.ConditionFalse {
			t.Errorf("the data of Backup %s is said to be gone: %s", backups.Items[i].Name, c.Message)
		}
	}
}

// copyToBucket copies a directory, as users do with any tool.
func copyToBucket(t *testing.T, directory string, server *s3server.Server, prefix string) {
	t.Helper()
	bucket, err := s3.New(server.S3Options())
	if err != nil {
		t.Fatal(err)
	}
	files := os.DirFS(directory)
	err = fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		file, err := files.Open(name)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }()
		_, err = bucket.Put(t.Context(), path.Join(prefix, name), file, objectstore.PutOptions{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := bucket.Close(); err != nil {
		t.Error(err)
	}
}
