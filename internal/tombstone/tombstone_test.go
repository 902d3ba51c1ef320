// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package tombstone_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/selection"
	"github.com/grapnel-dev/grapnel/internal/tombstone"
)

const namespace = "grapnel-system"

// cluster returns a client of a cluster with the location main.
func cluster(t *testing.T, objects ...client.Object) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	main := &v1alpha1.BackupStorageLocation{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "main", UID: "location-1"}}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(append(objects, main)...).Build()
}

// writes counts the writes of a client.
func writes(c client.WithWatch) (counted client.WithWatch, count *int) {
	count = new(int)
	return interceptor.NewClient(c, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			*count++
			return c.Create(ctx, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			*count++
			return c.Patch(ctx, o, p, opts...)
		},
	}), count
}

func want(t *testing.T, c client.Reader, location string, data map[string]string) {
	t.Helper()
	got, err := tombstone.LoadRecords(t.Context(), c, namespace, location)
	if err != nil || !maps.Equal(got, data) {
		t.Errorf("removed from %s: %v, %v, want %v", location, got, err, data)
	}
}

// there reads the ConfigMap of a location.
func there(t *testing.T, c client.Reader, location string) *corev1.ConfigMap {
	t.Helper()
	made := &corev1.ConfigMap{}
	must(t, c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: tombstone.ConfigMapName(location)}, made))
	return made
}

// but keeps all backups except one.
func but(name string) func(string) bool {
	return func(other string) bool { return other != name }
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestAddRecords(t *testing.T) {
	c, count := writes(cluster(t))
	want(t, c, "main", nil)
	for range 2 {
		must(t, tombstone.AddRecords(t.Context(), c, c, namespace, "main", tombstone.Records{"nightly": "u-1"}))
		must(t, tombstone.AddRecords(t.Context(), c, c, namespace, "main", tombstone.Records{"weekly.1": ""}))
	}
	must(t, tombstone.AddRecords(t.Context(), c, c, namespace, "gone", tombstone.Records{"nightly": "u-2"}))
	want(t, c, "main", map[string]string{"nightly": "u-1", "weekly.1": ""})
	want(t, c, "gone", map[string]string{"nightly": "u-2"})
	if *count != 3 {
		t.Errorf("%d writes, want 3", *count)
	}

	must(t, tombstone.AddRecords(t.Context(), c, c, namespace, "main", tombstone.Records{"nightly": "u-9"}))
	want(t, c, "main", map[string]string{"nightly": "u-9", "weekly.1": ""})
	for range 2 {
		must(t, tombstone.PruneRecords(t.Context(), c, c, namespace, "main", but("nightly")))
		must(t, tombstone.PruneRecords(t.Context(), c, c, namespace, "nowhere", but("nightly")))
	}
	want(t, c, "main", map[string]string{"weekly.1": ""})
	if *count != 5 {
		t.Errorf("%d writes, want 5", *count)
	}
}

// TestAddRecords_OwnerReference: the ConfigMap is deleted with its location.
func TestAddRecords_OwnerReference(t *testing.T) {
	c := cluster(t)
	for location, owner := range map[string]string{"main": "location-1", "gone": ""} {
		must(t, tombstone.AddRecords(t.Context(), c, c, namespace, location, tombstone.Records{"nightly": "u-1"}))
		made := there(t, c, location)
		switch {
		case owner == "" && len(made.OwnerReferences) == 0:
		case len(made.OwnerReferences) != 1 || string(made.OwnerReferences[0].UID) != owner:
			t.Errorf("the owners are %+v, want %q", made.OwnerReferences, owner)
		}
		if made.Labels[tombstone.LabelLocation] != location || !selection.IsExcludedByLabel(made.Labels) {
			t.Errorf("the labels are %v", made.Labels)
		}
	}
}

func TestPruneRecords(t *testing.T) {
	c, count := writes(cluster(t))
	keep := func(name string) bool { return name != "b" }
	must(t, tombstone.PruneRecords(t.Context(), c, c, namespace, "main", keep))
	for _, name := range []string{"a", "b", "c"} {
		must(t, tombstone.AddRecords(t.Context(), c, c, namespace, "main", tombstone.Records{name: "u-" + name}))
	}
	*count = 0
	for range 2 {
		must(t, tombstone.PruneRecords(t.Context(), c, c, namespace, "main", keep))
	}
	want(t, c, "main", map[string]string{"a": "u-a", "c": "u-c"})
	if *count != 1 {
		t.Errorf("%d writes, want 1", *count)
	}
}

// TestAddRecords_ConcurrentWriters has several concurrent writers.
func TestAddRecords_ConcurrentWriters(t *testing.T) {
	c := cluster(t)
	var all sync.WaitGroup
	data := map[string]string{}
	for i := range 50 {
		name := fmt.Sprintf("b-%d", i)
		data[name] = "u"
		all.Go(func() {
			if err := tombstone.AddRecords(t.Context(), c, c, namespace, "main", tombstone.Records{name: "u"}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	want(t, c, "main", data)
}

// TestAddRecords_DeletedConfigMap deletes the ConfigMap between the read and the write.
func TestAddRecords_DeletedConfigMap(t *testing.T) {
	c := cluster(t)
	must(t, tombstone.AddRecords(t.Context(), c, c, namespace, "main", tombstone.Records{"a": "u-a"}))
	once := sync.OnceFunc(func() {
		must(t, c.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: tombstone.ConfigMapName("main")}}))
	})
	racing := interceptor.NewClient(c, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			once()
			return c.Patch(ctx, o, p, opts...)
		},
	})
	must(t, tombstone.AddRecords(t.Context(), racing, racing, namespace, "main", tombstone.Records{"b": "u-b"}))
	got, err := tombstone.LoadRecords(t.Context(), c, namespace, "main")
	if err != nil || got["b"] != "u-b" {
		t.Errorf("records %v, %v, want b among them", got, err)
	}
}

