// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/kube/conditions"
	"github.com/grapnel-dev/grapnel/internal/kube/run"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/internal/restore/job"
)

// location returns a location that can be used.
func location(name string, isDefault bool) *v1alpha1.BackupStorageLocation {
	l := &v1alpha1.BackupStorageLocation{ObjectMeta: metav1.ObjectMeta{Name: name}}
	l.Spec.Default = isDefault
	conditions.Set(l, v1alpha1.ConditionAvailable, metav1.ConditionTrue, "Available", "")
	return l
}

// deletion returns a DeletionRun for a Backup that has found out what is stored where.
// It was just created, or its plan is recorded.
func deletion(name string, b *v1alpha1.Backup, planned bool) *v1alpha1.DeletionRun {
	d := &v1alpha1.DeletionRun{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("d-" + name)}}
	d.Spec.BackupName = b.Name
	d.Status.BackupName, d.Status.BackupUID = b.Name, string(b.UID)
	d.Status.StoredName, d.Status.StorageLocation = b.StoredName(), b.Location()
	if planned {
		conditions.Set(d, v1alpha1.ConditionPlanned, metav1.ConditionTrue, v1alpha1.ReasonPlanRecorded, "")
	}
	return d
}

// finding finds the backup of a Restore in a cluster that has some objects, and the locations
// main, which is the default one, and other.
func finding(t *testing.T, spec v1alpha1.RestoreSpec, objects ...client.Object) (of stored, problem string) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	objects = append(objects, location("main", true), location("other", false))
	for _, object := range objects {
		object.SetNamespace("here")
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
	env := run.Environment{Client: c, Reader: c, Now: time.Now}
	r := &Reconciler{Environment: env, driver: &run.Driver[*v1alpha1.Restore]{Environment: env, Kind: run.Restore}}
	o := &v1alpha1.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: "here", Name: "again"}, Spec: spec}
	of, waiting, problems, err := r.findBackup(t.Context(), &scope{Object: o})
	if err != nil || waiting {
		t.Fatalf("waiting: %v, error %v", waiting, err)
	}
	if problems == nil && (o.Status.BackupName != of.name || o.Status.StorageLocation != of.location) {
		t.Errorf("the status has backup %q in %q, want %+v", o.Status.BackupName, o.Status.StorageLocation, of)
	}
	return of, strings.Join(problems, "; ")
}

// TestABackupWithoutStatusIsReadFromItsLocation has a backup of that name in the default
// location, too.
func TestABackupWithoutStatusIsReadFromItsLocation(t *testing.T) {
	bare := imported("nightly", v1alpha1.ImportSource{StorageLocation: "other"})
	of, problem := finding(t, v1alpha1.RestoreSpec{BackupName: "nightly"}, &bare)
	if want := (stored{"other", "nightly", ""}); of != want || problem != "" {
		t.Errorf("found %+v, %q; want %+v", of, problem, want)
	}
}

