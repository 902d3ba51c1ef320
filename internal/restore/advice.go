// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/grapnel-dev/grapnel/internal/panics"
	"github.com/grapnel-dev/grapnel/internal/rawclient"
)

// errorAdvice is a hint for an error of the API server.
type errorAdvice struct {
	applies func(err error, message string) bool
	text    string
}

func messageContains(parts ...string) func(error, string) bool {
	return func(_ error, message string) bool {
		for _, part := range parts {
			if strings.Contains(message, part) {
				return true
			}
		}
		return false
	}
}

// advices are tried in this order.
var advices = []errorAdvice{
	{
		func(err error, _ string) bool { return errors.As(err, new(*panics.Error)) },
		"this is a fault of Grapnel, whose stack is in the log of the operator: report it; all other objects are restored",
	},
	{
		func(err error, _ string) bool { return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) },
		"the namespace is being deleted: restore again after it is deleted",
	},
	{messageContains("exceeded quota"), "raise the quota of the namespace and restore again"},
	{
		messageContains("failed calling webhook", "failed to call webhook"),
		"a webhook does not answer: fix it, or remove its configuration, and restore again",
	},
	{messageContains("admission webhook", "ValidatingAdmissionPolicy"), "a policy of the cluster rejects it: change the policy or the object"},
	{
		messageContains("port is already allocated"),
		"another Service has the port: change that Service or, if no user set this port, restore without preserveNodePorts",
	},
	{
		func(err error, _ string) bool { return errors.Is(err, errStillDeleting) },
		"restore again after it is deleted",
	},
	{
		messageContains("field is immutable", "updates to", "may not be changed", "may not change"),
		"it cannot be changed in place: existingResourcePolicy recreate replaces it",
	},
	{func(err error, _ string) bool { return apierrors.IsRequestEntityTooLargeError(err) }, "the API server does not accept objects of this size"},
	{
		func(err error, message string) bool {
			return apierrors.IsForbidden(err) && strings.Contains(message, " cannot ")
		},
		"the operator does not have the required permission",
	},
	{
		func(err error, _ string) bool {
			return apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err)
		},
		"the API server was too busy for too long: restore again",
	},
}

// explainError adds the object to an error, unless the error already names it, and a hint.
func explainError(about string, err error) error {
	message := err.Error()
	if !strings.Contains(message, about) {
		err = fmt.Errorf("%s: %w", about, err)
	}
	for _, a := range advices {
		if a.applies(err, message) {
			return fmt.Errorf("%w; %s", err, a.text)
		}
	}
	return err
}

// hasNoResponse reports whether the API server did not respond.
func hasNoResponse(err error) bool { return rawclient.IsConnectionError(err) }
