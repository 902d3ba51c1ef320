// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/grapnel-dev/grapnel/internal/text"
)

// Severity is how bad a finding is.
type Severity string

// The severities.
const (
	// OK is the only finding of a check that found nothing.
	OK Severity = "ok"
	// Note is a finding that needs no action, or something that was not checked.
	Note Severity = "note"
	// Warning is a finding that will become a problem, or concerns some backups only.
	Warning Severity = "warning"
	// Error is a finding that prevents backups or restores, or leaves something undone.
	Error Severity = "error"
)

// Finding is what a check found.
type Finding struct {
	Severity Severity `json:"severity"`
	// Check is the name of the check.
	Check string `json:"check"`
	// Message is the finding in one line. It may contain texts of the cluster, and control characters.
	Message string `json:"message"`
	// Action is what to do; empty for nothing.
	Action string `json:"action,omitempty"`
}

// String returns the finding and what to do about it.
func (f Finding) String() string {
	if f.Action == "" {
		return f.Message
	}
	return f.Message + "; " + f.Action
}

// Where findings are explained.
const (
	seeCleanupOwed     = "see docs/guides/troubleshoot.md#cleanupowed-is-true"
	seeTroubleshooting = "see docs/guides/troubleshoot.md"
	seePluginNotReady  = "see docs/guides/troubleshoot.md#a-plugin-is-not-ready"
	seeOperatorGone    = "see docs/installation.md#when-the-operator-is-gone-already"
	seeInstallation    = "see docs/installation.md#see-that-it-works"
)

const (
	// maxFindings is how many findings a check lists.
	maxFindings = 20
	// maxMessageBytes limits what is shown of a message.
	maxMessageBytes = 1000
)

// report collects the findings of one check.
type report struct {
	findings []Finding
	// summary is what is reported if nothing was found.
	summary string
}

func (r *report) addFinding(severity Severity, action, format string, args ...any) {
	toLine := func(s string) string { return text.Truncate(strings.Join(strings.Fields(s), " "), maxMessageBytes) }
	r.findings = append(r.findings, Finding{Severity: severity, Message: toLine(fmt.Sprintf(format, args...)), Action: toLine(action)})
}

// addUnread reports whether something could not be read, and adds a finding about it. What names the right that is
// needed, as in "list plugins".
func (r *report) addUnread(err error, what string) bool {
	switch {
	case err == nil:
		return false
	case apierrors.IsForbidden(err):
		r.addFinding(Note, "ask an administrator for this right", "not checked: no right to %s", what)
	case apierrors.IsNotFound(err):
		r.addFinding(Note, "", "not checked: the cluster does not have what is needed to %s", what)
	default:
		r.addFinding(Warning, "", "not checked: the attempt to %s failed: %v", what, err)
	}
	return true
}

// toFindings returns the findings of a check, the first ones if there are many.
func (r *report) toFindings(check string) []Finding {
	if len(r.findings) == 0 {
		r.findings = []Finding{{Severity: OK, Message: r.summary}}
	}
	if hidden := len(r.findings) - maxFindings; hidden > 0 {
		worst := WorstSeverity(r.findings[maxFindings:])
		r.findings = append(r.findings[:maxFindings:maxFindings], Finding{Severity: worst, Message: fmt.Sprintf("and %d more", hidden)})
	}
	for i := range r.findings {
		r.findings[i].Check = check
	}
	return r.findings
}

// WorstSeverity returns the highest severity of some findings.
func WorstSeverity(findings []Finding) Severity {
	rank := map[Severity]int{OK: 0, Note: 1, Warning: 2, Error: 3}
	worst := OK
	for _, f := range findings {
		if rank[f.Severity] > rank[worst] {
			worst = f.Severity
		}
	}
	return worst
}

// DiagnoseInstallation returns the findings of all checks, in a fixed order. A check that found nothing has one with the severity OK.
func DiagnoseInstallation(s *Snapshot) []Finding {
	var all []Finding
	for _, check := range []struct {
		name string
		run  func(*Snapshot, *report)
	}{
		{"CRDs", checkDefinitions},
		{"APIs", checkGroups},
		{"Names", checkNames},
		{"Clock", checkClock},
		{"Operator", checkOperator},
		{"Version", checkVersion},
		{"Leader", checkLeader},
		{"Policies", checkPolicies},
		{"Downloads", checkDownloads},
		{"Locations", checkLocations},
		{"Plugins", checkPlugins},
		{"Schedules", checkSchedules},
		{"Runs", checkRuns},
		{"Clean-up", checkCleanup},
		{"Hooks", checkHooks},
		{"Finalizers", checkFinalizers},
	} {
		var r report
		check.run(s, &r)
		all = append(all, r.toFindings(check.name)...)
	}
	return all
}
