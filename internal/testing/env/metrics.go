// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

// MetricAbsent is the value of a metric that does not exist.
const MetricAbsent = -1

// ScrapeMetrics returns the metrics of the operator, by name with labels.
func (s *Namespace) ScrapeMetrics(t testing.TB) map[string]float64 {
	t.Helper()
	req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodGet, s.Operator.MetricsURL(), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	values := map[string]float64{}
	for scanner := bufio.NewScanner(resp.Body); scanner.Scan(); {
		line := scanner.Text()
		end := strings.LastIndexByte(line, ' ')
		if strings.HasPrefix(line, "#") || end < 0 {
			continue
		}
		value, err := strconv.ParseFloat(line[end+1:], 64)
		if err != nil {
			t.Fatal(err)
		}
		values[line[:end]] = value
	}
	return values
}

// WaitForMetric polls a metric until it has the given value, which may be MetricAbsent.
func (s *Namespace) WaitForMetric(t testing.TB, name string, want float64) {
	t.Helper()
	suite.Eventually(t, func() string {
		value, there := s.ScrapeMetrics(t)[name]
		if !there {
			value = MetricAbsent
		}
		if value == want {
			return ""
		}
		return fmt.Sprintf("%s is %v, want %v (%v means absent)", name, value, want, MetricAbsent)
	})
}

// CheckLogsForSecrets checks that no operator logged a secret so far.
func (w *Env) CheckLogsForSecrets() error {
	logs, err := filepath.Glob(filepath.Join(w.Dir, "*", "operator.log"))
	if err != nil {
		return err
	}
	for _, log := range logs {
		content, err := os.ReadFile(log)
		if err != nil {
			return err
		}
		for _, secret := range append([]string{FaultPluginToken}, w.opts.Secrets...) {
			for line := range bytes.Lines(content) {
				if bytes.Contains(line, []byte(secret)) {
					return fmt.Errorf("an operator logged the secret %q: %s", secret, line)
				}
			}
		}
	}
	return nil
}

// FormatActionStatuses returns the statuses of the actions of a Backup or Restore as "name Phase";
// an action that did not start has no phase.
func FormatActionStatuses(list *[]v1alpha1.ActionStatus) []string {
	if list == nil {
		return nil
	}
	var texts []string
	for _, status := range *list {
		texts = append(texts, strings.TrimSpace(status.PluginName+" "+string(status.Phase)))
	}
	return texts
}

// CheckEqual compares lists.
func CheckEqual(t testing.TB, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n got %q\nwant %q", what, got, want)
	}
}
