// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package crash

import (
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// long is the variable that has every write hit in every scenario; `make test LONG=1` sets it.
const long = "LONG"

// point is one write of the recorded run: the n-th of its kind. Writes of different
// kinds may come in another order in another run.
type point struct {
	kind string
	n    int
}

func (p point) String() string { return fmt.Sprintf("%s, number %d", p.kind, p.n) }

func (p point) class() string { return classOf(p.kind) }

func isEvent(kind string) bool { return strings.Contains(kind, "/events.k8s.io/") }

// resource matches the path to an object, or to all of a resource.
var resource = regexp.MustCompile(`^/apis?(?:/[^/]+)?/v[^/]+(?:/namespaces/[^/]+)?/([^/]+)(?:/[^/]+)?(/[^/]+)?$`)

// classOf returns what several writes of a run have in common: the method and the
// resource, whichever object it is. All small files of a backup are one class.
func classOf(kind string) string {
	method, rest, _ := strings.Cut(kind, " ")
	where, options, _ := strings.Cut(rest, " ")
	if m := resource.FindStringSubmatch(where); m != nil {
		return method + " " + m[1] + m[2]
	}
	return strings.TrimSpace(method + " " + fileClass(path.Base(where)) + " " + options)
}

func fileClass(name string) string {
	switch {
	case strings.HasSuffix(name, ".tar.gz"), !strings.HasSuffix(name, ".gz"):
		return name
	case isLog(name):
		return "logs"
	}
	return "files"
}

// staleWrite matches a write that some runs have and others do not: a reconciler whose cache is
// behind removes the finalizer of the Restore again, after the DeletionRun was created. The API
// server refuses that write. A DeletionRun itself only deletes Restores.
var staleWrite = regexp.MustCompile(`^PATCH .*/restores/NAME-victim$`)

// points lists what a sweep may hit, in the order of the recorded run.
func (sw sweep) points(recorded disturbance) []point {
	writes := map[target]*trap{api: recorded.api, store: recorded.store, plugin: recorded.plugin}[sw.target].writes()
	counts := map[string]int{}
	var list []point
	for _, kind := range writes {
		if (isEvent(kind) && !sw.events) || staleWrite.MatchString(kind) || (sw.only != nil && !sw.only.MatchString(kind)) {
			continue
		}
		counts[kind]++
		list = append(list, point{kind, counts[kind]})
	}
	return list
}

// chosenSweeps returns the sweeps of a scenario. To be killed before a write is, but for the first one, to be killed after
// the write before: only a long test has both.
func (s scenario) chosenSweeps() []sweep {
	if os.Getenv(long) != "" {
		return s.sweeps
	}
	return slices.DeleteFunc(slices.Clone(s.sweeps), func(sw sweep) bool {
		return sw.how == killed && sw.when == before && slices.ContainsFunc(s.sweeps, func(other sweep) bool {
			return other.how == killed && other.when == after && other.target == sw.target && other.only == sw.only
		})
	})
}

// choose returns what the n-th sweep of a scenario hits of a list.
func (sw sweep) choose(list []point, s scenario, n int) []point {
	if os.Getenv(long) != "" {
		return list
	}
	return some(list, n, s.sampled || sw.how != killed || sw.when == before)
}

// some chooses of each class of points the first, the last and one between them, which is
// another one in each sweep. If one of each class is enough, it is one from the middle in the
// first sweep, another one in each sweep, and not the last of many: it may not come.
func some(list []point, n int, one bool) []point {
	classes := map[string][]int{}
	for i, at := range list {
		classes[at.class()] = append(classes[at.class()], i)
	}
	var chosen []int
	for _, all := range classes {
		first, last := all[0], all[len(all)-1]
		switch between := len(all) - 2; {
		case one:
			if between > 0 {
				all = all[:len(all)-1]
			}
			chosen = append(chosen, all[(len(all)/2+n)%len(all)])
			continue
		case between > 0:
			chosen = append(chosen, all[1+n%between])
		}
		chosen = append(chosen, first, last)
	}
	slices.Sort(chosen)
	var points []point
	for _, i := range slices.Compact(chosen) {
		points = append(points, list[i])
	}
	return points
}

func TestSome(t *testing.T) {
	t.Parallel()
	const status, file = "PATCH /apis/grapnel.dev/v1alpha1/namespaces/done/backups/NAME/status", "PUT /grapnel/done/backups/NAME/NAME-results.gz"
	list := []point{{file, 1}}
	for n := range 6 {
		list = append(list, point{status, n + 1})
	}
	for name, tc := range map[string]struct {
		n    int
		one  bool
		want []int
	}{
		"all positions":     {0, false, []int{1, 2, 6}},
		"the next sweep":    {1, false, []int{1, 3, 6}},
		"a fifth sweep":     {4, false, []int{1, 2, 6}},
		"one of a class":    {0, true, []int{3}},
		"one, and around":   {4, true, []int{2}},
		"one, not the last": {2, true, []int{5}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := []point{{file, 1}}
			for _, n := range tc.want {
				want = append(want, point{status, n})
			}
			if diff := cmp.Diff(want, some(list, tc.n, tc.one), cmp.AllowUnexported(point{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestClassOf(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]string{
		"PATCH /apis/grapnel.dev/v1alpha1/namespaces/done/backups/NAME":                    "PATCH backups",
		"PATCH /apis/grapnel.dev/v1alpha1/namespaces/done/backups/NAME/status":             "PATCH backups/status",
		"PATCH /apis/grapnel.dev/v1alpha1/namespaces/done/hookruns/NAME-pre-freeze/status": "PATCH hookruns/status",
		"POST /apis/grapnel.dev/v1alpha1/namespaces/done/hookruns":                         "POST hookruns",
		"POST /apis/events.k8s.io/v1/namespaces/done/events":                               "POST events",
		"PATCH /api/v1/namespaces/done/configmaps/bucket-seen-backups":                     "PATCH configmaps",
		"POST /api/v1/namespaces fieldManager":                                             "POST namespaces",
		"POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions fieldManager":        "POST customresourcedefinitions",
		"POST /api/v1/namespaces/NAME-shop/secrets fieldManager":                           "POST secrets",
		"PATCH /api/v1/namespaces/NAME-shop fieldManager":                                  "PATCH namespaces",
		"PUT /api/v1/namespaces/NAME-shop/serviceaccounts/clerk fieldManager":              "PUT serviceaccounts",
		"POST /apis/apps/v1/namespaces/NAME-stock/deployments fieldManager":                "POST deployments",
		"PATCH /apis/a.example.io/v1/namespaces/NAME-stock/parts/nut/status fieldManager":  "PATCH parts/status",
		"DELETE /apis/grapnel.dev/v1alpha1/namespaces/destroyed/restores/NAME-victim":      "DELETE restores",
		"PUT /grapnel/done/backups/NAME/NAME.tar.gz":                                       "PUT NAME.tar.gz",
		"PUT /grapnel/large/backups/NAME/NAME.tar.gz partNumber uploadId x-id":             "PUT NAME.tar.gz partNumber uploadId x-id",
		"PUT /grapnel/done/backups/NAME/NAME-results.gz":                                   "PUT files",
		"PUT /grapnel/done/backups/NAME/NAME-post-logs.gz":                                 "PUT logs",
		"PUT /grapnel/done/backups/NAME/velero-backup.json":                                "PUT velero-backup.json",
		"POST /grapnel/ delete": "POST grapnel delete",
	} {
		if got := classOf(kind); got != want {
			t.Errorf("%s is of the class %q, want %q", kind, got, want)
		}
	}
}
