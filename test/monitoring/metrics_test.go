// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// exportedMetrics are the metrics of operators.
type exportedMetrics struct {
	// series are those of the recordings, by name, with the labels that Prometheus adds.
	series map[string][]labels.Labels
	// labels are the names of the labels of each metric. Prometheus stores no empty ones.
	labels map[string]map[string]bool
	// registered are names in the source of the operator. Not every story has a series of each.
	registered map[string]bool
}

func readExportedMetrics(t *testing.T) exportedMetrics {
	t.Helper()
	m := exportedMetrics{series: map[string][]labels.Labels{}, labels: map[string]map[string]bool{}, registered: map[string]bool{}}
	files, err := filepath.Glob("testdata/*.prom")
	if err != nil || len(files) < 8 {
		t.Fatalf("%d recordings: %v", len(files), err)
	}
	for _, file := range files {
		for series := range loadRecording(t, strings.TrimSuffix(filepath.Base(file), ".prom")).values {
			metric := exportedSeries(t, series, targetLabels)
			name := metric.Get(labels.MetricName)
			m.add(name, series, metric)
			// The recordings have no buckets.
			if histogram, isCount := strings.CutSuffix(name, "_seconds_count"); isCount {
				m.add(histogram+"_seconds_bucket", series, labels.NewBuilder(metric).Set("le", "1").Labels())
			}
		}
	}
	quoted := regexp.MustCompile(`"(grapnel_[a-z_]+[a-z])"`)
	for _, dir := range []string{".", "controllers", "internal"} {
		err := filepath.WalkDir(filepath.Join("../..", dir), func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if entry.IsDir() && dir == "." && path != "../.." {
				return filepath.SkipDir
			}
			if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return nil
			}
			source, err := os.ReadFile(path)
			for _, match := range quoted.FindAllSubmatch(source, -1) {
				m.registered[string(match[1])] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return m
}

var labelName = regexp.MustCompile(`[{,](\w+)="`)

// add adds a series as it is exported and as it is stored.
func (m exportedMetrics) add(name, exported string, stored labels.Labels) {
	m.series[name] = append(m.series[name], stored)
	if m.labels[name] == nil {
		m.labels[name] = map[string]bool{}
	}
	stored.Range(func(l labels.Label) { m.labels[name][l.Name] = true })
	for _, match := range labelName.FindAllStringSubmatch(exported, -1) {
		m.labels[name][match[1]] = true
	}
}

// hasRecordings reports whether the recordings have series for all selectors of a query. They have no
// buckets of histograms.
func (m exportedMetrics) hasRecordings(t *testing.T, query string) bool {
	t.Helper()
	expr, err := promqlParser.ParseExpr(query)
	if err != nil {
		return false
	}
	all := true
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if selector, ok := node.(*parser.VectorSelector); ok && (len(m.series[selector.Name]) == 0 || strings.HasSuffix(selector.Name, "_bucket")) {
			all = false
		}
		return nil
	})
	return all
}

// checkQuery parses a query, and looks up the metrics and labels in it.
func (m exportedMetrics) checkQuery(t *testing.T, where, query string) {
	t.Helper()
	expr, err := promqlParser.ParseExpr(query)
	if err != nil {
		t.Errorf("%s: %v\n%s", where, err, query)
		return
	}
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.VectorSelector:
			m.checkSelector(t, where, n)
		case *parser.AggregateExpr:
			m.checkGrouping(t, where, n.Grouping, n.Expr)
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				m.checkGrouping(t, where, n.VectorMatching.MatchingLabels, n.LHS)
				m.checkGrouping(t, where, n.VectorMatching.MatchingLabels, n.RHS)
			}
		}
		return nil
	})
}

// checkSelector checks that the metric exists, and that series of the recordings have the labels that
// are selected.
func (m exportedMetrics) checkSelector(t *testing.T, where string, selector *parser.VectorSelector) {
	t.Helper()
	known := m.labels[selector.Name]
	if known == nil && !m.registered[strings.TrimSuffix(selector.Name, "_bucket")] {
		t.Errorf("%s: no operator exports the metric %q", where, selector.Name)
	}
	for _, matcher := range selector.LabelMatchers {
		if known != nil && !known[matcher.Name] {
			t.Errorf("%s: %s has no label %s", where, selector.Name, matcher.Name)
		}
	}
}

// checkGrouping checks that the series of an expression have the labels by which it is grouped.
func (m exportedMetrics) checkGrouping(t *testing.T, where string, grouping []string, expr parser.Expr) {
	t.Helper()
	parser.Inspect(expr, func(node parser.Node, path []parser.Node) error {
		selector, isSelector := node.(*parser.VectorSelector)
		if !isSelector || len(m.series[selector.Name]) == 0 || isFilter(append(path, node)) {
			return nil
		}
		for _, label := range grouping {
			if !m.labels[selector.Name][label] {
				t.Errorf("%s: %s has no label %s", where, selector.Name, label)
			}
		}
		return nil
	})
}

// isFilter reports whether the end of a path is to the right of "and" or "unless", so that its labels are not
// in the result.
func isFilter(path []parser.Node) bool {
	for i, node := range path[:len(path)-1] {
		if b, ok := node.(*parser.BinaryExpr); ok && (b.Op == parser.LAND || b.Op == parser.LUNLESS) && path[i+1] == b.RHS {
			return true
		}
	}
	return false
}
