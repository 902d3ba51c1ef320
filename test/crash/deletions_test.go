// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package crash

import (
	"errors"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
)

// deletions delete a backup that has a Restore. Each run creates both for itself,
// undisturbed.
type deletions struct{}

// called are the writes that have to do with the calls of DeleteActions.
var called = regexp.MustCompile(`/hookruns`)

func (deletions) kind() lifecycle.KindTraits { return lifecycle.DeletionRunKind }

func (deletions) setUp(*testing.T, *testOperator) {}

// victim is the name of the Backup that a DeletionRun destroys, and of its Restore.
func victim(name string) string { return name + "-victim" }

func (deletions) directory(name string) string { return "backups/" + victim(name) }

func (deletions) begin(t *testing.T, l *testOperator, name string) lifecycle.Object {
	t.Helper()
	b := backups{data: smallData}.begin(t, l, victim(name))
	b.SetLabels(l.labels())
	o := &v1alpha1.Restore{ObjectMeta: l.meta(victim(name)), Spec: v1alpha1.RestoreSpec{BackupName: b.GetName()}}
	for _, object := range []lifecycle.Object{b, o} {
		if last, ends := l.follow(t, object, disturbance{api: &trap{}, store: &trap{}}); ends > 0 || last.GetPhase() != v1alpha1.RunPhaseCompleted {
			t.Fatalf("what is to be destroyed is %s", l.describe(object.GetName(), last))
		}
	}
	if err := os.Remove(l.cleaned()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	d := &v1alpha1.DeletionRun{ObjectMeta: l.meta(name)}
	d.Spec.BackupName = b.GetName()
	return d
}

// left returns what a DeletionRun says that it did. It checks that nothing else is left
// of the backup: no object, and no file of its Restore. Those of the Backup are compared
// anyway.
func (deletions) left(t *testing.T, l *testOperator, o lifecycle.Object, ends int) map[string]string {
	t.Helper()
	key := types.NamespacedName{Namespace: l.name, Name: victim(o.GetName())}
	for _, object := range []client.Object{&v1alpha1.Backup{}, &v1alpha1.Restore{}} {
		if err := l.client.Get(t.Context(), key, object); !apierrors.IsNotFound(err) {
			t.Errorf("the %T is still there, or not: %v", object, err)
		}
	}
	for entry, err := range l.objects.List(t.Context(), objectstore.ListOptions{Prefix: l.name + "/restores/" + key.Name + "/"}) {
		t.Errorf("of the Restore there is still %s (%v)", entry.Key, err)
	}
	status := o.(*v1alpha1.DeletionRun).Status
	return map[string]string{
		"left behind":  strings.Join(status.LeftBehind, "\n"),
		"item actions": text(t, status.DeleteItemActions),
		"shown":        strings.Join(l.shown(t, ends), "\n"),
	}
}

// shown returns what the DeleteItemAction was shown, and checks that nothing was shown
// again without need.
func (l *testOperator) shown(t *testing.T, ends int) []string {
	t.Helper()
	content, err := os.ReadFile(l.cleaned())
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	slices.Sort(lines)
	different := slices.Compact(slices.Clone(lines))
	if len(lines) > len(different)*(1+ends) {
		t.Errorf("a DeleteItemAction was shown %q, and the operator ended %d times", lines, ends)
	}
	return different
}