// TestAddRecords_Full: as many records as possible are written, and the error says what to do.
func TestAddRecords_Full(t *testing.T) {
	c, count := writes(cluster(t))
	must(t, tombstone.AddRecords(t.Context(), c, c, namespace, "main", tombstone.Records{"large": "u"}))
	made := there(t, c, "main")
	made.Data["large"] = strings.Repeat("x", 999_985)
	must(t, c.Update(t.Context(), made))
	*count = 0
	for range 2 {
		err := tombstone.AddRecords(t.Context(), c, c, namespace, "main", tombstone.Records{"a": "u-1", "b": strings.Repeat("u", 30), "c": "u-2", "z": "u-9"})
		for _, part := range []string{"ConfigMap main-seen-backups has 3", "2 more do not fit", "delete some backups with DeletionRuns"} {
			if !errors.Is(err, tombstone.ErrFull) || !strings.Contains(err.Error(), part) {
				t.Errorf("error %v, want ErrFull and %q", err, part)
			}
		}
	}
	got := there(t, c, "main").Data
	if delete(got, "large"); !maps.Equal(got, map[string]string{"a": "u-1", "c": "u-2"}) || *count != 1 {
		t.Errorf("records %v in %d writes", got, *count)
	}
	must(t, tombstone.PruneRecords(t.Context(), c, c, namespace, "main", but("a")))
	must(t, tombstone.AddRecords(t.Context(), c, c, namespace, "main", tombstone.Records{"n": ""}))
}

// TestAddRecords_ForeignConfigMap: a ConfigMap that does not belong to Grapnel is not changed.
func TestAddRecords_ForeignConfigMap(t *testing.T) {
	c, count := writes(cluster(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: tombstone.ConfigMapName("main")}}))
	if err := tombstone.AddRecords(t.Context(), c, c, namespace, "main", tombstone.Records{"a": "u"}); err == nil || !strings.Contains(err.Error(), "rename it") {
		t.Errorf("error %v, want the advice to rename it", err)
	}
	if *count != 0 {
		t.Errorf("%d writes, want none", *count)
	}
}

