// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package selection

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

func (s *Selection) compileLabels(spec Spec) error {
	all := spec.OrLabelSelectors
	if spec.LabelSelector != nil {
		all = []*metav1.LabelSelector{spec.LabelSelector}
	}
	for _, ls := range all {
		selector, err := metav1.LabelSelectorAsSelector(ls)
		if err != nil {
			return fmt.Errorf("compiling label selector: %w", err)
		}
		if selector.Empty() {
			s.selectors = nil // one alternative that matches everything
			return nil
		}
		s.selectors = append(s.selectors, selector)
	}
	return nil
}

// MatchesLabels reports whether an item with these labels matches the label selectors: the
// labelSelector, or at least one of orLabelSelectors. Without selectors everything matches.
// Items that are archived because another item or a plugin requests them, and Namespace
// objects (see ShouldArchiveNamespace), need not match. It is cheap enough to be called for
// every item.
func (s *Selection) MatchesLabels(set map[string]string) bool {
	if len(s.selectors) == 0 {
		return true
	}
	for _, selector := range s.selectors {
		if selector.Matches(labels.Set(set)) {
			return true
		}
	}
	return false
}

// ListSelectors returns the label selector to send with list requests: one string, or none
// if there is no selector or if there are several alternatives, which the API server cannot
// combine. In the latter case, list without a selector and call MatchesLabels for each
// item.
func (s *Selection) ListSelectors() []string {
	if len(s.selectors) != 1 {
		return nil
	}
	return []string{s.selectors[0].String()}
}
