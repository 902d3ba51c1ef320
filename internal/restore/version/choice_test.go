// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package version

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// vs makes Versions of "preferred: all", all divided by spaces. Without a
// colon none is preferred.
func vs(s string) Versions {
	preferred, all, ok := strings.Cut(s, ":")
	if !ok {
		preferred, all = "", s
	}
	return Versions{Preferred: preferred, All: strings.Fields(all)}
}

// The first 19 are the behavior of Velero 1.18, from its own tests and from running it,
// except where noted.
func TestChoose(t *testing.T) {
	for name, tc := range map[string]struct {
		source, target, user string
		// want is the directory in the archive, wantRule how it was found.
		want     string
		wantRule Rule
	}{
		"01 both prefer the same":                 {"v1: v1 v1alpha1", "v1: v1 v2beta1", "", "v1-preferredversion", TargetPreferred},
		"02 target preferred is not the source's": {"v1: v1 v2beta1 v2beta2", "v2beta2: v2beta1 v2beta2", "", "v2beta2", TargetPreferred},
		"03 source preferred":                     {"v1: v1 v2beta1 v2beta2", "v2: v1 v2", "", "v1-preferredversion", SourcePreferred},
		"04 common version":                       {"v1: v1 v2beta1 v2beta2", "v2: v2 v2beta1 v2beta2", "", "v2beta2", CommonVersion},
		"05 nothing in common":                    {"v1: v1 v1alpha1", "v2beta2: v2beta1 v2beta2", "", "v1-preferredversion", Fallback},
		"06 the user's order wins":                {"v1: v1 v2beta1 v2beta2", "v2: v2 v2beta1 v2beta2", "v2beta1 v2beta2 v2", "v2beta1", UserPriority},
		"07 not served yet":                       {"v1: v1", "", "", "v1-preferredversion", Fallback},
		"08 the user names source preferred":      {"v1: v1 v2beta1", "v2: v2 v1 v2beta1", "v1", "v1-preferredversion", UserPriority},
		"09 the user's versions are not in both":  {"v1: v1 v2beta1", "v1: v1", "v3 v2beta1", "v1-preferredversion", TargetPreferred},
		"10 no priorities for this resource":      {"v1: v1 v1beta1", "v1beta1: v1 v1beta1", "", "v1beta1", TargetPreferred},
		"11 target prefers a less stable one":     {"v1: v1 v2beta1", "v2beta1: v2beta1 v1", "", "v2beta1", TargetPreferred},
		"12 one version each, different":          {"v1beta1: v1beta1", "v1: v1", "", "v1beta1-preferredversion", Fallback},
		"13 the only one is served, not first":    {"v1beta1: v1beta1", "v1: v1 v1beta1", "", "v1beta1-preferredversion", SourcePreferred},
		"14 common version by stability":          {"v9: v9 v3 v4beta1 v4", "v10: v3 v10 v4beta1 v4", "", "v4", CommonVersion},
		"15 differs: Velero misses v1":            {"v1beta1: v1beta1 v1", "v2: v2 v1", "", "v1", CommonVersion},
		"16 differs: Velero misses v2":            {"v1alpha1: v1alpha1 v1beta1 v2", "v3beta1: v3beta1 v2", "", "v2", CommonVersion},
		"17 differs: Velero panics":               {"", "v2: v1 v2", "", "", Fallback},
		"18 differs: Velero looks in a directory": {"", "v1: v1", "", "", Fallback},
		"19 names that are no versions":           {"v1: v1 foo10 foo1", "v2: v2 foo10 foo1", "", "foo1", CommonVersion},

		"the user's first is in the source only":           {"v1: v1 v2", "v1: v1 v3", "v2 v1", "v1-preferredversion", UserPriority},
		"the user's first is in the target only":           {"v1: v1 v2", "v1: v1 v3", "v3 v1", "v1-preferredversion", UserPriority},
		"the group prefers a version without the resource": {"v1: v1 v2", "v2: v1", "", "v1-preferredversion", SourcePreferred},
		"target has no preferred version":                  {"v1: v1 v2", "v2", "", "v2", CommonVersion},
		"source has no preferred version":                  {"v1beta1 v1", "v2: v2", "", "v1", Fallback},
		"source prefers what it lacks":                     {"v9: v1beta1", "v9: v9 v1beta1", "", "v1beta1", CommonVersion},
		"empty versions are none":                          {"", ": ", " ", "", Fallback},
	} {
		t.Run(name, func(t *testing.T) {
			got := Choose("widgets.example.org", vs(tc.source), vs(tc.target), strings.Fields(tc.user))
			directory := got.Version
			if got.SourcePreferred && directory != "" {
				directory += "-preferredversion"
			}
			if directory != tc.want || got.Rule != tc.wantRule {
				t.Errorf("chose %q by %s, want %q by %s", directory, got.Rule, tc.want, tc.wantRule)
			}
		})
	}
}

