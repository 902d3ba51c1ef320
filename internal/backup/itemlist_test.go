// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/internal/archive"
	"github.com/grapnel-dev/grapnel/internal/itemaction"
	"github.com/grapnel-dev/grapnel/internal/results"
	"github.com/grapnel-dev/grapnel/internal/selection"
)

func TestHasOnlyItems(t *testing.T) {
	for name, tc := range map[string]struct {
		only []itemaction.RelatedItem
		edit func(*ArchiveRequest, *fakeAPI)
		want []string
		told results.Results
	}{
		"one object": {
			only: []itemaction.RelatedItem{ref("configmaps", "shop", "a")}, want: []string{"configmaps shop/a"},
		},
		"excluded ones": {
			only: []itemaction.RelatedItem{ref("configmaps", "office", "a"), ref("configmaps", "shop", "secretive"), ref("persistentvolumes", "shop", "pv-2")},
			want: []string{"configmaps office/a", "configmaps shop/secretive", "persistentvolumes /pv-2"},
		},
		"a Namespace": {
			only: []itemaction.RelatedItem{ref("namespaces", "", "office")}, want: []string{"namespaces /office"},
		},
		"what they need comes along": {
			// This also applies to a backup of everything: objects created since are not in
			// it.
			only: []itemaction.RelatedItem{ref("persistentvolumeclaims", "shop", "data")},
			edit: func(r *ArchiveRequest, _ *fakeAPI) { r.Selection = selection.Spec{IncludeClusterResources: yes()} },
			want: []string{"persistentvolumeclaims shop/data", "persistentvolumes /pv-1"},
			told: results.Results{WarningCount: 1, Warnings: results.Problems{{
				Subject: results.Subject{Resource: "persistentvolumeclaims", Namespace: "shop", Name: "data"}, Reason: results.ReasonDataNotCaptured,
				Message: `PersistentVolumeClaim "shop/data" has no data in this backup, only its objects: ` +
					`no action captures the data: install a Plugin that does, such as csi, or exclude the claim from the backup`,
			}}},
		},
		"a claim that is archived already": {
			only: []itemaction.RelatedItem{ref("persistentvolumeclaims", "shop", "data")},
			edit: func(r *ArchiveRequest, _ *fakeAPI) {
				r.Selection, r.ArchivedClaims = selection.Spec{IncludeClusterResources: yes()}, []string{"office/a", "shop/data"}
			},
			want: []string{"persistentvolumeclaims shop/data", "persistentvolumes /pv-1"},
		},
		"each once, and in every version": {
			only: []itemaction.RelatedItem{ref("widgets.example.org", "shop", "w"), ref("widgets.example.org", "shop", "w")},
			edit: func(r *ArchiveRequest, _ *fakeAPI) { r.AllVersions = true },
			want: []string{"customresourcedefinitions /widgets.example.org", "widgets shop/w", "widgets@v1beta1 shop/w"},
		},
		"that are gone": {
			only: []itemaction.RelatedItem{ref("configmaps", "shop", "nope"), ref("configmaps", "shop", "gone"), ref("unheard.of", "", "x")},
			told: results.Results{WarningCount: 3, Warnings: results.Problems{
				{
					Subject: results.Subject{Resource: "unheard.of", Name: "x"}, Reason: results.ReasonNotServed,
					Message: `unheard.of "x", which an operation that has ended needs, cannot be archived: ` +
						`the cluster does not serve unheard.of, or it is never archived`,
				}, {
					Subject: results.Subject{Resource: "configmaps", Namespace: "shop", Name: "gone"}, Reason: results.ReasonBeingDeleted,
					Message: `configmaps "shop/gone" is being deleted and was not archived again`,
				}, {
					Subject: results.Subject{Resource: "configmaps", Namespace: "shop", Name: "nope"}, Reason: results.ReasonRelatedItemNotFound,
					Message: `configmaps "shop/nope", which an operation that has ended needs, does not exist`,
				},
			}},
		},
		"nothing is said again about the rest": {
			only: []itemaction.RelatedItem{ref("configmaps", "shop", "a")},
			edit: func(r *ArchiveRequest, api *fakeAPI) {
				r.Selection.IncludedNamespaceScopedResources = []string{"configmaps", "unheard.example.org"}
				api.fault = func(w http.ResponseWriter, r *http.Request) bool {
					broken := strings.HasPrefix(r.URL.Path, "/apis/example.org/")
					if broken {
						status(w, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "")
					}
					return broken
				}
			},
			want: []string{"configmaps shop/a"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			api := testCluster()
			req := shop()
			req.OnlyItems = tc.only
			if tc.edit != nil {
				tc.edit(&req, api)
			}
			result, got := backedUp(t, api, req, Options{})
			if diff := cmp.Diff(tc.want, slices.Sorted(slices.Values(got))); diff != "" {
				t.Errorf("archive (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.told, result.Results, cmpopts.IgnoreFields(results.Results{}, "Objects")); diff != "" {
				t.Errorf("results (-want +got):\n%s", diff)
			}
		})
	}
}

// Objects that cannot be read are an error: the operation completed, and its result is
// missing.
func TestCollectOnlyItems_Unreadable(t *testing.T) {
	api := testCluster()
	api.fault = func(w http.ResponseWriter, r *http.Request) bool {
		broken := strings.HasSuffix(r.URL.Path, "/configmaps/a")
		if broken {
			status(w, http.StatusForbidden, metav1.StatusReasonForbidden, "")
		}
		return broken
	}
	req := shop()
	req.OnlyItems = []itemaction.RelatedItem{ref("configmaps", "shop", "a")}
	result, _ := backedUp(t, api, req, Options{})
	if got := result.Results.Errors.OfNamespace("shop"); len(got) != 1 ||
		!strings.HasPrefix(got[0], `configmaps "shop/a", which an operation that has ended needs, is missing from this backup: `) {
		t.Errorf("errors %q", got)
	}
}

// The actions are called for the objects again, but cannot start further operations.
func TestCollectOnlyItems_Actions(t *testing.T) {
	l := &ledger{}
	naming := naming("configmaps", ref("persistentvolumes", "", "pv-2"))
	changing := outside{name: "changing", execute: func(_ context.Context, item itemaction.BackupItem) (itemaction.Result, error) {
		if !bytes.Contains(item.JSON, []byte(`"name":"a"`)) {
			return itemaction.Result{}, errors.New("was shown " + item.Name)
		}
		return itemaction.Result{}, nil
	}}
	req := shop(naming, changing, l.action("again", nil))
	req.OnlyItems, req.OnOperationStarted = []itemaction.RelatedItem{ref("configmaps", "shop", "a")}, l.record
	result, got := backedUp(t, testCluster(), req, Options{})
	if diff := cmp.Diff([]string{"configmaps shop/a", "persistentvolumes /pv-2"}, slices.Sorted(slices.Values(got))); diff != "" {
		t.Errorf("archive (-want +got):\n%s", diff)
	}
	want := []string{`configmaps "shop/a": item action example.io/again: the operation "again-a" was started and could not be recorded: ` +
		`the operations of this backup have ended, and it waits for no others; it was canceled`}
	if diff := cmp.Diff(want, result.Results.Errors.OfNamespace("shop")); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
	l.want(t, nil, []string{"again-a"})
}

// TestCollectOnlyItems_Merge merges two runs into one archive, which a restore
// accepts.
func TestCollectOnlyItems_Merge(t *testing.T) {
	api := testCluster()
	engine := New(api.cluster(t), Options{})
	var first, second, whole bytes.Buffer
	req := shop()
	if _, err := engine.WriteArchive(t.Context(), req, &first); err != nil {
		t.Fatal(err)
	}
	api.kinds[1].objects = append(api.kinds[1].objects, obj("shop", "report"))
	api.kinds[1].objects[3] = obj("shop", "a", object{"data": object{"copied": "yes"}})
	req.OnlyItems = []itemaction.RelatedItem{ref("configmaps", "shop", "a"), ref("configmaps", "shop", "report")}
	if _, err := engine.WriteArchive(t.Context(), req, &second); err != nil {
		t.Fatal(err)
	}
	overlay, err := archive.NewSpool(t.Context(), &second, archive.SpoolOptions{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = overlay.Close() }()
	if _, err := archive.Merge(t.Context(), &whole, &first, overlay, archive.MergeOptions{}); err != nil {
		t.Fatal(err)
	}
	var got []string
	err = archive.Walk(&whole, archive.Limits{}, func(e archive.Entry) error {
		if !e.IsObject() || e.Object.Version == "" {
			return nil
		}
		got = append(got, shortPath(e.Object))
		if changed := bytes.Contains(e.Content, []byte("copied")); changed != (e.Object.Name == "a") {
			t.Errorf("%s is %s", shortPath(e.Object), e.Content)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(got)
	want := []string{"configmaps shop/a", "configmaps shop/b", "configmaps shop/c", "configmaps shop/report", "namespaces /shop"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("archive (-want +got):\n%s", diff)
	}
}
