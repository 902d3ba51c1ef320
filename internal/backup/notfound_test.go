// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/internal/selection"
)

// A 404 is a warning only if the kind was removed before any object of it was read.
func TestWriteArchive_KindNotFound(t *testing.T) {
	const widgets = 5
	for name, tc := range map[string]struct {
		// failsFrom is the first LIST of widgets that answers 404, and failsUntil the first
		// that no longer does, 0 for never.
		failsFrom, failsUntil int32
		// forgotten reports that discovery no longer has widgets from then on.
		forgotten   bool
		wantItems   int
		wantError   string
		wantWarning string
	}{
		"at first, for a while":                     {failsFrom: 1, failsUntil: 4, wantItems: widgets},
		"between two pages, for a while":            {failsFrom: 2, failsUntil: 4, wantItems: widgets},
		"at first, forever":                         {failsFrom: 1, wantError: "widgets"},
		"between two pages, forever":                {failsFrom: 2, wantItems: 2, wantError: "widgets"},
		"at first, and the kind is removed":         {failsFrom: 1, forgotten: true, wantWarning: "no longer serves widgets.example.org"},
		"between two pages and the kind is removed": {failsFrom: 2, forgotten: true, wantItems: 2, wantError: "widgets"},
	} {
		t.Run(name, func(t *testing.T) {
			served := &kind{"example.org/v1", "widgets", "Widget", true, nil}
			for i := range widgets {
				served.objects = append(served.objects, obj("shop", fmt.Sprint("w-", i)))
			}
			api := &fakeAPI{kinds: []*kind{
				{"v1", "namespaces", "Namespace", false, []object{obj("", "shop")}},
				{"v1", "configmaps", "ConfigMap", true, []object{obj("shop", "a")}},
				served,
			}}
			var lists atomic.Int32
			var down atomic.Bool
			api.fault = func(w http.ResponseWriter, r *http.Request) bool {
				if tc.forgotten && down.Load() && r.URL.Path == "/apis" {
					answerJSON(w, metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList"}})
					return true
				}
				if !strings.HasSuffix(r.URL.Path, "/widgets") {
					return false
				}
				n := lists.Add(1)
				if n < tc.failsFrom || tc.failsUntil > 0 && n >= tc.failsUntil {
					return false
				}
				down.Store(true)
				http.Error(w, "404 page not found", http.StatusNotFound)
				return true
			}
			result, got := backedUp(t, api, ArchiveRequest{Selection: selection.Spec{IncludedResources: []string{"widgets.example.org", "configmaps"}}}, Options{})
			var items []string
			for _, path := range got {
				if strings.HasPrefix(path, "widgets ") {
					items = append(items, path)
				}
			}
			if len(items) != tc.wantItems {
				t.Errorf("archived %q, want %d", items, tc.wantItems)
			}
			expectMessage(t, "error", result.Results.Errors, tc.wantError)
			expectMessage(t, "warning", result.Results.Warnings, tc.wantWarning)
		})
	}
}

// A tenant whose object breaks the LIST of a kind fails only the backup of its own
// namespace.
func TestWriteArchive_FallBack(t *testing.T) {
	for name, tc := range map[string]struct {
		// breaks selects the LISTs that the object breaks.
		breaks    func(namespace string) bool
		answer    func(w http.ResponseWriter)
		want      []string
		wantError string
	}{
		"an object that the API server cannot convert": {
			breaks: func(namespace string) bool { return namespace == "" || namespace == "office" },
			answer: func(w http.ResponseWriter) { status(w, 500, metav1.StatusReasonInternalError, "") },
			want:   []string{"configmaps shop/a", "configmaps shop/b", "configmaps shop/c"}, wantError: "configmaps",
		},
		"an object that breaks the body": {
			breaks: func(namespace string) bool { return namespace == "" || namespace == "office" },
			answer: func(w http.ResponseWriter) {
				_, _ = w.Write([]byte(`{"metadata":{},"items":[{"metadata":{"name":"x"}}}]`))
			},
			want: []string{"configmaps shop/a", "configmaps shop/b", "configmaps shop/c"}, wantError: "configmaps",
		},
		"the kind as a whole": {
			breaks:    func(string) bool { return true },
			answer:    func(w http.ResponseWriter) { status(w, 500, metav1.StatusReasonInternalError, "") },
			wantError: "configmaps",
		},
	} {
		t.Run(name, func(t *testing.T) {
			api := testCluster()
			api.fault = func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.HasSuffix(r.URL.Path, "/configmaps") {
					return false
				}
				namespace, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/api/v1/"), "namespaces/"), "/")
				if strings.HasSuffix(r.URL.Path, "/v1/configmaps") {
					namespace = ""
				}
				if !tc.breaks(namespace) {
					return false
				}
				tc.answer(w)
				return true
			}
			result, got := backedUp(t, api, ArchiveRequest{Selection: selection.Spec{IncludedResources: []string{"configmaps"}}}, Options{})
			if diff := cmp.Diff(tc.want, configMaps(got)); diff != "" {
				t.Errorf("archive (-want +got):\n%s", diff)
			}
			expectMessage(t, "error", result.Results.Errors, tc.wantError)
		})
	}
}
