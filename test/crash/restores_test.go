// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package crash

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/storage"
)

// restores restore the two namespaces of testdata/restored.yaml into two others, which
// each run has for its own.
type restores struct {
	// defines says that they bring custom resources, their definition, and cluster-wide
	// rights, see testdata/defined.yaml. All of that is removed before each run.
	defines bool
	// chosen says that namespaces are chosen. What is cluster-scoped comes along only
	// as far as they need it.
	chosen bool
	// operations says that some of the objects have operations, see testdata/moved.yaml.
	operations bool
	// policy says what becomes of what exists. If it is set, each run finds all objects
	// of the namespaces, and each of them differs.
	policy v1alpha1.ExistingResourcePolicy
}

// Patterns of the writes of a Restore to the cluster.
var (
	// placed are those to its namespaces, and into them.
	placed = regexp.MustCompile(`/namespaces(/NAME-| |$)`)
	// own are those to objects of Grapnel.
	own = regexp.MustCompile(`/apis/grapnel\.dev/`)
	// recorded are those to the Restore itself.
	recorded = regexp.MustCompile(`/restores/`)
	// defined are those of definitions.
	defined = regexp.MustCompile(`/customresourcedefinitions`)
)

func (restores) kind() lifecycle.KindTraits { return lifecycle.RestoreKind }

func (restores) directory(name string) string { return "restores/" + name }

// backup is the name of what all Restores of a lane restore.
func (restores) backup(l *testOperator) string { return l.name + "-data" }

// setUp makes the backup.
func (r restores) setUp(t *testing.T, l *testOperator) {
	t.Helper()
	for _, object := range r.source(t, l) {
		l.createServed(t, object)
	}
	b := &v1alpha1.Backup{ObjectMeta: l.meta(r.backup(l))}
	b.Spec.IncludedNamespaces = []v1alpha1.NamePattern{v1alpha1.NamePattern(l.name + "-*")}
	last, ends := l.follow(t, b, disturbance{api: &trap{}, store: &trap{}})
	if ends > 0 || last.GetPhase() != v1alpha1.RunPhaseCompleted {
		t.Fatalf("the backup to restore is %s", l.describe(b.Name, last))
	}
}

func (r restores) begin(t *testing.T, l *testOperator, name string) lifecycle.Object {
	t.Helper()
	if r.defines {
		l.removeDefined(t, r.source(t, l))
	}
	if r.policy != "" {
		for _, object := range different(read(t, "testdata/restored.yaml", name)) {
			l.create(t, object)
		}
	}
	o := &v1alpha1.Restore{ObjectMeta: l.meta(name)}
	o.Spec.BackupName = r.backup(l)
	o.Spec.ExistingResourcePolicy = r.policy
	o.Spec.NamespaceMapping = map[string]v1alpha1.NamespaceName{}
	for _, suffix := range []string{"-shop", "-stock", "-moved"} {
		o.Spec.NamespaceMapping[l.name+suffix] = v1alpha1.NamespaceName(name + suffix)
		if r.chosen {
			o.Spec.IncludedNamespaces = append(o.Spec.IncludedNamespaces, v1alpha1.NamePattern(l.name+suffix))
		}
	}
	if r.defines {
		o.Spec.RestoreStatus = &v1alpha1.RestoreStatusSpec{IncludedResources: []v1alpha1.NamePattern{
			v1alpha1.NamePattern("parts." + l.name + ".example.io"),
		}}
	}
	return o
}

// source returns what is in the backup.
func (r restores) source(t *testing.T, l *testOperator) []*unstructured.Unstructured {
	t.Helper()
	objects := read(t, "testdata/restored.yaml", l.name)
	if r.defines {
		objects = append(objects, read(t, "testdata/defined.yaml", l.name)...)
	}
	if r.operations {
		objects = append(objects, read(t, "testdata/moved.yaml", l.name+"-moved")...)
	}
	return objects
}

// left returns the objects of the cluster that the Restore wrote, and what it says of
// them.
func (r restores) left(t *testing.T, l *testOperator, o lifecycle.Object, _ int) map[string]string {
	t.Helper()
	found := l.written(t, r.source(t, l), o.GetName())
	for _, file := range []storage.RestoreFile{storage.RestoreResults, storage.RestoreResourceList} {
		text, err := l.stored(t.Context(), storage.RestoreFileKey(l.name, o.GetName(), file))
		if err != nil {
			t.Error(err)
		}
		found[string(file)] = string(text)
	}
	if status := o.(*v1alpha1.Restore).Status; lifecycle.IsCompletedOrPartiallyFailed(o) {
		found[counts] = text(t, status.Counts)
		found["progress"] = text(t, status.Progress)
	}
	return found
}

// counts is the name of the numbers of objects in what is left.
const counts = "counts"

func text(t *testing.T, value any) string {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// outcomes are those of the objects of a resource, in the results.
var outcomes = regexp.MustCompile(`"outcomes":\{[^}]*\}`)

// recreatedIsCreated makes no difference between objects that were recreated and
// created. What an operator deleted and did not live to create again did not exist for
// the next one; nothing else may differ.
func recreatedIsCreated(t *testing.T, r result) result {
	t.Helper()
	var same result
	if err := json.Unmarshal([]byte(strings.ReplaceAll(text(t, r), "(recreated)", "(created)")), &same); err != nil {
		t.Fatal(err)
	}
	var c v1alpha1.RestoreCounts
	if err := json.Unmarshal([]byte(same.Left[counts]), &c); err != nil {
		t.Fatal(err)
	}
	c.Created, c.Recreated = c.Created+c.Recreated, 0
	same.Left[counts] = text(t, c)
	same.Message = "" // it has the same numbers
	for name, object := range same.Left {
		object = outcomes.ReplaceAllString(object, `"outcomes":{}`) // those of a resource have the same numbers, too
		same.Left[name] = strings.ReplaceAll(object, `"grapnel.dev/restored":"recreated `, `"grapnel.dev/restored":"created `)
	}
	return same
}
