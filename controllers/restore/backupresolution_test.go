// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/internal/restore"
)

// newLocation returns a location that can be used.
func newLocation(name string, isDefault bool) *v1alpha1.BackupStorageLocation {
	l := &v1alpha1.BackupStorageLocation{ObjectMeta: metav1.ObjectMeta{Name: name}}
	l.Spec.Default = isDefault
	conditions.Set(l, v1alpha1.ConditionAvailable, metav1.ConditionTrue, "Available", "")
	return l
}

// deletion returns a DeletionRun for a Backup that has found out what is stored where. It was
// just created, or its plan is recorded.
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

// finding resolves the backup of a Restore in a cluster with the given objects, and with the
// locations main, which is the default, and other.
func finding(t *testing.T, spec v1alpha1.RestoreSpec, objects ...client.Object) (of storedBackup, problem string) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	objects = append(objects, newLocation("main", true), newLocation("other", false))
	for _, object := range objects {
		object.SetNamespace("here")
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
	env := lifecycle.Dependencies{Client: c, Reader: c, Now: time.Now}
	r := &Reconciler{Dependencies: env, driver: &lifecycle.Driver[*v1alpha1.Restore]{Dependencies: env, Kind: lifecycle.RestoreKind}}
	o := &v1alpha1.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: "here", Name: "again"}, Spec: spec}
	of, waiting, problems, err := r.resolveBackup(t.Context(), &scope{Object: o})
	if err != nil || waiting {
		t.Fatalf("waiting: %v, error %v", waiting, err)
	}
	if problems == nil && (o.Status.BackupName != of.name || o.Status.StorageLocation != of.location) {
		t.Errorf("the status has backup %q in %q, want %+v", o.Status.BackupName, o.Status.StorageLocation, of)
	}
	return of, strings.Join(problems, "; ")
}

// TestResolveBackup_ImportWithoutStatus has a backup of the same name in the default
// location.
func TestResolveBackup_ImportWithoutStatus(t *testing.T) {
	bare := imported("nightly", v1alpha1.ImportSource{StorageLocation: "other"})
	of, problem := finding(t, v1alpha1.RestoreSpec{BackupName: "nightly"}, &bare)
	if want := (storedBackup{"other", "nightly", ""}); of != want || problem != "" {
		t.Errorf("found %+v, %q; want %+v", of, problem, want)
	}
}

// TestResolveBackup_ActiveDeletionRun has Backups in two locations, one of them under another
// name, and DeletionRuns in different states.
func TestResolveBackup_ActiveDeletionRun(t *testing.T) {
	own := backup("nightly", "", v1alpha1.RunPhaseCompleted, 1)
	found := imported("nightly-1", v1alpha1.ImportSource{StorageLocation: "other", BackupName: "nightly", BackupUID: "v-1"})
	ended := deletion("ended", &own, true)
	ended.Status.CompletionTimestamp = &metav1.Time{Time: time.Now()}
	told := deletion("told", &own, false)
	told.Status = v1alpha1.DeletionRunStatus{}
	for name, tc := range map[string]struct {
		spec  v1alpha1.RestoreSpec
		d     *v1alpha1.DeletionRun
		notes map[*v1alpha1.Backup]string // the DeletionRun that is recorded on each Backup
		gone  *v1alpha1.Backup
		by    string
	}{
		"an active one": {
			d: deletion("works", &own, true), notes: map[*v1alpha1.Backup]string{&own: "d-works"}, by: "works",
		},
		"without the annotation": {
			d: deletion("works", &own, true), by: "works",
		},
		"without the Backup": {
			d: deletion("works", &own, true), gone: &own, by: "works",
		},
		"just recorded": {
			d: deletion("noted", &own, false), notes: map[*v1alpha1.Backup]string{&own: "d-noted"}, by: "noted",
		},
		"recorded, and it has not resolved its backup": {
			d: told, notes: map[*v1alpha1.Backup]string{&own: "d-told"}, by: "told",
		},
		"one that only waits": {
			d: deletion("waits", &own, false),
		},
		"one that has ended": {
			d: ended, notes: map[*v1alpha1.Backup]string{&own: "d-ended"},
		},
		"that of another Backup, which is recorded here": {
			d: deletion("works", &found, true), notes: map[*v1alpha1.Backup]string{&own: "d-works"},
		},
		"that of the Backup under another name, by its name there": {
			spec: v1alpha1.RestoreSpec{BackupName: "nightly", StorageLocation: "other"}, d: deletion("works", &found, true), by: "works",
		},
		"that is just recorded": {
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
			contains(t, problem, `backup "nightly" in BackupStorageLocation `, "is being destroyed by DeletionRun "+tc.by, "restore another backup")
		})
	}
}

