// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"fmt"
	"slices"
	"strings"

	"github.com/grapnel-dev/grapnel/sdk"
)

// maxActions is how many actions one plugin may provide: all of them are shown in
// the status of its Plugin object.
const maxActions = 256

// listedAction is one action that a plugin lists.
type listedAction struct {
	action ListedAction
	// supported is true if the lister may list the kind and any version of it can be
	// called.
	supported bool
	// listedName are the kind and version as listed.
	listedName string
	// problem is a violation of rules that are specific to the lister.
	problem string
}

// buildListing applies the rules for listed actions, and omits kinds that only a newer
// operator may know.
func buildListing(kinds []ActionKind, offers []listedAction) (Listing, error) {
	if err := validateListedActions(offers); err != nil {
		return Listing{}, err
	}
	var listing Listing
	var actions []ListedAction
	for _, o := range offers {
		if o.supported {
			actions = append(actions, o.action)
		} else {
			listing.Ignored = append(listing.Ignored, o.listedName)
		}
	}
	slices.Sort(listing.Ignored)
	if len(actions) == 0 {
		return Listing{}, newNoActionsError(listing.Ignored)
	}
	if err := checkVersionsSupported(kinds, actions); err != nil {
		return Listing{}, err
	}
	for _, action := range actions {
		if isSupportedVersion(kinds, action) {
			listing.Actions = append(listing.Actions, action)
		}
	}
	slices.SortFunc(listing.Actions, compareActions)
	return listing, nil
}

// validateListedActions applies the rules for names.
func validateListedActions(offers []listedAction) error {
	if len(offers) > maxActions {
		return newInvalidRegistrationError("it provides %d actions, at most %d are allowed", len(offers), maxActions)
	}
	seen := map[ListedAction]bool{}
	for _, o := range offers {
		if err := sdk.ValidateName(sdk.Kind(o.action.Kind), o.action.Name); err != nil {
			return newInvalidRegistrationError("a %s has an invalid name: %s", o.action.Kind, err)
		}
		if o.problem != "" {
			return newInvalidRegistrationError("%s", o.problem)
		}
		if seen[o.action] {
			return newInvalidRegistrationError("it lists %s %s twice: every name may be registered once per kind and version", o.action.ID(), o.action.Version)
		}
		seen[o.action] = true
	}
	return nil
}

func compareActions(a, b ListedAction) int {
	return strings.Compare(a.Kind+" "+a.Name+" "+a.Version, b.Kind+" "+b.Name+" "+b.Version)
}

// newNoActionsError explains why no action of a plugin can be used.
func newNoActionsError(ignored []string) *ListError {
	if len(ignored) == 0 {
		return newInvalidRegistrationError("it provides no actions: register some before serving")
	}
	return newInvalidRegistrationError("all it provides is %s, which this version of Grapnel does not support: "+
		"upgrade Grapnel, use an older version of the plugin, or remove the Plugin", strings.Join(ignored, ", "))
}

// checkVersionsSupported returns an error if an action is offered only in unknown versions. Loading
// the plugin without the action is no option: whoever installed the plugin relies on it.
func checkVersionsSupported(kinds []ActionKind, actions []ListedAction) error {
	chosen := SelectVersions(kinds, actions)
	var missing []ActionID
	offered := map[ActionID][]string{}
	for _, action := range actions {
		id := action.ID()
		if _, ok := chosen[id]; ok {
			continue
		}
		if offered[id] == nil {
			missing = append(missing, id)
		}
		offered[id] = append(offered[id], action.Version)
	}
	if len(missing) == 0 {
		return nil
	}
	id := slices.MinFunc(missing, func(a, b ActionID) int { return strings.Compare(a.String(), b.String()) })
	var calls []string
	for _, version := range supportedVersions(kinds, id.Kind) {
		calls = append(calls, version.Name)
	}
	slices.Sort(offered[id])
	text := fmt.Sprintf("its %s %s is offered in %s only, this Grapnel calls %s",
		id.Kind, id.Name, strings.Join(offered[id], " and "), strings.Join(calls, " or "))
	if more := len(missing) - 1; more > 0 {
		text += fmt.Sprintf(" (the same goes for %d more of its actions)", more)
	}
	return &ListError{Reason: ReasonNotAdaptable, Message: text +
		": upgrade Grapnel, or use a release of the plugin that offers one of these versions"}
}

func newInvalidRegistrationError(format string, args ...any) *ListError {
	return &ListError{Reason: ReasonInvalidRegistration, Message: fmt.Sprintf(format, args...)}
}
