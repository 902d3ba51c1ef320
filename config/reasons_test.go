// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
)

// document is the text of docs/installation.md.
func document(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile("../docs/installation.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// blocks returns the code blocks of a language in a text.
func blocks(text, language string) []string {
	var found []string
	for _, match := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```").FindAllStringSubmatch(text, -1) {
		found = append(found, match[1])
	}
	return found
}

// commands returns the commands of a text that are to be run as they are.
func commands(text string) []string {
	var found []string
	for _, block := range blocks(text, "sh") {
		found = append(found, lines(block)...)
	}
	return found
}

func lines(text string) []string { return strings.Split(strings.TrimSpace(text), "\n") }

// section returns the part of a document below a heading, up to the next one of its level or
// above.
func section(t *testing.T, text, heading string) string {
	t.Helper()
	_, rest, found := strings.Cut("\n"+text, "\n"+heading+"\n")
	if !found {
		t.Fatalf("docs/installation.md has no heading %q", heading)
	}
	level := len(heading) - len(strings.TrimLeft(heading, "#"))
	end := regexp.MustCompile(fmt.Sprintf(`(?m)^#{1,%d} `, level)).FindStringIndex(rest)
	if end == nil {
		return rest
	}
	return rest[:end[0]]
}

// right is one verb on one resource, as "verb resource.group", of one role.
type right struct{ role, what string }

// documented returns the rights that have a reason, and fails for rows without one.
func documented(t *testing.T) map[right]bool {
	t.Helper()
	found := map[right]bool{}
	row := regexp.MustCompile("(?m)^\\| (`.+`) \\| ([a-z, ]+) \\| (.*) \\|$")
	for _, heading := range regexp.MustCompile(`(?m)^### ((?:Cluster)?Role [a-z-]+)$`).FindAllStringSubmatch(document(t), -1) {
		text := section(t, document(t), heading[0])
		if base := regexp.MustCompile("(?m)^All of `(.+?)`").FindStringSubmatch(text); base != nil {
			text += section(t, document(t), "### ClusterRole "+base[1])
		}
		for _, match := range row.FindAllStringSubmatch(text, -1) {
			if len(match[3]) < 10 {
				t.Errorf("%s: the row of %s has no reason", heading[1], match[1])
			}
			for resource := range strings.SplitSeq(match[1], ", ") {
				for verb := range strings.SplitSeq(match[2], ", ") {
					found[right{role: heading[1], what: verb + " " + strings.Trim(resource, "`")}] = true
				}
			}
		}
	}
	return found
}

// granted returns the rights that the roles of an installation have.
func granted(t *testing.T, i installation) map[right]bool {
	t.Helper()
	found := map[right]bool{}
	for _, role := range ofKind[rbacv1.ClusterRole](t, i.render(t), "ClusterRole", "Role") {
		for _, rule := range role.Rules {
			for _, what := range rightsOf(rule) {
				found[right{role: role.Kind + " " + role.Name, what: what}] = true
			}
		}
	}
	return found
}

func rightsOf(rule rbacv1.PolicyRule) []string {
	var whats []string
	for _, verb := range rule.Verbs {
		for _, url := range rule.NonResourceURLs {
			whats = append(whats, verb+" "+url)
		}
		for _, resource := range rule.Resources {
			for _, group := range rule.APIGroups {
				what := verb + " " + qualified(resource, group)
				if len(rule.ResourceNames) == 0 {
					whats = append(whats, what)
				}
				for _, name := range rule.ResourceNames {
					whats = append(whats, what+" "+name)
				}
			}
		}
	}
	return whats
}

// qualified writes a resource as kubectl does, with what is below it behind the group.
func qualified(resource, group string) string {
	if group == "" {
		return resource
	}
	name, below, found := strings.Cut(resource, "/")
	if found {
		return name + "." + group + "/" + below
	}
	return name + "." + group
}

// TestRoles_DocumentedReasons compares the roles of all installations with the list of rights and
// reasons for people.
func TestRoles_DocumentedReasons(t *testing.T) {
	t.Parallel()
	reasons, used := documented(t), map[right]bool{}
	for name, i := range installations {
		for r := range granted(t, i) {
			used[r] = true
			if !reasons[r] {
				t.Errorf("%s: %s may %q; add the reason to docs/installation.md, or take the right away", name, r.role, r.what)
			}
		}
	}
	for r := range reasons {
		if !used[r] {
			t.Errorf("docs/installation.md has a reason for %s to %q, which no manifest grants", r.role, r.what)
		}
	}
	if len(used) < 100 {
		t.Errorf("found only %d rights", len(used))
	}
}

// TestRoles_BackupsOnly compares what an operator may that must not restore with what it may
// otherwise.
func TestRoles_BackupsOnly(t *testing.T) {
	t.Parallel()
	without := granted(t, installations["for backups only"])
	taken := granted(t, installations["default"])
	maps.DeleteFunc(taken, func(r right, _ bool) bool { return without[r] })
	var whats []string
	for r := range taken {
		whats = append(whats, r.what)
	}
	slices.Sort(whats)
	want := []string{
		"bind clusterroles.rbac.authorization.k8s.io", "bind roles.rbac.authorization.k8s.io",
		"create *.*", "create configmaps", "delete *.*",
		"escalate clusterroles.rbac.authorization.k8s.io", "escalate roles.rbac.authorization.k8s.io",
		"get configmaps", "patch *.*", "patch configmaps", "update *.*", "update configmaps",
	}
	if !slices.Equal(whats, want) {
		t.Errorf("it takes away\n%q, want\n%q", whats, want)
	}
}