// noted returns a Backup on which the UID of a DeletionRun is recorded.
func noted(b *v1alpha1.Backup, uid string) *v1alpha1.Backup {
	b = b.DeepCopy()
	if uid != "" {
		b.Annotations = map[string]string{v1alpha1.AnnotationDeletedBy: uid}
	}
	return b
}

// TestResolveBackup_Requests has a Restore that is reconciled repeatedly while it waits: it must
// not request all Backups from the API server each time.
func TestResolveBackup_Requests(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		spec     v1alpha1.RestoreSpec
		wantName string
		wantGets int
	}{
		"a Backup by name":             {spec: v1alpha1.RestoreSpec{BackupName: "nightly-7"}, wantName: "nightly-7", wantGets: 1},
		"the newest one of a Schedule": {spec: v1alpha1.RestoreSpec{ScheduleName: "nightly"}, wantName: "nightly-199", wantGets: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scheme := runtime.NewScheme()
			if err := v1alpha1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			objects := []client.Object{newLocation("main", true)}
			for i := range 200 {
				b := backup(fmt.Sprintf("nightly-%d", i), "nightly", v1alpha1.RunPhaseCompleted, i)
				objects = append(objects, &b, deletion(fmt.Sprintf("of-another-%d", i), &v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Name: "another", UID: "u-another"}}, true))
			}
			for _, object := range objects {
				object.SetNamespace("here")
			}
			c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
			gets := 0
			reader := interceptor.NewClient(c, interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
					gets++
					return c.Get(ctx, key, object, opts...)
				},
				List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
					return fmt.Errorf("%T is listed past the cache", list)
				},
			})
			env := lifecycle.Dependencies{Client: c, Reader: reader, Now: time.Now}
			r := &Reconciler{Dependencies: env, driver: &lifecycle.Driver[*v1alpha1.Restore]{Dependencies: env, Kind: lifecycle.RestoreKind}}
			o := &v1alpha1.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: "here", Name: "again"}, Spec: tc.spec}
			of, _, problems, err := r.resolveBackup(t.Context(), &scope{Object: o})
			if err != nil || len(problems) > 0 || of.name != tc.wantName || gets != tc.wantGets {
				t.Errorf("found %+v with %d requests, want %s with %d; problems %q, error %v", of, gets, tc.wantName, tc.wantGets, problems, err)
			}
		})
	}
}