// TestWhatIsBeingDestroyedIsNotRestored has Backups in two locations, that of the other one
// under another name, and DeletionRuns at different points.
func TestWhatIsBeingDestroyedIsNotRestored(t *testing.T) {
	own := backup("nightly", "", v1alpha1.BackupPhaseCompleted, 1)
	found := imported("nightly-1", v1alpha1.ImportSource{StorageLocation: "other", BackupName: "nightly", BackupUID: "v-1"})
	ended := deletion("ended", &own, true)
	ended.Status.CompletionTimestamp = &metav1.Time{Time: time.Now()}
	told := deletion("told", &own, false)
	told.Status = v1alpha1.DeletionRunStatus{}
	for name, tc := range map[string]struct {
		spec  v1alpha1.RestoreSpec
		d     *v1alpha1.DeletionRun
		notes map[*v1alpha1.Backup]string // which DeletionRun is noted on which Backup
		gone  *v1alpha1.Backup
		by    string
	}{
		"one that is at work": {
			d: deletion("works", &own, true), notes: map[*v1alpha1.Backup]string{&own: "d-works"}, by: "works",
		},
		"without its note": {
			d: deletion("works", &own, true), by: "works",
		},
		"without the Backup": {
			d: deletion("works", &own, true), gone: &own, by: "works",
		},
		"just noted": {
			d: deletion("noted", &own, false), notes: map[*v1alpha1.Backup]string{&own: "d-noted"}, by: "noted",
		},
		"noted, and it has not found out anything": {
			d: told, notes: map[*v1alpha1.Backup]string{&own: "d-told"}, by: "told",
		},
		"one that only waits": {
			d: deletion("waits", &own, false),
		},
		"one that has ended": {
			d: ended, notes: map[*v1alpha1.Backup]string{&own: "d-ended"},
		},
		"that of another Backup, which is noted here": {
			d: deletion("works", &found, true), notes: map[*v1alpha1.Backup]string{&own: "d-works"},
		},
		"that of the Backup under another name, by its name there": {
			spec: v1alpha1.RestoreSpec{BackupName: "nightly", StorageLocation: "other"}, d: deletion("works", &found, true), by: "works",
		},
		"that is just noted": {
			spec: v1alpha1.RestoreSpec{BackupName: "nightly", StorageLocation: "other"}, d: deletion("noted", &found, false),
			notes: map[*v1alpha1.Backup]string{&found: "d-noted"}, by: "noted",
		},
		"that of the same name in the default location": {
			spec: v1alpha1.RestoreSpec{BackupName: "nightly", StorageLocation: "other"}, d: deletion("works", &own, true),
			notes: map[*v1alpha1.Backup]string{&own: "d-works"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.spec.BackupName == "" {
				tc.spec.BackupName = "nightly"
			}
			objects := []client.Object{tc.d.DeepCopy()}
			for _, b := range []*v1alpha1.Backup{&own, &found} {
				if b == tc.gone {
					continue
				}
				b = noted(b, tc.notes[b])
				objects = append(objects, b)
			}
			_, problem := finding(t, tc.spec, objects...)
			if tc.by == "" {
				contains(t, problem)
				return
			}
			contains(t, problem, `backup "nightly" in BackupStorageLocation `, "is being destroyed by DeletionRun "+tc.by, "restore another one")
		})
	}
}

// noted returns a Backup on which the UID of a DeletionRun is noted.
func noted(b *v1alpha1.Backup, uid string) *v1alpha1.Backup {
	b = b.DeepCopy()
	if uid != "" {
		b.Annotations = map[string]string{v1alpha1.AnnotationDeletedBy: uid}
	}
	return b
}

// TestWhatTheStoreAnswers is told with what to do about it.
func TestWhatTheStoreAnswers(t *testing.T) {
	r := &Reconciler{Environment: run.Environment{Redactor: redact.New()}}
	of := stored{"main", "nightly", "u-1"}
	for name, tc := range map[string]struct {
		of    stored
		found job.Found
		err   error
		want  []string
	}{
		"the one that is meant": {of: of, found: job.Found{UID: "u-1", Phase: "Completed"}},
		"nobody knows its UID":  {of: of, found: job.Found{Phase: "Completed"}},
		"any is meant":          {of: stored{"main", "nightly", ""}, found: job.Found{UID: "u-2", Phase: "PartiallyFailed"}},
		"another one": {of: of, found: job.Found{UID: "u-2" + strings.Repeat("x", 100), Phase: "Completed"}, want: []string{
			`main has another backup under the name "nightly" now`, `UID "u-2` + strings.Repeat("x", 61) + `" made it, and not "u-1"`,
			"spec.importedFrom.backupUID", "restore another backup",
		}},
		"one that failed":     {of: of, found: job.Found{UID: "u-1", Phase: "Failed"}, want: []string{`"nightly" in BackupStorageLocation main is Failed`}},
		"none":                {of: of, err: job.ErrNoBackup, want: []string{`main has no finished backup "nightly"`}},
		"one that is damaged": {of: of, err: job.ErrDamaged, want: []string{"its manifest is damaged", "from a copy"}},
		"no location":         {of: of, err: errors.New("no route"), want: []string{"main can not be used: no route"}},
	} {
		t.Run(name, func(t *testing.T) {
			problems := r.lookProblems(tc.of, &run.Ended[found]{Value: found{of: tc.of, backup: tc.found}, Err: tc.err})
			contains(t, strings.Join(problems, "; "), tc.want...)
		})
	}
}