func TestReasonForChoice(t *testing.T) {
	many := make([]string, 12)
	for i := range many {
		many[i] = fmt.Sprintf("v%d", 100-i)
	}
	for name, tc := range map[string]struct {
		source, target, user string
		want                 string
	}{
		"user priority": {
			"v1: v1 v2", "v1: v1 v2", "v2",
			"widgets.example.org is restored in version v2: it is the first of the given priorities that the backup has and the cluster serves",
		},
		"priorities without effect": {
			"v1: v1", "v1: v1", "v3 v4",
			"widgets.example.org is restored in version v1: the cluster prefers it and the backup has it; none of the given priorities (v3, v4) is in both",
		},
		"source preferred": {
			"v1: v1", "v2: v2 v1", "",
			"widgets.example.org is restored in version v1: the backup's cluster preferred it and this cluster serves it",
		},
		"common version": {
			"v1: v1 v2", "v3: v3 v2", "",
			"widgets.example.org is restored in version v2: it is the first version that the backup has and the cluster serves",
		},
		"nothing in common": {
			"v1: v1 v2", "v4: v4 v3", "",
			"widgets.example.org is restored in version v1, as the backup's cluster had it: the cluster serves other versions (v4, v3) than the backup has (v2, v1)",
		},
		"not served": {
			"v1: v1", "", "",
			"widgets.example.org is restored in version v1, as the backup's cluster had it: the cluster does not serve this resource yet",
		},
		"no versions in the backup": {
			"", "v1: v1", "",
			"widgets.example.org is restored in the version of each object: the backup does not say in which versions it has it",
		},
		"more versions than a sentence can hold": {
			strings.Join(many, " "), "v1", "",
			"widgets.example.org is restored in version v100, as the backup's cluster had it: the cluster serves other versions (v1) " +
				"than the backup has (v100, v99, v98, v97, v96, v95, v94, v93, v92, v91 and 2 more)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Choose("widgets.example.org", vs(tc.source), vs(tc.target), strings.Fields(tc.user)).Reason; got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestNormalizedVersions_Order(t *testing.T) {
	want := strings.Fields("v10 v2 v01 v1 v11beta2 v10beta3 v3beta1 v12alpha1 v11alpha2 foo1 foo10")
	for range 20 {
		got := slices.Clone(want)
		rand.Shuffle(len(got), func(i, j int) { got[i], got[j] = got[j], got[i] })
		if got = (Versions{All: got}).normalizedVersions().All; !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
}

func FuzzChoose(f *testing.F) {
	f.Add("v1: v1 v2beta1", "v2: v2 v1", "v2beta1")
	f.Add("", "v1: v2", "v1")
	f.Add("v3: v1 v01 v1 foo", "v1 v01", "v01 v1")
	f.Add("v1beta1: v1beta1 v1", "v2: v2 v1", "")
	f.Fuzz(func(t *testing.T, source, target, user string) {
		checkChoice(t, vs(source), vs(target), strings.Fields(user))
	})
}

// TestChoose_CommonVersions checks with every run what FuzzChoose checks, with versions
// that have much in common.
func TestChoose_CommonVersions(t *testing.T) {
	pool := strings.Fields("v1 v2 v1beta1 v2beta1 v1alpha1 foo")
	r := rand.New(rand.NewPCG(1, 2))
	pick := func() Versions {
		v := Versions{All: slices.Clone(pool), Preferred: pool[r.IntN(len(pool))]}
		r.Shuffle(len(v.All), func(i, j int) { v.All[i], v.All[j] = v.All[j], v.All[i] })
		v.All = v.All[:r.IntN(len(pool)+1)]
		return v
	}
	for range 2000 {
		checkChoice(t, pick(), pick(), pick().All)
		if t.Failed() {
			return
		}
	}
}

// checkChoice asserts what is true of every choice.
func checkChoice(t *testing.T, source, target Versions, user []string) {
	t.Helper()
	before := fmt.Sprint(source, target, user)
	got := Choose("widgets", source, target, user)
	if after := fmt.Sprint(source, target, user); after != before {
		t.Errorf("changed what it was given from %s to %s", before, after)
	}
	common := func(v string) bool { return slices.Contains(source.All, v) && slices.Contains(target.All, v) }
	if !slices.Contains(source.All, got.Version) && (got.Version != "" || len(source.All) > 0) {
		t.Errorf("chose %q, which the source %v does not have", got.Version, source.All)
	}
	if wish := slices.IndexFunc(user, common); wish >= 0 && (got.Version != user[wish] || got.Rule != UserPriority) {
		t.Errorf("chose %q by %s, although the user's %q is in both", got.Version, got.Rule, user[wish])
	}
	if slices.ContainsFunc(source.All, common) != common(got.Version) {
		t.Errorf("chose %q of %v for %v, although they have one in common", got.Version, source.All, target.All)
	}
	if (got.Rule == Fallback) == common(got.Version) {
		t.Errorf("chose %q of %v for %v by %s", got.Version, source.All, target.All, got.Rule)
	}
	if len(source.All) > 0 && got.SourcePreferred != (got.Version == source.Preferred) {
		t.Errorf("%q: preferred by the source %q: %t", got.Version, source.Preferred, got.SourcePreferred)
	}
	reversed := func(v Versions) Versions {
		v.All = slices.Clone(v.All)
		slices.Reverse(v.All)
		return v
	}
	if again := Choose("widgets", reversed(source), reversed(target), user); again != got {
		t.Errorf("chose %+v, and %+v in the reverse order", got, again)
	}
}
