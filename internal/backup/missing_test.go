// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/grapnel-dev/grapnel/internal/selection"
)

// A namespace that is included by name and does not exist is an error, so that a typo does
// not look like a good backup. A pattern may match nothing.
func TestWriteArchive_MissingNamespace(t *testing.T) {
	const theError = `namespace "shp" does not exist, and spec.includedNamespaces names it; fix the name, ` +
		`or include a pattern if the namespace may be missing`
	for name, tc := range map[string]struct {
		included               []string
		wantItems              []string
		wantErrors, wantWarned []string
		wantMissing            []string
	}{
		"beside one that exists": {
			included: []string{"shop", "shp"}, wantItems: []string{"configmaps shop/a", "configmaps shop/b", "configmaps shop/c"},
			wantErrors: []string{theError}, wantMissing: []string{"shp"},
		},
		"alone": {
			included: []string{"shp"}, wantErrors: []string{theError}, wantMissing: []string{"shp"},
			wantWarned: []string{"The backup is empty: no object matches its selection (includedNamespaces: shp; includedResources: configmaps)"},
		},
		"as a pattern": {
			included: []string{"shop", "shp*"}, wantItems: []string{"configmaps shop/a", "configmaps shop/b", "configmaps shop/c"},
			wantWarned: []string{`spec.includedNamespaces[1]: no namespace matches the pattern "shp*"`},
		},
		"that is being deleted": {
			included: []string{"leaving"}, wantWarned: []string{`namespace "leaving" is being deleted: objects that were deleted before the backup began are not in it`},
			wantItems: []string{"configmaps leaving/a"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			api := testCluster()
			api.kinds[0].objects = append(api.kinds[0].objects, obj("", "leaving", object{"metadata": object{"deletionTimestamp": "2026-01-01T00:00:00Z"}}))
			api.kinds[1].objects = append(api.kinds[1].objects, obj("leaving", "a"))
			result, got := backedUp(t, api, ArchiveRequest{Selection: selection.Spec{
				IncludedNamespaces: tc.included, IncludedResources: []string{"configmaps"},
			}}, Options{})
			if diff := cmp.Diff(tc.wantItems, configMaps(got)); diff != "" {
				t.Errorf("archive (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantErrors, result.Results.Errors.OfCluster(), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
			warned := slices.Concat(result.Results.Warnings.OfRun(), result.Results.Warnings.OfNamespace("leaving"))
			if diff := cmp.Diff(tc.wantWarned, warned, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantMissing, result.MissingNamespaces, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("missing namespaces (-want +got):\n%s", diff)
			}
		})
	}
}
