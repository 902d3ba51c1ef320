// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"context"
	"regexp"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

const tenancyPage = "../docs/guides/tenancy.md"

// TestTenancyDoc_Roles compares the table of roles with what they grant: each row has rights, and yes in the columns
// of the roles that have all of them. Together, the rows have every right of every role.
func TestTenancyDoc_Roles(t *testing.T) {
	t.Parallel()
	roles := granted(t, installations["default"])
	explained := map[right]bool{}
	page := readText(t, tenancyPage)
	rows := regexp.MustCompile("(?m)^\\| ([^|]+) \\| [^|]* \\| ([^|]*`[^|]*) \\|(.*)\\|$").FindAllStringSubmatch(page, -1)
	columns := strings.Split(strings.Trim(regexp.MustCompile(`(?m)^\| what .*$`).FindString(page), "| "), " | ")[3:]
	for i, name := range columns {
		columns[i] = "ClusterRole grapnel-" + strings.Trim(name, "`")
	}
	for _, row := range rows {
		rights := parseRights(row[2])
		for i, cell := range strings.Split(row[3], "|") {
			var lacks []string
			for _, what := range rights {
				if r := (right{role: columns[i], what: what}); roles[r] {
					explained[r] = true
				} else {
					lacks = append(lacks, what)
				}
			}
			if yes := strings.TrimSpace(cell) == "yes"; yes != (len(lacks) == 0) {
				t.Errorf("%q for %s is %v in the table, and the role lacks %q", row[1], columns[i], yes, lacks)
			}
		}
	}
	for r := range roles {
		for _, column := range columns {
			if r.role == column && !explained[r] {
				t.Errorf("no row has the right of %s to %s", r.role, r.what)
			}
		}
	}
	if len(rows) < 8 || len(columns) != 5 {
		t.Errorf("found %d rows, and the roles %q", len(rows), columns)
	}
}

// parseRights reads "get, list `backups`; get `services/proxy name`". Resources are Grapnel's unless they are those
// of events or Services.
func parseRights(cell string) []string {
	var rights []string
	for part := range strings.SplitSeq(cell, "; ") {
		verbs, resources, _ := strings.Cut(part, " `")
		for resource := range strings.SplitSeq(strings.Trim(resources, "`"), "`, `") {
			if name, _, _ := strings.Cut(resource, "/"); !strings.HasPrefix(name, "events") && name != "services" {
				resource = qualified(resource, v1alpha1.GroupVersion.Group)
			}
			for verb := range strings.SplitSeq(verbs, ", ") {
				rights = append(rights, verb+" "+resource)
			}
		}
	}
	return rights
}

// testTenancy applies the policy for a team, as it is documented, and creates Backups as a member.
func (s *suite) testTenancy(t *testing.T) {
	s.kubectl(t, blocks(readText(t, tenancyPage), "yaml")[0], "apply", "--validate=strict", "-f", "-")
	member := s.as(t, "member-of-team-shop", "team-shop")
	backup := func(change func(*v1alpha1.Backup)) error {
		none := false
		b := &v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "of-the-team-"}}
		b.Spec.IncludedNamespaces, b.Spec.IncludeClusterResources = []v1alpha1.NamePattern{"shop", "shop-web"}, &none
		change(b)
		return member.Create(t.Context(), b, client.DryRunAll)
	}
	all := func(b *v1alpha1.Backup) { b.Spec.IncludedNamespaces = nil }
	eventually(t, "the policy of the team", func(context.Context) (bool, error) {
		err := backup(all)
		return apierrors.IsForbidden(err) || apierrors.IsInvalid(err), nil
	})
	eventually(t, "the right of the team", func(context.Context) (bool, error) { return backup(func(*v1alpha1.Backup) {}) == nil, nil })
	for what, change := range map[string]func(*v1alpha1.Backup){
		"spec.includedNamespaces may only":      all,
		"spec.includedNamespaces may only have": func(b *v1alpha1.Backup) { b.Spec.IncludedNamespaces = []v1alpha1.NamePattern{"shop*"} },
		"spec.includeClusterResources must":     func(b *v1alpha1.Backup) { b.Spec.IncludeClusterResources = nil },
		"spec.parameters and":                   func(b *v1alpha1.Backup) { b.Spec.StorageLocation = "other" },
		"spec.storageLocation, spec.parameters": func(b *v1alpha1.Backup) {
			b.Spec.Parameters = map[string]v1alpha1.ParameterSet{"example.io/window": {"force": "yes"}}
		},
		"labels, and annotations": func(b *v1alpha1.Backup) { b.Labels = map[string]string{"window": "yes"} },
		"annotations of Grapnel": func(b *v1alpha1.Backup) {
			b.Annotations = map[string]string{"grapnel.dev/abandon-cleanup": "true"}
		},
	} {
		if err := backup(change); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("want a refusal with %q, got %v", what, err)
		}
	}
	if err := s.user.Create(t.Context(), &v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "of-another-"}}, client.DryRunAll); err != nil {
		t.Errorf("the policy concerns others, too: %v", err)
	}
	of := &v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "of-a-person"}}
	if err := member.Delete(t.Context(), of, client.DryRunAll); !apierrors.IsForbidden(err) {
		t.Errorf("a member deletes the Backup of another: %v", err)
	}
}
