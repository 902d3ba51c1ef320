// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/rawclient"
)

// handlingTimeout is how long the operator has to handle a request, unless --request-timeout says otherwise.
const handlingTimeout = 30 * time.Second

// newRunScheduleCommand returns the command that requests a run of a Schedule now.
func (a *app) newRunScheduleCommand() *cobra.Command {
	var wait waitFlags
	command := &cobra.Command{
		Use: "run NAME", Short: "Create a Backup of a Schedule now, also if it is paused", Args: cobra.ExactArgs(1),
		Long: "Create a Backup of a Schedule now, also if it is paused.\n\n" +
			"The Backup counts for the Schedule, and the times of the Schedule stay the same. The operator refuses it while\n" +
			"another Backup of the Schedule is running, unless the concurrencyPolicy of the Schedule is Allow or Replace.",
		Example: "  kubectl grapnel schedule run nightly --wait",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.connect()
			if err != nil {
				return err
			}
			backup, err := a.runSchedule(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			if wait.enabled {
				return a.waitForRun(cmd.Context(), c, backups, backup, wait)
			}
			return a.out.printf("Follow it with: kubectl grapnel backup wait %s\n", backup)
		},
	}
	wait.bindFlags(command, "wait until the Backup has ended, and show its progress")
	return command
}

// runSchedule requests a run of a Schedule, and returns the name of its Backup. If the operator refuses the request,
// the error says why.
func (a *app) runSchedule(ctx context.Context, c *connection, name string) (backup string, err error) {
	var s v1alpha1.Schedule
	if err := c.getObject(ctx, "Schedule", name, &s, &v1alpha1.ScheduleList{}); err != nil {
		return "", err
	}
	request := newRunRequest(&s, time.Now())
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AnnotationRunRequestedAt, request)
	if err := c.Patch(ctx, &s, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return "", err
	}
	handled, err := c.waitForHandling(ctx, name, request)
	if err != nil {
		return "", err
	}
	status := &handled.Status
	if status.LastRequestedBackup == "" {
		return "", fmt.Errorf("the operator created no Backup of Schedule %s: %s", name, status.LastRunRequestMessage)
	}
	if status.LastRunRequestMessage != "" {
		return status.LastRequestedBackup, a.out.printf("%s\n", status.LastRunRequestMessage)
	}
	return status.LastRequestedBackup, a.out.printf("Backup %s created\n", status.LastRequestedBackup)
}

// newRunRequest returns the time of a new request, in whole seconds. The operator ignores a request that is older than the
// Schedule, and creates one Backup for each second. A clock may differ from those of the API server and of earlier
// requests.
func newRunRequest(s *v1alpha1.Schedule, now time.Time) string {
	if now.Before(s.CreationTimestamp.Time) {
		now = s.CreationTimestamp.Time
	}
	if second := now.Truncate(time.Second); !second.Equal(now) {
		now = second.Add(time.Second)
	}
	for _, request := range []string{s.Annotations[v1alpha1.AnnotationRunRequestedAt], s.Status.LastHandledRunRequest} {
		earlier, err := time.Parse(time.RFC3339, request)
		if earlier = earlier.Truncate(time.Second); err == nil && !earlier.Before(now) && earlier.Sub(now) < time.Minute {
			now = earlier.Add(time.Second)
		}
	}
	return now.UTC().Format(time.RFC3339)
}

// waitForHandling waits until the operator has handled a request for a run of a Schedule, and returns the Schedule.
func (c *connection) waitForHandling(ctx context.Context, name, request string) (*v1alpha1.Schedule, error) {
	timeout := cmp.Or(c.config.Timeout, handlingTimeout)
	withTimeout, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var last *v1alpha1.Schedule
	isRequested := false // a watch may begin with a state from before the request
	isHandled := func(s *v1alpha1.Schedule) bool { return s.Status.LastHandledRunRequest == request }
	isDecided := func(s *v1alpha1.Schedule) bool {
		isReplaced := isRequested && s.Annotations[v1alpha1.AnnotationRunRequestedAt] != request
		return isReplaced || isHandled(s)
	}
	for {
		isRequested = false
		s, err := watchUntil(withTimeout, c, &v1alpha1.ScheduleList{}, "Schedule", name, isDecided, func(s *v1alpha1.Schedule) {
			last, isRequested = s, isRequested || s.Annotations[v1alpha1.AnnotationRunRequestedAt] == request
		})
		if s == nil && err == nil {
			err = rawclient.Sleep(withTimeout, rewatchInterval)
		}
		switch {
		case s != nil && isHandled(s):
			return s, nil
		case s != nil:
			return nil, errors.New("another request replaced this one before the operator handled it; run the command again")
		case ctx.Err() != nil:
			return nil, &exitError{exitFailure, "interrupted; the operator still handles the request"}
		case withTimeout.Err() != nil:
			return nil, unhandledError(last, name, timeout)
		case err != nil:
			return nil, err
		}
	}
}

// unhandledError says that the operator has not handled a request, and what may be the reason.
func unhandledError(s *v1alpha1.Schedule, name string, timeout time.Duration) error {
	text := fmt.Sprintf("the operator has not handled the request after %s", timeout)
	if s != nil && s.Status.Message != "" {
		text += fmt.Sprintf("; the Schedule reports: %s", s.Status.Message)
	}
	return fmt.Errorf("%s\nCheck that the operator runs, and that its version knows the annotation %s. "+
		"It may still create the Backup. To withdraw the request: kubectl annotate schedules.grapnel.dev %s %[2]s-",
		text, v1alpha1.AnnotationRunRequestedAt, name)
}