// TestResolveBackup_StaleCache has a cache that is behind the API server.
func TestResolveBackup_StaleCache(t *testing.T) {
	t.Parallel()
	running, done := backup("nightly-2", "nightly", v1alpha1.RunPhaseInProgress, 2), backup("nightly-2", "nightly", v1alpha1.RunPhaseCompleted, 2)
	older := backup("nightly-1", "nightly", v1alpha1.RunPhaseCompleted, 1)
	works := deletion("works", &done, false)
	for name, tc := range map[string]struct {
		spec         v1alpha1.RestoreSpec
		cached, live []client.Object
		wantName     string
		wantProblem  string
	}{
		"a Backup that has just completed, by name": {
			spec: v1alpha1.RestoreSpec{BackupName: "nightly-2"}, cached: []client.Object{&running}, live: []client.Object{&done}, wantName: "nightly-2",
		},
		"a Backup that has just completed, by Schedule": {
			spec: v1alpha1.RestoreSpec{ScheduleName: "nightly"}, cached: []client.Object{&older, &running}, live: []client.Object{&older, &done}, wantName: "nightly-2",
		},
		"the newest one was just removed": {
			spec: v1alpha1.RestoreSpec{ScheduleName: "nightly"}, cached: []client.Object{&older, &done}, live: []client.Object{&older}, wantName: "nightly-1",
		},
		"a DeletionRun has just claimed it": {
			spec: v1alpha1.RestoreSpec{BackupName: "nightly-2"}, cached: []client.Object{&done},
			live: []client.Object{noted(&done, "d-works"), works}, wantName: "nightly-2", wantProblem: "is being destroyed by DeletionRun works",
		},
		"a DeletionRun has just ended": {
			spec: v1alpha1.RestoreSpec{BackupName: "nightly-2"}, cached: []client.Object{noted(&done, "d-works"), works},
			live: []client.Object{noted(&done, "d-works")}, wantName: "nightly-2",
		},
		"a Backup that the cache does not have": {
			spec: v1alpha1.RestoreSpec{BackupName: "nightly-2"}, live: []client.Object{noted(&done, "d-works"), works},
			wantName: "nightly-2", wantProblem: "is being destroyed by DeletionRun works",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scheme := runtime.NewScheme()
			if err := v1alpha1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			world := func(objects []client.Object) client.Client {
				builder := fake.NewClientBuilder().WithScheme(scheme)
				for _, object := range append(slices.Clone(objects), newLocation("main", true)) {
					object, ok := object.DeepCopyObject().(client.Object)
					if !ok {
						t.Fatal("no object")
					}
					object.SetNamespace("here")
					builder.WithObjects(object)
				}
				return builder.Build()
			}
			env := lifecycle.Dependencies{Client: world(tc.cached), Reader: world(tc.live), Now: time.Now}
			r := &Reconciler{Dependencies: env, driver: &lifecycle.Driver[*v1alpha1.Restore]{Dependencies: env, Kind: lifecycle.RestoreKind}}
			o := &v1alpha1.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: "here", Name: "again"}, Spec: tc.spec}
			of, _, problems, err := r.resolveBackup(t.Context(), &scope{Object: o})
			if err != nil || of.name != tc.wantName || (tc.wantProblem == "") != (len(problems) == 0) ||
				!strings.Contains(strings.Join(problems, "; "), tc.wantProblem) {
				t.Errorf("found %+v, want %s; problems %q, want %q; error %v", of, tc.wantName, problems, tc.wantProblem, err)
			}
		})
	}
}

// TestManifestProblems checks that each problem comes with what to do about it.
func TestManifestProblems(t *testing.T) {
	r := &Reconciler{Dependencies: lifecycle.Dependencies{Redactor: redact.New()}}
	of := storedBackup{"main", "nightly", "u-1"}
	for name, tc := range map[string]struct {
		of    storedBackup
		found restore.ManifestInfo
		err   error
		want  []string
	}{
		"the one that is meant": {of: of, found: restore.ManifestInfo{UID: "u-1", Phase: "Completed"}},
		"its UID is unknown":    {of: of, found: restore.ManifestInfo{Phase: "Completed"}},
		"any is meant":          {of: storedBackup{"main", "nightly", ""}, found: restore.ManifestInfo{UID: "u-2", Phase: "PartiallyFailed"}},
		"another one": {of: of, found: restore.ManifestInfo{UID: "u-2" + strings.Repeat("x", 100), Phase: "Completed"}, want: []string{
			`main now has another backup named "nightly"`, `UID "u-2` + strings.Repeat("x", 61) + `" created it, and not "u-1"`,
			"spec.importedFrom.backupUID", "restore another backup",
		}},
		"one that failed":     {of: of, found: restore.ManifestInfo{UID: "u-1", Phase: "Failed"}, want: []string{`"nightly" in BackupStorageLocation main is Failed`}},
		"none":                {of: of, err: restore.ErrBackupNotFound, want: []string{`main has no finished backup "nightly"`}},
		"one that is damaged": {of: of, err: restore.ErrDamaged, want: []string{"its manifest is damaged", "from a copy"}},
		"no location":         {of: of, err: errors.New("no route"), want: []string{"main cannot be used: no route"}},
	} {
		t.Run(name, func(t *testing.T) {
			problems := r.manifestProblems(tc.of, &lifecycle.Result[manifestInfo]{Value: manifestInfo{requested: tc.of, backup: tc.found}, Err: tc.err})
			contains(t, strings.Join(problems, "; "), tc.want...)
		})
	}
}
