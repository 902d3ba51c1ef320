// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	velerov1 "github.com/vmware-tanzu/velero/pkg/apis/velero/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/internal/veleromigration"
)

// fill gives a value to every field of Velero's types.
func fill(v reflect.Value) {
	switch v.Interface().(type) {
	case metav1.Time:
		v.Set(reflect.ValueOf(metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))))
		return
	case metav1.Duration:
		v.Set(reflect.ValueOf(metav1.Duration{Duration: time.Hour}))
		return
	case runtime.RawExtension:
		v.Set(reflect.ValueOf(runtime.RawExtension{Raw: []byte(`{"name":"x"}`)}))
		return
	case metav1.FieldsV1:
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i))
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		value := reflect.New(v.Type().Elem()).Elem()
		fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("key").Convert(v.Type().Key()), value)
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint8:
		v.SetUint(7)
	default:
		panic(fmt.Sprintf("a field of type %s", v.Type()))
	}
}

// leavesOf returns the paths of all values without values below them. It is another implementation than the one that is
// tested, for objects whose keys need no quotes.
func leavesOf(path string, value any) []string {
	var leaves []string
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			below := key
			if path != "" {
				below = path + "." + key
			}
			leaves = append(leaves, leavesOf(below, v[key])...)
		}
	case []any:
		for i := range v {
			leaves = append(leaves, leavesOf(fmt.Sprintf("%s[%d]", path, i), v[i])...)
		}
	}
	if leaves == nil {
		leaves = []string{path}
	}
	return leaves
}

// TestFields converts objects in which every field of Velero's types is set. Each field must be in the result exactly once,
// and none may be unknown: then Velero has a new one.
func TestFields(t *testing.T) {
	identity := func(meta *metav1.ObjectMeta) { meta.Name, meta.Namespace, meta.Labels = "a", "velero", nil }
	for name, newObject := range map[string]func() client.Object{
		"BackupStorageLocation, s3": func() client.Object {
			l := filled(&velerov1.BackupStorageLocation{})
			identity(&l.ObjectMeta)
			l.Spec.Provider, l.Spec.Config = "aws", nil
			return l
		},
		"BackupStorageLocation, of a Plugin": func() client.Object {
			l := filled(&velerov1.BackupStorageLocation{})
			identity(&l.ObjectMeta)
			l.Spec.Provider = "azure"
			return l
		},
		"Schedule": func() client.Object {
			s := filled(&velerov1.Schedule{})
			identity(&s.ObjectMeta)
			s.Spec.Template.OrLabelSelectors = nil
			return s
		},
		"Backup": func() client.Object {
			b := filled(&velerov1.Backup{})
			identity(&b.ObjectMeta)
			b.Spec.OrLabelSelectors = nil
			return b
		},
		"Backup with several selectors": func() client.Object {
			b := filled(&velerov1.Backup{})
			identity(&b.ObjectMeta)
			b.Spec.LabelSelector = nil
			return b
		},
		"Restore": func() client.Object {
			r := filled(&velerov1.Restore{})
			identity(&r.ObjectMeta)
			r.Spec.OrLabelSelectors = nil
			return r
		},
		"Restore with several selectors": func() client.Object {
			r := filled(&velerov1.Restore{})
			identity(&r.ObjectMeta)
			r.Spec.LabelSelector, r.Spec.BackupName = nil, ""
			return r
		},
	} {
		t.Run(name, func(t *testing.T) {
			object := newObject()
			kind := reflect.TypeOf(object).Elem().Name()
			object.GetObjectKind().SetGroupVersionKind(velerov1.SchemeGroupVersion.WithKind(kind))
			checkFields(t, object)
		})
	}
}

// filled returns an object with a value in every field.
func filled[T any](object *T) *T {
	fill(reflect.ValueOf(object).Elem())
	return object
}

// checkFields converts an object and checks what became of its fields.
func checkFields(t *testing.T, object client.Object) {
	t.Helper()
	content, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	inputs, err := veleromigration.ReadFile("object", bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	conversions, err := veleromigration.Convert(inputs, veleromigration.Options{Namespace: "grapnel-system"})
	if err != nil {
		t.Fatal(err)
	}
	if len(conversions) != 1 || len(conversions[0].Objects) != 1 {
		t.Fatalf("%+v", conversions)
	}
	var paths []string
	for _, f := range conversions[0].Fields {
		if f.Note == "this field is unknown" {
			t.Errorf("%s is unknown", f.Path)
		}
		if !f.IsAdded {
			paths = append(paths, f.Path)
		}
	}
	wanted := leavesOf("", inputs[0].Object.Object)
	slices.Sort(paths)
	slices.Sort(wanted)
	if !slices.Equal(paths, wanted) {
		t.Errorf("the result has the fields\n%v\nand the object\n%v", paths, wanted)
	}
	if len(wanted) < 25 {
		t.Errorf("the object has only the fields %v", wanted)
	}
}