// TestAddRecords_InvalidRecords: invalid records are omitted.
func TestAddRecords_InvalidRecords(t *testing.T) {
	c := cluster(t)
	must(t, tombstone.AddRecords(t.Context(), c, c, namespace, "main", tombstone.Records{
		"": "u", "..": "u", "a/b": "u", strings.Repeat("n", 254): "u", "long": strings.Repeat("u", 71), "good": "u-1",
	}))
	want(t, c, "main", map[string]string{"good": "u-1"})
}

// TestAddRecords_OtherLocation: the records start empty if the ConfigMap belongs to another location of the same
// name, or was copied from another cluster.
func TestAddRecords_OtherLocation(t *testing.T) {
	for name, owners := range map[string][]metav1.OwnerReference{
		"of before": {{APIVersion: "grapnel.dev/v1alpha1", Kind: "BackupStorageLocation", Name: "main", UID: "location-0"}},
		"copied":    nil,
	} {
		t.Run(name, func(t *testing.T) {
			c, count := writes(cluster(t, &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: namespace, Name: tombstone.ConfigMapName("main"), Labels: map[string]string{tombstone.LabelLocation: "main"}, OwnerReferences: owners,
				},
				Data: map[string]string{"old": "u-0"},
			}))
			want(t, c, "main", nil)
			must(t, tombstone.PruneRecords(t.Context(), c, c, namespace, "main", but("old")))
			if *count != 0 {
				t.Errorf("%d writes, want none", *count)
			}
			for range 2 {
				must(t, tombstone.AddRecords(t.Context(), c, c, namespace, "main", tombstone.Records{"new": "u-1"}))
			}
			want(t, c, "main", map[string]string{"new": "u-1"})
			if made := there(t, c, "main"); *count != 1 || len(made.OwnerReferences) != 1 || made.OwnerReferences[0].UID != "location-1" {
				t.Errorf("after %d writes the ConfigMap is %+v", *count, made)
			}
		})
	}
}

func TestLoadRecords_ServerError(t *testing.T) {
	broken := apierrors.NewInternalError(errors.New("etcd is unavailable"))
	c := interceptor.NewClient(cluster(t), interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return broken
		},
	})
	if _, err := tombstone.LoadRecords(t.Context(), c, namespace, "main"); !errors.Is(err, broken) {
		t.Errorf("error %v, want %v", err, broken)
	}
	if err := tombstone.PruneRecords(t.Context(), c, c, namespace, "main", but("a")); !errors.Is(err, broken) {
		t.Errorf("error %v, want %v", err, broken)
	}
}

func TestShouldImport(t *testing.T) {
	data := tombstone.Records{}
	data.Add("a", "u-1", true)
	data.Add("found", "u-3", false)
	data.Add("any", "", false)
	for _, tc := range []struct {
		name, uid string
		want      bool
	}{
		{"a", "u-1", false},
		{"a", "u-2", true},
		{"a", "", true},
		{"any", "u-1", false},
		{"any", "", false},
		{"b", "u-1", true},
		{"found", "u-3", false},
		{"found", "u-4", true},
	} {
		if got := data.ShouldImport(tc.name, tc.uid); got != tc.want {
			t.Errorf("ShouldImport(%s, %q) = %t, want %t", tc.name, tc.uid, got, tc.want)
		}
	}
	if !tombstone.Records(nil).ShouldImport("a", "") {
		t.Error("nothing is recorded, but a is not imported")
	}
	for name, want := range map[string]bool{"a": true, "found": false, "any": false, "b": false} {
		uid := map[string]string{"a": "u-1", "found": "u-3"}[name]
		if got := data.IsCreatedHere(name, uid); got != want {
			t.Errorf("%s was created here: %t, want %t", name, got, want)
		}
	}
}

func TestConfigMapName(t *testing.T) {
	long := strings.Repeat("l", 253)
	names := map[string]bool{}
	for _, location := range []string{"main", "a.b", long, long[:252] + "x"} {
		name := tombstone.ConfigMapName(location)
		if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
			t.Errorf("%s: %v", name, problems)
		}
		names[name] = true
	}
	if len(names) != 4 {
		t.Errorf("names are shared: %v", names)
	}
}
