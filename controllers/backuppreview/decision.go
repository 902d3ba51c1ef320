// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backuppreview

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/conditions"
	"github.com/grapnel-dev/grapnel/internal/hook"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/internal/results"
	"github.com/grapnel-dev/grapnel/internal/runner"
	"github.com/grapnel-dev/grapnel/internal/storage/location"
	"github.com/grapnel-dev/grapnel/internal/text"
)

// Limits of the API.
const (
	maxPreviewedActions   = 256
	maxPreviewedResources = 512
	maxSkippedBytes       = 1024
	maxValidationErrors   = 64
)

// observedPreview is what is known of a BackupPreview besides the object.
type observedPreview struct {
	plugins  []v1alpha1.Plugin
	location location.Choice
	// running means that the objects are being read or were read in this process. outcome is the
	// result, nil until then.
	running bool
	outcome *runner.Outcome[previewResult]
	// busy means that the objects of another BackupPreview are being read.
	busy bool
	// crashed means that an earlier operator crashed while it read the objects.
	crashed  bool
	redactor *redact.Redactor
}

// hasPreviewEnded reports whether the status of a BackupPreview does not change anymore.
func hasPreviewEnded(p *v1alpha1.BackupPreview) bool {
	switch p.Status.Phase {
	case "", v1alpha1.RunPhaseNew, v1alpha1.RunPhaseInProgress:
		return false
	default:
		return true
	}
}

// isPreviewExpired reports whether a BackupPreview has to be deleted.
func isPreviewExpired(p *v1alpha1.BackupPreview, now time.Time) bool {
	return p.Status.ExpirationTimestamp != nil && !now.Before(p.Status.ExpirationTimestamp.Time)
}

// decidePreview advances the status of a BackupPreview, and reports whether to start reading its
// objects.
func decidePreview(p *v1alpha1.BackupPreview, seen observedPreview, now time.Time) (start bool) {
	if p.Status.ExpirationTimestamp == nil {
		p.Status.ExpirationTimestamp = &metav1.Time{Time: now.Add(previewLifetime)}
	}
	template := newPreviewedBackup(p)
	hooks, loading := lifecycle.BackupKind.BuildHookPlan(template, seen.plugins)
	switch {
	case seen.outcome != nil:
		recordPreviewOutcome(p, seen, hooks)
		return false
	case seen.running:
		return false
	case seen.crashed:
		setPreviewPhase(p, v1alpha1.RunPhaseFailed, v1alpha1.ReasonRunCrashed, "The operator crashed while it read the objects; a Backup may crash it, too: see its log")
		return false
	case loading != "":
		setPreviewPhase(p, v1alpha1.RunPhaseNew, v1alpha1.ReasonWaitingForPlugins, fmt.Sprintf("Waiting for Plugin %s to start", loading))
		return false
	case seen.location.Waiting != "":
		setPreviewPhase(p, v1alpha1.RunPhaseNew, v1alpha1.ReasonWaitingForLocation, seen.location.Waiting)
		return false
	}
	p.Status.Actions = listPreviewedActions(hooks)
	if errs := validatePreview(template, seen.location, hooks); len(errs) > 0 {
		recordPreviewErrors(p, errs)
		return false
	}
	p.Status.StorageLocation = seen.location.Location.Name
	if seen.busy {
		setPreviewPhase(p, v1alpha1.RunPhaseNew, v1alpha1.ReasonQueued, "Waiting for another BackupPreview; one is made at a time")
		return false
	}
	setPreviewPhase(p, v1alpha1.RunPhaseInProgress, v1alpha1.ReasonPreviewing, "Reading the objects that a Backup would archive")
	return true
}

// newPreviewedBackup returns the Backup that is previewed.
func newPreviewedBackup(p *v1alpha1.BackupPreview) *v1alpha1.Backup {
	template := &p.Spec.Template
	return &v1alpha1.Backup{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.Namespace, Name: p.Name,
			Labels:      lifecycle.ToStringMap(template.Metadata.Labels),
			Annotations: lifecycle.ToStringMap(template.Metadata.Annotations),
		},
		Spec: template.Spec,
	}
}

// validatePreview returns what the validation of the Backup would reject.
func validatePreview(b *v1alpha1.Backup, where location.Choice, hooks hook.Plan) []string {
	errs := lifecycle.ValidateBackup(b)
	for _, problem := range []string{where.Missing, where.Problem} {
		if problem != "" {
			errs = append(errs, problem)
		}
	}
	return append(errs, hooks.Errors...)
}

func recordPreviewErrors(p *v1alpha1.BackupPreview, errs []string) {
	message := "The Backup would fail validation: " + errs[0]
	if len(errs) > 1 {
		message = fmt.Sprintf("The Backup would fail validation with %d problems, the first: %s", len(errs), errs[0])
	}
	for _, err := range errs[:min(len(errs), maxValidationErrors)] {
		p.Status.ValidationErrors = append(p.Status.ValidationErrors, lifecycle.TruncateMessage(err))
	}
	setPreviewPhase(p, v1alpha1.RunPhaseFailedValidation, v1alpha1.ReasonFailedValidation, message)
}

