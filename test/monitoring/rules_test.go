// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"sigs.k8s.io/yaml"
)

const component = "../../config/components/monitoring"

// readGroups returns the rule groups of the PrometheusRule as a file of Prometheus.
func readGroups(t *testing.T) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(component, "prometheusrule.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var object struct {
		Spec map[string]any `json:"spec"`
	}
	if err := yaml.Unmarshal(content, &object); err != nil {
		t.Fatal(err)
	}
	groups, err := yaml.Marshal(object.Spec)
	if err != nil {
		t.Fatal(err)
	}
	return groups
}

func writeRules(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(path, readGroups(t), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func readRules(t *testing.T) []rulefmt.Rule {
	t.Helper()
	groups, errs := rulefmt.Parse(readGroups(t), false, model.UTF8Validation, promqlParser, slog.New(slog.DiscardHandler))
	if len(errs) > 0 || len(groups.Groups) != 1 {
		t.Fatalf("%d groups: %v", len(groups.Groups), errs)
	}
	return groups.Groups[0].Rules
}

// TestRules_Metrics fails if an alert waits for a metric or a label that no operator exports: it would
// never fire.
func TestRules_Metrics(t *testing.T) {
	t.Parallel()
	exported := readExportedMetrics(t)
	for _, rule := range readRules(t) {
		exported.checkQuery(t, rule.Alert, rule.Expr)
	}
}

// TestRules_Runbooks opens the runbook of each alert, as a person does who is woken by it.
func TestRules_Runbooks(t *testing.T) {
	t.Parallel()
	const document = "https://github.com/grapnel-dev/grapnel/blob/main/"
	wantSections := []string{"**What it means.**", "**Check.**", "**Fix.**"}
	runbooks := map[string]bool{}
	for _, rule := range readRules(t) {
		for _, annotation := range []string{"summary", "description"} {
			if rule.Annotations[annotation] == "" {
				t.Errorf("%s has no %s", rule.Alert, annotation)
			}
		}
		if severity := rule.Labels["severity"]; severity != "critical" && severity != "warning" {
			t.Errorf("%s has the severity %q", rule.Alert, severity)
		}
		file, anchor, _ := strings.Cut(strings.TrimPrefix(rule.Annotations["runbook_url"], document), "#")
		content, err := os.ReadFile(filepath.Join("../..", file))
		if err != nil {
			t.Errorf("%s: %v", rule.Alert, err)
			continue
		}
		_, section, found := strings.Cut(string(content), "\n## "+rule.Alert+"\n")
		if !found || anchor != strings.ToLower(rule.Alert) {
			t.Errorf("%s: %s has no section of that name, or the anchor is another one", rule.Alert, file)
			continue
		}
		runbooks[rule.Alert] = true
		section, _, _ = strings.Cut(section, "\n## ")
		for _, want := range wantSections {
			if !strings.Contains(section, want) {
				t.Errorf("the runbook of %s has no %s", rule.Alert, want)
			}
		}
		if !strings.Contains(section, "\n    kubectl ") {
			t.Errorf("the runbook of %s has no command", rule.Alert)
		}
		if !strings.Contains(section, "`"+rule.Labels["severity"]+"`") || !strings.Contains(section, rule.For.String()) {
			t.Errorf("the runbook of %s does not have its severity %s and its time %s", rule.Alert, rule.Labels["severity"], rule.For)
		}
	}
	content, err := os.ReadFile("../../docs/runbooks.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(content)) {
		if name, isAlert := strings.CutPrefix(strings.TrimSpace(line), "## Grapnel"); isAlert && !runbooks["Grapnel"+name] {
			t.Errorf("docs/runbooks.md explains Grapnel%s, which is no alert", name)
		}
	}
}
