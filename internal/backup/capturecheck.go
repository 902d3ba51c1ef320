// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"io"

	"github.com/go-logr/logr"

	"github.com/grapnel-dev/grapnel/internal/itemaction"
	pluginclient "github.com/grapnel-dev/grapnel/internal/plugin/client"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/internal/results"
	"github.com/grapnel-dev/grapnel/internal/velero"
)

// NewCaptureChecks returns actions that determine which claims the item actions of a backup would
// capture, and capture nothing. With ArchiveRequest.OnOperationStarted set to AcceptCaptureCheck,
// ArchiveResult.Volumes has the counts.
func NewCaptureChecks(req Request, redactor *redact.Redactor) ([]itemaction.BackupAction, error) {
	return newPluginActions(req, velero.PhaseNew, pluginclient.NewCaptureCheck, redactor)
}

// AcceptCaptureCheck accepts what a capture check returns for data that would be captured.
func AcceptCaptureCheck(context.Context, itemaction.Operation) error { return nil }

// CheckCapture returns why the backup would have claims without data: one problem for each reason,
// and for each action that cannot tell. It reads the claims and starts nothing.
func (j *Runner) CheckCapture(ctx context.Context, req Request) (problems []string, err error) {
	checks, err := NewCaptureChecks(req, j.Logs.Redactor())
	if err != nil {
		return nil, err
	}
	made, err := j.Engine.WriteArchive(logr.NewContext(ctx, logr.Discard()), ArchiveRequest{
		Selection: req.Selection, StartTime: req.Start, Actions: checks, OnOperationStarted: AcceptCaptureCheck,
		OnlyClaims: true, RequireCaptured: true,
	}, io.Discard)
	if err != nil {
		return nil, err
	}
	for _, problem := range made.Results.Errors {
		switch problem.Reason {
		case results.ReasonDataNotCaptured, results.ReasonItemActionFailed:
			problems = append(problems, problem.Message)
		}
	}
	return problems, nil
}