// listPreviewedActions returns the actions of a plan in the order in which they would be called.
func listPreviewedActions(hooks hook.Plan) (actions []v1alpha1.PreviewedAction) {
	for _, part := range []struct {
		side    hook.Side
		point   v1alpha1.HookPoint
		planned []hook.PlannedAction
	}{
		{hook.Pre, v1alpha1.HookPreBackup, hooks.Pre}, {hook.Item, "", hooks.Items}, {hook.Post, v1alpha1.HookPostBackup, hooks.Post},
	} {
		for _, planned := range part.planned {
			action := v1alpha1.PreviewedAction{
				Hook: part.point, ActionName: planned.Name, Plugin: planned.Plugin,
				Timeout: &metav1.Duration{Duration: planned.Timeout}, Retries: planned.Retries, Owed: planned.Cleanup,
			}
			for _, outcome := range planned.RunOn {
				action.RunOn = append(action.RunOn, v1alpha1.Outcome(outcome))
			}
			if planned.AfterDataCaptured {
				action.RunAfter = v1alpha1.RunAfterDataCaptured
			}
			actions = append(actions, action)
		}
		for _, skipped := range hooks.Skipped {
			if skipped.Side == part.side {
				actions = append(actions, v1alpha1.PreviewedAction{
					Hook: part.point, ActionName: skipped.Name, Skipped: text.Truncate(skipped.Reason, maxSkippedBytes),
				})
			}
		}
	}
	return actions[:min(len(actions), maxPreviewedActions)]
}

// recordPreviewOutcome records what was read.
func recordPreviewOutcome(p *v1alpha1.BackupPreview, seen observedPreview, hooks hook.Plan) {
	if err := seen.outcome.Err; err != nil {
		setPreviewPhase(p, v1alpha1.RunPhaseFailed, v1alpha1.ReasonFailed, "Reading the objects failed: "+seen.redactor.String(err.Error()))
		return
	}
	found := seen.outcome.Value
	problems := found.Results
	if v := p.Spec.Template.Spec.Volumes; v != nil && v.RequireCaptured {
		if errs := describeSkippedClaims(problems, seen.redactor); len(errs) > 0 {
			recordPreviewErrors(p, errs)
			return
		}
	}
	for _, warning := range hooks.Warnings {
		problems.WarningCount += problems.Warnings.AddNew(results.Problem{Reason: results.ReasonPlanWarning, Message: warning})
	}
	run := &v1alpha1.RunStatus{Errors: int64(problems.ErrorCount), Warnings: int64(problems.WarningCount)}
	lifecycle.RecordProblems(run, problems, seen.redactor)
	status := &p.Status
	status.Errors, status.Warnings, status.Problems = run.Errors, run.Warnings, run.Problems
	status.Objects, status.ArchiveBytes = int64(found.Items), found.archiveBytes
	status.Resources = listPreviewedResources(problems.Objects)
	phase, message := v1alpha1.RunPhaseCompleted, "A Backup would archive "+text.Pluralize(status.Objects, "object")
	if run.Errors > 0 {
		phase = v1alpha1.RunPhasePartiallyFailed
		message += ", with " + lifecycle.DescribeErrors(run)
	}
	if run.Warnings > 0 {
		message += ", with " + lifecycle.DescribeWarnings(run)
	}
	setPreviewPhase(p, phase, v1alpha1.ReasonPreviewed, message)
}

// describeSkippedClaims returns why claims would have no data.
func describeSkippedClaims(problems results.Results, redactor *redact.Redactor) (skipped []string) {
	for _, problem := range problems.Warnings {
		if problem.Reason == results.ReasonDataNotCaptured {
			skipped = append(skipped, redactor.String(problem.Message))
		}
	}
	return skipped
}

// listPreviewedResources returns the resources with the most objects, sorted by name.
func listPreviewedResources(summaries results.ResourceSummaries) (resources []v1alpha1.PreviewedResource) {
	largest := slices.SortedStableFunc(slices.Values(summaries), func(a, b results.ResourceSummary) int { return cmp.Compare(b.Objects, a.Objects) })
	for _, summary := range largest[:min(len(largest), maxPreviewedResources)] {
		resources = append(resources, v1alpha1.PreviewedResource{Resource: summary.Resource, Objects: int64(summary.Objects), Bytes: summary.Bytes})
	}
	slices.SortFunc(resources, func(a, b v1alpha1.PreviewedResource) int { return cmp.Compare(a.Resource, b.Resource) })
	return resources
}

// setPreviewPhase sets the phase of a BackupPreview, and the conditions that belong to it. A preview
// that says that a Backup would fail is a good preview.
func setPreviewPhase(p *v1alpha1.BackupPreview, phase v1alpha1.RunPhase, reason, message string) {
	state := conditions.Current
	switch phase {
	case v1alpha1.RunPhaseNew, v1alpha1.RunPhaseInProgress:
		state = conditions.InProgress
	case v1alpha1.RunPhaseFailed:
		state = conditions.Stalled
	default:
	}
	p.Status.Phase, p.Status.Message = phase, lifecycle.TruncateMessage(message)
	conditions.SetSummary(p, state, reason, p.Status.Message)
}
