// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"bufio"
	"context"
	"log/slog"
	"math"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/util/teststorage"
)

const (
	// scrapeInterval is that of most installations of Prometheus.
	scrapeInterval = time.Minute
	// longStepInterval is that of steps that last longer than longStep, to save time. A series is stale after
	// five minutes.
	longStep, longStepInterval = 6 * time.Hour, 4 * time.Minute
)

var promqlParser = parser.NewParser(parser.Options{})

// targetLabels are what Prometheus adds to the metrics of a ServiceMonitor.
var targetLabels = map[string]string{
	"namespace": "grapnel-system", "service": "grapnel-controller-manager-metrics", "job": "grapnel-controller-manager-metrics",
	"pod": "grapnel-controller-manager-0", "container": "manager", "endpoint": "https", "instance": "10.0.0.7:8443",
}

// recording is what an operator exported at one moment.
type recording struct {
	at     time.Time
	values map[string]float64 // by name with labels, as exported
}

// loadRecording reads a file that the suite test/integration wrote.
func loadRecording(t *testing.T, name string) recording {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", name+".prom"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }() // it was only read
	r := recording{values: map[string]float64{}}
	for scanner := bufio.NewScanner(file); scanner.Scan(); {
		line := scanner.Text()
		end := strings.LastIndexByte(line, ' ')
		number, err := strconv.ParseFloat(line[end+1:], 64)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if strings.HasPrefix(line, "# at ") {
			r.at = time.Unix(int64(number), 0)
			continue
		}
		r.values[line[:end]] = number
	}
	if r.at.IsZero() || len(r.values) == 0 {
		t.Fatalf("%s has no time or no metrics", name)
	}
	return r
}

// exportedSeries returns the labels of a series as Prometheus stores them. A ServiceMonitor with
// honorLabels keeps those of the metric.
func exportedSeries(t *testing.T, series string, target map[string]string) labels.Labels {
	t.Helper()
	metric, err := promqlParser.ParseMetric(series)
	if err != nil {
		t.Fatalf("%s: %v", series, err)
	}
	builder := labels.NewBuilder(metric)
	for name, value := range target {
		if !metric.Has(name) {
			builder.Set(name, value)
		}
	}
	return builder.Labels()
}

// step is a time during which the metrics of a recording stay as they are.
type step struct {
	// recording is a file in testdata; empty means that no operator runs.
	recording string
	lasts     time.Duration
	// isLater keeps the times in the metrics as in the step before; both recordings are of one operator.
	// Otherwise, the recording was made when the step begins.
	isLater bool
	// isGrowing repeats with each scrape what happened between the last recording and this one.
	isGrowing bool
	// change is added to series, or is their growth, where no story produces that.
	change map[string]float64
	// standby is the recording of a second operator.
	standby string
	// want are the alerts that fire at the end: the name, and labels other than namespace and severity, with
	// patterns of path.Match.
	want []string
}

// prometheus stores metrics and evaluates the alerts.
type prometheus struct {
	storage *teststorage.TestStorage
	engine  *promql.Engine
	group   *rules.Group
	now     time.Time
	shift   float64         // seconds from recorded times to those of the step
	live    map[string]bool // the series of the last scrape
	// rendered are the annotations of all alerts that fired.
	rendered map[string]labels.Labels
}

func newPrometheus(t *testing.T) *prometheus {
	t.Helper()
	storage := teststorage.New(t)
	engine := promql.NewEngine(promql.EngineOpts{
		Logger: slog.New(slog.DiscardHandler), MaxSamples: 10_000_000, Timeout: time.Minute, LookbackDelta: 5 * time.Minute, Parser: promqlParser,
		NoStepSubqueryIntervalFn: func(int64) int64 { return scrapeInterval.Milliseconds() },
	})
	manager := rules.NewManager(&rules.ManagerOptions{
		Context: t.Context(), Appendable: storage, Queryable: storage, QueryFunc: rules.EngineQueryFunc(engine, storage),
		Logger: slog.New(slog.DiscardHandler), ExternalURL: &url.URL{}, Parser: promqlParser,
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {},
	})
	groups, errs := manager.LoadGroups(scrapeInterval, labels.EmptyLabels(), "", nil, false, writeRules(t))
	if len(errs) > 0 || len(groups) != 1 {
		t.Fatalf("%d groups: %v", len(groups), errs)
	}
	p := &prometheus{storage: storage, engine: engine, now: time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC), rendered: map[string]labels.Labels{}}
	for _, group := range groups {
		p.group = group
		for _, rule := range group.AlertingRules() {
			rule.SetRestored(true)
		}
	}
	return p
}

