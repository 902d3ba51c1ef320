// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/plugin/catalog"
	pluginclient "github.com/grapnel-dev/grapnel/internal/plugin/client"
	"github.com/grapnel-dev/grapnel/internal/plugin/host"
	"github.com/grapnel-dev/grapnel/sdk/item"
)

// backupItemV3 calls the version 3 of BackupItemAction that exists only in these tests.
// Together with its line in the table, it is all that a host needs for a new version.
type backupItemV3 struct{}

var _ pluginclient.BackupItemAction = backupItemV3{}

// AppliesTo makes no call: version 3 has no such method, its actions see every object.
func (backupItemV3) AppliesTo(context.Context, pluginclient.ItemCall) (item.Selector, error) {
	return item.Selector{}, nil
}

// Execute sends everything in one message.
func (backupItemV3) Execute(
	ctx context.Context, call pluginclient.ItemCall, object, backup []byte,
) (pluginclient.BackupItemAnswer, error) {
	in, err := structpb.NewStruct(map[string]any{
		"plugin": call.Action, "key": call.Key, "item": string(object), "backup": string(backup),
	})
	if err != nil {
		return pluginclient.BackupItemAnswer{}, err
	}
	out := &structpb.Struct{}
	err = call.Conn.Invoke(ctx, "/"+itemV3Name+"/Execute", in, out)
	return pluginclient.BackupItemAnswer{Item: []byte(out.GetFields()["item"].GetStringValue())}, err
}

// Progress and Cancel are as in version 1: this version starts no operations.
func (backupItemV3) Progress(context.Context, pluginclient.ItemCall, pluginclient.OperationRef) (item.Progress, error) {
	return item.Progress{}, pluginclient.ErrOperationsUnsupported
}

func (backupItemV3) Cancel(context.Context, pluginclient.ItemCall, pluginclient.OperationRef) error {
	return nil
}

// kindsWithV3 is the table of a Grapnel that knows version 3.
func kindsWithV3() []pluginclient.ActionKind {
	kinds := pluginclient.SupportedKinds()
	i := slices.IndexFunc(kinds, func(k pluginclient.ActionKind) bool { return k.Name == "BackupItemAction" })
	kinds[i].Versions = append([]pluginclient.ActionVersion{{Name: "v3", BackupItem: backupItemV3{}}}, kinds[i].Versions...)
	return kinds
}

// versioned is a plugin that offers its action in the listed versions.
func versioned(t *testing.T, versions string) catalog.Spec {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return catalog.Spec{Name: "p", Process: catalog.ProcessSpec{
		Path: self, Env: map[string]string{"CATALOG_TEST_VERSIONS": versions}, StartTimeout: safety,
	}}
}

// show calls the action with one object.
func show(t *testing.T, c *catalog.Catalog, object string) (pluginclient.BackupItemAnswer, error) {
	t.Helper()
	var answer pluginclient.BackupItemAnswer
	call, err := pluginclient.NewCaller(c.BackupItemAction("p", "", versionedAction), c.Redactor()).Begin(t.Context(), host.Call{Key: "run"})
	if err != nil {
		return answer, err
	}
	on := pluginclient.ItemCall{Conn: call.Conn(), Action: versionedAction, CallID: call.ID(), Key: "run"}
	answer, err = call.Action.Execute(t.Context(), on, []byte(object), nil)
	call.End(&err)
	return answer, err
}

// TestLoad_Versions is the worked example of docs/plugins/VERSIONING.md: old and new plugins
// under old and new hosts.
func TestLoad_Versions(t *testing.T) {
	for name, tc := range map[string]struct {
		kinds   []pluginclient.ActionKind
		offered string
		want    string
		// operation is true if the result that only version 2 supports arrives.
		operation string
	}{
		"new host, new plugin":             {kinds: kindsWithV3(), offered: "v3,v2", want: "v3"},
		"new host, newest plugin":          {kinds: kindsWithV3(), offered: "v3", want: "v3"},
		"new host, older plugin":           {kinds: kindsWithV3(), offered: "v2,v1", want: "v2", operation: "op"},
		"new host, oldest plugin":          {kinds: kindsWithV3(), offered: "v1", want: "v1"},
		"old host, new plugin":             {offered: "v3,v2", want: "v2", operation: "op"},
		"old host, plugin with all":        {offered: "v1,v2,v3", want: "v2", operation: "op"},
		"old host, newest and oldest":      {offered: "v3,v1", want: "v1"},
		"old host, plugin of the same age": {offered: "v2", want: "v2", operation: "op"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCatalog(t, catalog.Options{Kinds: tc.kinds})
			load(t, c, versioned(t, tc.offered))
			answer, err := show(t, c, "{}")
			if want := `{"calledBy":"` + tc.want + `"}`; err != nil || string(answer.Item) != want || answer.OperationID != tc.operation {
				t.Errorf("response is %s with operation %q, error %v; want %s with %q", answer.Item, answer.OperationID, err, want, tc.operation)
			}
		})
	}
}

// TestLoad_NotAdaptable checks that a host that is too old reports the versions of both sides.
func TestLoad_NotAdaptable(t *testing.T) {
	c := newCatalog(t, catalog.Options{})
	_, err := c.Load(t.Context(), versioned(t, "v3"))
	var failed *catalog.LoadError
	const want = "BackupItemAction example.io/versioned is offered in v3 only, this Grapnel calls v2 or v1"
	if !errors.As(err, &failed) || failed.Reason != pluginclient.ReasonNotAdaptable || !strings.Contains(failed.Message, want) {
		t.Errorf("error is %v, want NotAdaptable with %q", err, want)
	}
}

// TestBackupItemAction_NoDowngrade checks that an offered version that fails is not replaced with
// another one for any error: that might do part of the work twice.
func TestBackupItemAction_NoDowngrade(t *testing.T) {
	c := newCatalog(t, catalog.Options{Kinds: kindsWithV3()})
	load(t, c, versioned(t, "v3,v2"))
	answer, err := show(t, c, `{"x":"please fail"}`)
	if kindOf(err) != executor.Invalid || !strings.Contains(err.Error(), "version 3 does not do that") || len(answer.Item) > 0 {
		t.Errorf("response %s, error %v (%s)", answer.Item, err, kindOf(err))
	}
}
