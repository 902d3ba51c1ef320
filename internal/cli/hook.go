// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/watch"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/intervention"
	"github.com/grapnel-dev/grapnel/internal/rawclient"
)

const (
	// interventionTimeout is how long a command waits until the operator has handled its request.
	interventionTimeout = 30 * time.Second
	// maxInterventionReason is how many characters a reason may have.
	maxInterventionReason = 256
)

// newHookCommand returns the command for HookRuns.
func (a *app) newHookCommand() *cobra.Command {
	return newGroupCommand("hook", "Show, retry and skip single steps of a Backup, Restore or DeletionRun",
		a.newGetCommand("HookRun", "hookruns"),
		a.newInterventionCommand(v1alpha1.HookInterventionRetry, "Retry a failed step now",
			"The step is a HookRun that waits for its next attempt, or a failed one after a Backup or Restore. If a step\n"+
				"before the work has failed, its run has failed, too, and cannot be retried: create a new run."),
		a.newInterventionCommand(v1alpha1.HookInterventionSkip, "End a step, and continue the run without it",
			"A step that is running is canceled. Clean-up that is owed is abandoned: check what it would have undone."))
}

// newInterventionCommand returns the command with which a user retries or skips a HookRun.
func (a *app) newInterventionCommand(what v1alpha1.HookInterventionType, short, long string) *cobra.Command {
	var reason string
	verb := strings.ToLower(string(what))
	command := &cobra.Command{
		Use: verb + " HOOKRUN --reason TEXT", Short: short, Args: cobra.ExactArgs(1),
		Long: short + ".\n\n" + long + "\nYour user name and the reason are recorded, and visible to everyone who can read HookRuns.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if n := utf8.RuneCountInString(reason); n > maxInterventionReason {
				return fmt.Errorf("--reason has %d characters; the limit is %d", n, maxInterventionReason)
			}
			if strings.TrimSpace(reason) == "" {
				return errors.New("--reason is empty; say why, for those who wonder later")
			}
			c, err := a.connect()
			if err != nil {
				return err
			}
			return a.requestIntervention(cmd.Context(), c, args[0], v1alpha1.HookIntervention{Type: what, Reason: reason})
		},
	}
	command.Flags().StringVar(&reason, "reason", "", "why; do not write secrets here")
	_ = command.MarkFlagRequired("reason") // it exists
	return command
}

// requestIntervention requests to retry or skip a HookRun, and prints what becomes of the request.
func (a *app) requestIntervention(ctx context.Context, c *connection, name string, request v1alpha1.HookIntervention) (err error) {
	var h v1alpha1.HookRun
	if err := c.getObject(ctx, "HookRun", name, &h, &v1alpha1.HookRunList{}); err != nil {
		return err
	}
	verb := strings.ToLower(string(request.Type))
	if refusal := intervention.RefusalReason(&h, request.Type); refusal != "" {
		return fmt.Errorf("cannot %s HookRun %s: %s", verb, name, refusal)
	}
	request.ID = string(uuid.NewUUID())
	if request.User, err = c.userName(ctx); err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"intervention": request}})
	if err != nil {
		return err
	}
	if err := c.Patch(ctx, &h, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return err
	}
	if err := a.out.printf("Requested to %s %s action %s of %s %s as user %s\n",
		verb, h.Spec.Hook, h.Spec.ActionName, h.Spec.ParentRef.Kind, h.Spec.ParentRef.Name, request.User); err != nil {
		return err
	}
	handled, err := c.awaitIntervention(ctx, name, request.ID)
	if err != nil {
		return err
	}
	return a.printIntervention(handled)
}

// printIntervention prints what became of a request.
func (a *app) printIntervention(h *v1alpha1.HookRun) error {
	if h.Status.LastIntervention.Outcome == v1alpha1.HookInterventionRefused {
		return errors.New(h.Status.LastIntervention.Message)
	}
	return a.out.printf("HookRun %s: %s (%s)\n", h.Name, h.Status.Phase, h.Status.Message)
}

// userName returns the name that the API server knows the user by.
func (c *connection) userName(ctx context.Context) (string, error) {
	authentication, err := authenticationclient.NewForConfig(c.config)
	if err != nil {
		return "", err
	}
	review, err := authentication.SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("finding out your user name: %w", err)
	}
	return review.Status.UserInfo.Username, nil
}

// awaitIntervention waits until the operator has handled a request, and until a skipped HookRun has finished.
func (c *connection) awaitIntervention(ctx context.Context, name, id string) (*v1alpha1.HookRun, error) {
	timeout := fmt.Errorf("the operator has not handled the request within %s, and does so later if it is running: kubectl describe hookrun %s -n %s",
		interventionTimeout, name, c.namespace)
	ctx, cancel := context.WithTimeoutCause(ctx, interventionTimeout, timeout)
	defer cancel()
	for {
		h, err := c.watchIntervention(ctx, name, id)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if h != nil || err != nil {
			return h, err
		}
		if err := rawclient.Sleep(ctx, rewatchInterval); err != nil {
			return nil, context.Cause(ctx)
		}
	}
}

// watchIntervention watches a HookRun until a request is handled. It returns nil if the watch ended before.
func (c *connection) watchIntervention(ctx context.Context, name, id string) (*v1alpha1.HookRun, error) {
	selector := fields.OneTermEqualSelector(metav1.ObjectNameField, name)
	changes, err := c.Watch(ctx, &v1alpha1.HookRunList{}, client.InNamespace(c.namespace), client.MatchingFieldsSelector{Selector: selector})
	if err != nil {
		return nil, err
	}
	defer changes.Stop()
	for change := range changes.ResultChan() {
		h, ok := change.Object.(*v1alpha1.HookRun)
		switch {
		case change.Type == watch.Deleted:
			return nil, fmt.Errorf("HookRun %s was deleted", name)
		case !ok || h.Spec.Intervention == nil:
		case h.Spec.Intervention.ID != id:
			return nil, fmt.Errorf("another request, by user %s, has replaced yours", h.Spec.Intervention.User)
		case intervention.UnhandledRequest(h) == nil && !intervention.IsSkipping(h):
			return h, nil
		}
	}
	return nil, nil
}
