// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/sdk/item"
)

// TestBackupItemAction_ItemBlock: an action that cannot tell what belongs with an object does not keep
// the object out of the backup, as in Velero.
func TestBackupItemAction_ItemBlock(t *testing.T) {
	t.Parallel()
	block := func(s *BackupItemActionSpec) { s.Kind = kindItemBlockAction }
	answer := BackupItemAnswer{RelatedItems: []item.Ref{{Resource: "secrets", Namespace: "shop", Name: "key"}}}
	a := startedBackupOperation(&fakeBackupAction{answer: func(context.Context, []byte) (BackupItemAnswer, error) { return answer, nil }}, block)
	result, err := a.Execute(t.Context(), podItem())
	want := []itemaction.RelatedItem{{Resource: schema.GroupResource{Resource: "secrets"}, Namespace: "shop", Name: "key"}}
	if diff := cmp.Diff(want, result.RelatedItems); diff != "" || err != nil || result.JSON != nil {
		t.Errorf("error %v, result %+v (-want +got):\n%s", err, result, diff)
	}
	for name, fails := range map[string]func() (BackupItemAnswer, error){
		"an error":          func() (BackupItemAnswer, error) { return BackupItemAnswer{}, status.Error(codes.Unknown, "no idea") },
		"an invalid answer": func() (BackupItemAnswer, error) { return BackupItemAnswer{RelatedItems: []item.Ref{{Name: "x"}}}, nil },
	} {
		a := startedBackupOperation(&fakeBackupAction{answer: func(context.Context, []byte) (BackupItemAnswer, error) { return fails() }}, block)
		if _, err := a.Execute(t.Context(), podItem()); !errors.As(err, new(*itemaction.RelatedItemsError)) {
			t.Errorf("after %s, the error is %v, want one that keeps the object", name, err)
		}
	}
}