// replay scrapes and evaluates until the step ends.
func (p *prometheus) replay(t *testing.T, s step, before recording) recording {
	t.Helper()
	var current recording
	if s.recording != "" {
		current = loadRecording(t, s.recording)
	}
	if !s.isLater {
		p.shift = float64(p.now.Unix() - current.at.Unix())
	}
	growth, interval := map[string]float64{}, scrapeInterval
	if s.lasts > longStep {
		interval = longStepInterval
	}
	for end := p.now.Add(s.lasts); p.now.Before(end); p.now = p.now.Add(interval) {
		samples := map[string]float64{}
		for series, number := range current.values {
			name, _, _ := strings.Cut(series, "{")
			switch {
			case strings.HasSuffix(name, "_timestamp") && number > 0:
				number += p.shift
			case s.isGrowing && isCounter(name):
				growth[series] += max(0, number-before.values[series])
				number += growth[series]
			}
			samples[series] = number
		}
		for series, number := range s.change {
			samples[series] += number
			if s.isGrowing && isCounter(series) {
				growth[series] += number
				samples[series] = growth[series]
			}
		}
		p.scrape(t, samples, s.standby)
		p.group.Eval(t.Context(), p.now)
	}
	if s.isGrowing {
		for series := range current.values {
			current.values[series] += growth[series]
		}
	}
	return current
}

func isCounter(series string) bool {
	name, _, _ := strings.Cut(series, "{")
	return strings.HasSuffix(name, "_total") && name != "grapnel_backup_total" && name != "grapnel_restore_total" && name != "grapnel_deletionrun_total"
}

// scrape stores samples, and marks series that are missing as stale.
func (p *prometheus) scrape(t *testing.T, samples map[string]float64, standby string) {
	t.Helper()
	stored := map[string]float64{}
	add := func(samples map[string]float64, target map[string]string) {
		for series, number := range samples {
			stored[exportedSeries(t, series, target).String()] = number
		}
	}
	add(samples, targetLabels)
	if standby != "" {
		target := map[string]string{}
		for name, value := range targetLabels {
			target[name] = value
		}
		target["pod"], target["instance"] = "grapnel-controller-manager-1", "10.0.0.8:8443"
		add(loadRecording(t, standby).values, target)
	}
	for series := range p.live {
		if _, exists := stored[series]; !exists {
			stored[series] = math.Float64frombits(value.StaleNaN)
		}
	}
	p.live = map[string]bool{}
	appender := p.storage.Appender(t.Context())
	for series, number := range stored {
		metric, err := promqlParser.ParseMetric(series)
		if err == nil {
			_, err = appender.Append(0, metric, p.now.UnixMilli(), number)
		}
		if err != nil {
			t.Fatalf("%s: %v", series, err)
		}
		if !value.IsStaleNaN(number) {
			p.live[series] = true
		}
	}
	if err := appender.Commit(); err != nil {
		t.Fatal(err)
	}
}

// scrapeEverything scrapes two operators for ten minutes: one that exports the series of all recordings, with
// the worst of their values, and one that stands by.
func (p *prometheus) scrapeEverything(t *testing.T) {
	t.Helper()
	files, err := filepath.Glob("testdata/*.prom")
	if err != nil {
		t.Fatal(err)
	}
	samples := map[string]float64{}
	for _, file := range files {
		for series, number := range loadRecording(t, strings.TrimSuffix(filepath.Base(file), ".prom")).values {
			name, _, _ := strings.Cut(series, "{")
			isGood := strings.HasSuffix(name, "_available") || strings.HasSuffix(name, "_status")
			if known, exists := samples[series]; !exists || (number > known) != isGood {
				samples[series] = number
			}
		}
	}
	for end := p.now.Add(10 * scrapeInterval); p.now.Before(end); p.now = p.now.Add(scrapeInterval) {
		p.scrape(t, samples, "standby")
	}
	p.now = p.now.Add(-scrapeInterval)
}

// query returns the result of a query now.
func (p *prometheus) query(t *testing.T, query string) promql.Vector {
	t.Helper()
	q, err := p.engine.NewInstantQuery(t.Context(), p.storage, nil, query, p.now)
	if err != nil {
		t.Fatalf("%v: %s", err, query)
	}
	defer q.Close()
	result := q.Exec(t.Context())
	vector, err := result.Vector()
	if err != nil {
		t.Errorf("%v: %s", err, query)
	}
	return slices.Clone(vector)
}

// firing returns the alerts that fire, with their own labels.
func (p *prometheus) firing(t *testing.T) []string {
	t.Helper()
	var firing []string
	for _, rule := range p.group.AlertingRules() {
		if err := rule.LastError(); err != nil {
			t.Fatalf("%s: %v", rule.Name(), err)
		}
		for _, alert := range rule.ActiveAlerts() {
			if alert.State != rules.StateFiring {
				continue
			}
			text := rule.Name()
			alert.Labels.Range(func(l labels.Label) {
				if !slices.Contains([]string{"alertname", "severity", "namespace"}, l.Name) {
					text += " " + l.Name + "=" + l.Value
				}
			})
			firing = append(firing, text)
			p.rendered[rule.Name()] = alert.Annotations
		}
	}
	return firing
}

// checkFiring compares the alerts that fire with patterns.
func (p *prometheus) checkFiring(t *testing.T, want []string) {
	t.Helper()
	got := p.firing(t)
	matched := func(pattern, alert string) bool {
		ok, err := path.Match(pattern, alert)
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	for _, alert := range got {
		if !slices.ContainsFunc(want, func(pattern string) bool { return matched(pattern, alert) }) {
			t.Errorf("the alert %q fires", alert)
		}
	}
	for _, pattern := range want {
		if !slices.ContainsFunc(got, func(alert string) bool { return matched(pattern, alert) }) {
			t.Errorf("the alert %q does not fire", pattern)
		}
	}
}
