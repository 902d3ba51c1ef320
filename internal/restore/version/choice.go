// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package version

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/version"
)

// maxListedVersions is how many versions a sentence lists at most. An archive may have any
// number.
const maxListedVersions = 10

// Versions are the API versions of one resource, "deployments.apps" for example, on one
// side: in the backup or served by the cluster.
type Versions struct {
	// Preferred is the one that the API server prefers. It is used only if All contains it:
	// a group may prefer a version that lacks this resource.
	Preferred string
	// All of them, in any order. Empty ones are ignored.
	All []string
}

// Rule is the rule by which a version was chosen.
type Rule string

// The rules, in the order in which they are tried.
const (
	// UserPriority is a version from the user's list.
	UserPriority Rule = "UserPriority"
	// TargetPreferred is the preferred version of the target cluster.
	TargetPreferred Rule = "TargetPreferred"
	// SourcePreferred is the preferred version of the cluster that was backed up.
	SourcePreferred Rule = "SourcePreferred"
	// CommonVersion is another version that both have.
	CommonVersion Rule = "CommonVersion"
	// Fallback means that no version is in both.
	Fallback Rule = "Fallback"
)

// Choice is the version in which the objects of a resource are restored.
type Choice struct {
	// Version is one of the backup's, and empty if the backup has none: then only the
	// copies without a version can be restored.
	Version string `json:"version"`
	// SourcePreferred reports that Version was preferred by the backup's cluster. Objects
	// in it are also stored without their version.
	SourcePreferred bool `json:"sourcePreferred"`
	// Rule by which Version was found.
	Rule Rule `json:"rule"`
	// Reason is one sentence for users.
	Reason string `json:"reason"`
}

// Choose chooses the version in which the objects of resource are restored; the name is
// used only in the Reason. Source has the versions in the backup, target those that the
// cluster serves, and user is the user's order of preference, which may be empty. The order
// of the versions in source and target does not matter.
func Choose(resource string, source, target Versions, user []string) Choice {
	source, target = source.normalizedVersions(), target.normalizedVersions()
	version, rule := chooseByRules(source, target, user)
	choice := Choice{Version: version, SourcePreferred: version == source.Preferred, Rule: rule}
	choice.Reason = reasonForChoice(resource, choice, source, target, user)
	return choice
}

func chooseByRules(source, target Versions, user []string) (string, Rule) {
	common := make([]string, 0, min(len(source.All), len(target.All)))
	for _, v := range source.All {
		if target.containsVersion(v) {
			common = append(common, v)
		}
	}
	if len(common) == 0 {
		return source.fallbackVersion(), Fallback
	}
	for _, v := range user {
		if source.containsVersion(v) && target.containsVersion(v) {
			return v, UserPriority
		}
	}
	switch {
	case source.containsVersion(target.Preferred):
		return target.Preferred, TargetPreferred
	case target.containsVersion(source.Preferred):
		return source.Preferred, SourcePreferred
	default:
		return common[0], CommonVersion
	}
}

// normalizedVersions returns v with its versions in the order of Kubernetes, without
// duplicates, and without a preferred one that is not among them.
func (v Versions) normalizedVersions() Versions {
	all := slices.DeleteFunc(slices.Clone(v.All), func(s string) bool { return s == "" })
	slices.SortFunc(all, compareVersions)
	v.All = slices.Compact(all)
	if !v.containsVersion(v.Preferred) {
		v.Preferred = ""
	}
	return v
}

// containsVersion expects v to be normalized.
func (v Versions) containsVersion(version string) bool {
	_, found := slices.BinarySearchFunc(v.All, version, compareVersions)
	return found
}

// fallbackVersion expects v to be normalized. Without a preferred version there are no
// copies without a version either, so any version is better than none.
func (v Versions) fallbackVersion() string {
	if v.Preferred == "" && len(v.All) > 0 {
		return v.All[0]
	}
	return v.Preferred
}

// compareVersions orders versions as Kubernetes does, the most stable and newest first. It
// is zero only for equal strings, although Kubernetes treats v1 and v01 as equal.
func compareVersions(a, b string) int {
	return cmp.Or(version.CompareKubeAwareVersionStrings(b, a), strings.Compare(a, b))
}

func reasonForChoice(resource string, choice Choice, source, target Versions, user []string) string {
	var why string
	switch choice.Rule {
	case UserPriority:
		why = "it is the first of the given priorities that the backup has and the cluster serves"
	case TargetPreferred:
		why = "the cluster prefers it and the backup has it"
	case SourcePreferred:
		why = "the backup's cluster preferred it and this cluster serves it"
	case CommonVersion:
		why = "it is the first version that the backup has and the cluster serves"
	default:
		return fallbackReason(resource, choice, source, target)
	}
	if len(user) > 0 && choice.Rule != UserPriority {
		why += fmt.Sprintf("; none of the given priorities (%s) is in both", joinVersions(user))
	}
	return fmt.Sprintf("%s is restored in version %s: %s", resource, choice.Version, why)
}

func fallbackReason(resource string, choice Choice, source, target Versions) string {
	if len(source.All) == 0 {
		return fmt.Sprintf("%s is restored in the version of each object: the backup does not say in which versions it has it", resource)
	}
	why := fmt.Sprintf("the cluster serves other versions (%s) than the backup has (%s)", joinVersions(target.All), joinVersions(source.All))
	if len(target.All) == 0 {
		why = "the cluster does not serve this resource yet"
	}
	return fmt.Sprintf("%s is restored in version %s, as the backup's cluster had it: %s", resource, choice.Version, why)
}

// joinVersions formats versions for users.
func joinVersions(versions []string) string {
	if len(versions) <= maxListedVersions {
		return strings.Join(versions, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(versions[:maxListedVersions], ", "), len(versions)-maxListedVersions)
}
