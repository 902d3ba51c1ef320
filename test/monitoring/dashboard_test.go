// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	grafana "github.com/grafana/grafana-foundation-sdk/go/dashboard"
	grafanaprometheus "github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// dashboard has the parts of Grafana's model that contain queries.
type dashboard struct {
	UID        string `json:"uid"`
	Templating struct {
		List []struct {
			Name       string `json:"name"`
			Type       string `json:"type"`
			Definition string `json:"definition"`
		} `json:"list"`
	} `json:"templating"`
	Panels []struct {
		ID      int                            `json:"id"`
		Title   string                         `json:"title"`
		Type    string                         `json:"type"`
		GridPos struct{ X, Y, W, H int }       `json:"gridPos"`
		Targets []struct{ RefID, Expr string } `json:"targets"`
	} `json:"panels"`
}

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(component, "dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(content, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// TestDashboard_Schema reads the dashboard with the types of Grafana, which reject unknown fields here.
func TestDashboard_Schema(t *testing.T) {
	t.Parallel()
	runtime := cog.NewRuntime()
	runtime.RegisterPanelcfgVariant(stat.VariantConfig())
	runtime.RegisterPanelcfgVariant(table.VariantConfig())
	runtime.RegisterPanelcfgVariant(timeseries.VariantConfig())
	runtime.RegisterDataqueryVariant(grafanaprometheus.VariantConfig())
	content, err := os.ReadFile(filepath.Join(component, "dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	var d grafana.Dashboard
	if err := d.UnmarshalJSONStrict(content); err != nil && err.Error() != "" { // it returns an empty list, and not nil
		t.Error(err)
	}
}

// TestDashboard_Queries parses each query as Prometheus receives it: with the variables replaced.
func TestDashboard_Queries(t *testing.T) {
	t.Parallel()
	d, exported, queries := readDashboard(t), readExportedMetrics(t), 0
	replacements := []string{"$__rate_interval", "5m", "$__interval", "1h"}
	for _, variable := range d.Templating.List {
		replacements = append(replacements, "$"+variable.Name, ".*")
	}
	variables := strings.NewReplacer(replacements...)
	for _, variable := range d.Templating.List {
		if variable.Type != "query" {
			continue
		}
		match := regexp.MustCompile(`^label_values\((.+), (\w+)\)$`).FindStringSubmatch(variable.Definition)
		if match == nil {
			t.Errorf("the variable %s has the query %q", variable.Name, variable.Definition)
			continue
		}
		exported.checkQuery(t, "the variable "+variable.Name, "max by ("+match[2]+") ("+variables.Replace(match[1])+")")
	}
	p := newPrometheus(t)
	p.scrapeEverything(t)
	for _, panel := range d.Panels {
		isEmpty, isRecorded := true, false
		for _, target := range panel.Targets {
			queries++
			query := variables.Replace(target.Expr)
			if strings.Contains(query, "$") {
				t.Errorf("the panel %q has an unknown variable: %s", panel.Title, query)
			}
			exported.checkQuery(t, "the panel "+panel.Title, query)
			isRecorded = isRecorded || exported.hasRecordings(t, query)
			isEmpty = isEmpty && len(p.query(t, query)) == 0
		}
		if panel.Type != "row" && len(panel.Targets) == 0 || isEmpty && isRecorded {
			t.Errorf("the panel %q is empty", panel.Title)
		}
	}
	if queries < 20 {
		t.Errorf("found only %d queries", queries)
	}
}

// TestDashboard_Layout fails if panels overlap, or two have the same ID: Grafana shows only one of them.
func TestDashboard_Layout(t *testing.T) {
	t.Parallel()
	taken, ids := map[[2]int]string{}, map[int]bool{}
	for _, panel := range readDashboard(t).Panels {
		if ids[panel.ID] {
			t.Errorf("two panels have the ID %d", panel.ID)
		}
		ids[panel.ID] = true
		if panel.GridPos.W < 1 || panel.GridPos.X+panel.GridPos.W > 24 {
			t.Errorf("the panel %q is not within the 24 columns", panel.Title)
		}
		for x := range panel.GridPos.W {
			for y := range panel.GridPos.H {
				cell := [2]int{panel.GridPos.X + x, panel.GridPos.Y + y}
				if taken[cell] != "" {
					t.Fatalf("the panel %q overlaps with %q", panel.Title, taken[cell])
				}
				taken[cell] = panel.Title
			}
		}
	}
}
