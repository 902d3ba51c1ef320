// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"strings"
	"time"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// AppendExpirationNote appends to the message of a Backup when it expires, if only the operator's default says so: its
// author may not expect that.
func AppendExpirationNote(message string, b *v1alpha1.Backup) string {
	if b.Spec.TTL != nil {
		return message
	}
	return TruncateMessage(message + expirationNote(b))
}

// ReplaceExpirationNote returns the message of a Backup whose ttl or expiration was changed.
func ReplaceExpirationNote(before, after *v1alpha1.Backup) string {
	return AppendExpirationNote(strings.Replace(before.Status.Message, expirationNote(before), "", 1), after)
}

// expirationNote returns the note about an expiration by default; "" if there was no default.
func expirationNote(b *v1alpha1.Backup) string {
	if b.Status.DefaultTTL == nil || b.Status.Expiration == nil {
		return ""
	}
	return fmt.Sprintf("; expires at %s by default: spec.ttl was not set", b.Status.Expiration.UTC().Format(time.RFC3339))
}
